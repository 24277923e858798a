import {
  choice,
  map,
  option,
  secret,
  templateFaults,
  templateText,
  text,
  verbatim,
  whole,
  z,
} from '../../src/sdk/index.js';

/** A number of bytes: 900kB, 4MB or a plain number. */
function bytes(description: string, example: string) {
  const units: Readonly<Record<string, number>> = { '': 1, B: 1, kB: 1e3, MB: 1e6, KiB: 1024, MiB: 1024 ** 2 };
  const schema = z
    .string()
    .regex(/^\d+(\.\d+)?\s*(B|kB|MB|KiB|MiB)?$/)
    .transform((written) => {
      const [, number = '', unit = ''] = /^([\d.]+)\s*(\w*)$/.exec(written) ?? [];
      return Math.floor(Number(number) * (units[unit] ?? 1));
    });
  return option(schema, { description, example, allowed: 'a number of bytes, such as 900kB or 4MB' });
}

const header = secret(/^[^\r\n\0]+$/, {
  description: 'Value of the header; may have placeholders.',
  example: '2026-07-15',
  allowed: 'text on one line',
  template: true,
  check: templateFaults,
  holdsSecret: () => false,
});

const statusWord = option(z.string().regex(/^[1-5](\d\d|xx)$/), {
  description: 'A status, or all of a hundred.',
  example: '2xx',
  allowed: 'a status such as 204, or 2xx',
});

const againRule = option(
  z.union([
    statusWord,
    option(
      map({
        status: statusWord,
        path: text({ description: 'The member of the response to look at.', example: 'error.code' }),
        in: option(z.array(verbatim({ description: 'A value of it.', example: '17' })).min(1), {
          description: 'Its values that mean: again.',
        }),
      }),
      { description: 'A status with a value in its response.' },
    ),
  ]),
  { description: 'A status that means: again.', allowed: 'a status such as 423, or { status, path, in }' },
);

const onePath = option(z.string(), { description: 'A path.', example: 'errors' });

const paths = (description: string, example: string) =>
  option(z.union([option(z.array(onePath).min(1), { description: 'Paths.', example: ['errors'] }), onePath]), {
    description,
    example,
    allowed: 'a path such as error.message, or a list of paths',
  });

const results = option(
  map({
    path: paths(
      'Where the list of results is: members with dots, `*` for any; an empty text for the whole response.',
      'errors',
    ),
    entry: option(z.string(), {
      description: 'A path inside each entry, such as `*` for its only member.',
      example: '*',
    }).optional(),
    index: text({
      description: "The member with the record's number in the request, from 0.",
      example: 'index',
    }).optional(),
    key: option(z.string(), {
      description:
        'The member with a text, or a list of texts, that names the record; an empty text for the entry itself.',
      example: 'external_id',
    }).optional(),
    equals: templateText({
      description: 'What `key` is compared with. Default: the key of the row.',
      example: '{{ email }}',
    }).optional(),
    refused: text({
      description: 'A record whose entry has something in this member is refused.',
      example: 'error',
    }).optional(),
    ok: text({
      description: 'A record whose entry does not have `true` here is refused.',
      example: 'success',
    }).optional(),
    status: text({ description: 'The member with the status of the record.', example: 'status' }).optional(),
    reason: text({ description: 'The member with the reason.', example: 'error.reason' }).optional(),
  }),
  { description: 'Where the response has the result of each record.', example: { path: 'errors', index: 'index' } },
);

export const responseOption = option(
  map({
    accepted: option(z.array(statusWord).min(1), {
      description: 'Statuses that acknowledge. Default: 2xx.',
      example: ['200', '201'],
    }).optional(),
    again: option(z.array(againRule).min(1), {
      description: 'Failures that are tried again besides 408, 425, 429 and 5xx.',
      example: ['423'],
    }).optional(),
    success: option(
      map({
        path: text({ description: 'The member to look at.', example: 'ok' }),
        equals: verbatim({ description: 'Its value if the records were taken.', example: 'true' }),
      }),
      {
        description: 'The value that a 2xx must have. One without it refuses.',
        example: { path: 'ok', equals: 'true' },
      },
    ).optional(),
    reason: paths('Where the reason of a refusal is.', 'error.message').optional(),
    results: results.optional(),
    count: text({
      description: 'A member that says how many records were not taken: shown, and no reject.',
      example: 'invalid',
    }).optional(),
  }),
  { description: 'How responses are read.', example: { success: { path: 'ok', equals: 'true' } } },
);

const bodyOption = (description: string, example: unknown) =>
  option(z.unknown(), { description, example, allowed: 'any value', template: true, check: templateFaults });

/** The parts of the requests of one kind of change. */
export const requestShape = {
  url: secret(/^https?:\/\/[^\s/?#{]+(?:[/?#][\s\S]*)?$/, {
    description:
      'Where to send. Values of placeholders are percent-encoded; `| raw` leaves them as they are. Outputs show only its host. Redirects are not followed.',
    example: 'https://api.example.com/v3/contacts/{{ id }}',
    allowed: 'a URL that begins with https:// or http:// and whose host has no placeholder',
    template: true,
    check: templateFaults,
    holdsSecret: (written) => /^https?:\/\/[^/]*@|[?&][^=&{]*(key|token|secret|sig)[^=&]*=[^{]/i.test(written),
  }).optional(),
  method: choice(['post', 'put', 'patch', 'delete', 'get'], { description: 'The method.', example: 'put' }).optional(),
  headers: option(z.record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/), header), {
    description: 'Headers; they take the place of those that cdsync sends. Outputs do not show their values.',
    example: { 'x-api-version': '2026-07-15' },
    allowed: 'a name that HTTP allows for a header',
  }).optional(),
  body: bodyOption(
    'The body, a text, a list or a map of any depth with placeholders ([templates](../../docs/templates.md)); `none` sends none. Left out everywhere, cdsync sends batches in its own format.',
    { email: '{{ email | downcase }}', points: '{{ points }}' },
  ).optional(),
  format: choice(['json', 'form', 'ndjson', 'text'], {
    description: 'How the body is written.',
    example: 'form',
  }).optional(),
  batch: option(
    map({
      records: whole(1, 10_000, { description: 'The most records in one request.', example: 75 }).optional(),
      bytes: bytes('The most bytes in one request. A longer record is refused.', '900kB').optional(),
      body: bodyOption(
        'The body of a request, where `{{ records }}` is the list of the bodies of all rows. Default: the list alone.',
        {
          attributes: '{{ records }}',
        },
      ).optional(),
    }),
    { description: 'Sends several records in one request.', example: { records: 75 } },
  ).optional(),
  required: option(z.array(text({ description: 'A member.', example: 'external_id' })).min(1), {
    description: 'Members of the body, by name or path, that must not be NULL or empty: such a row is set aside.',
    example: ['external_id'],
  }).optional(),
  response: responseOption.optional(),
};

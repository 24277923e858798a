import {
  choice,
  duration,
  flag,
  map,
  namedOnce,
  type OptionProblem,
  objectStoreOptions,
  objectStoreRules,
  option,
  path,
  secret,
  templateFaults,
  templateText,
  text,
  verbatim,
  whole,
  z,
} from '../../src/sdk/index.js';
import { type Encoding, lostLetter } from './letters.js';
import { namesIn, uses } from './template-names.js';

const anyText = /^[\s\S]+$/;
/** Text that may be empty, exactly as it is written. */
const plain = (info: Parameters<typeof text>[0]) => option(z.string(), { allowed: 'text', verbatim: true, ...info });
/** A template that may be empty. */
const template = (info: Parameters<typeof text>[0]) =>
  option(z.string(), { allowed: 'text, which may have placeholders', check: templateFaults, ...info, template: true });

/** A pattern of dates, as far as DuckDB knows it. */
const pattern = (info: Parameters<typeof text>[0]) =>
  text({
    ...info,
    verbatim: true,
    check(value) {
      const [strange] =
        /%(?!-?[dHIMSjmy]|[aAbBcfgGhnpTuUVwWxXYzZ%])[\s\S]{0,2}/.exec(String(value).replaceAll('%%', '')) ?? [];
      return strange === undefined ? [] : [{ path: [], message: `"${strange}" is not a part of a date` }];
    },
  }).prefault('iso');

const csv = option(
  map({
    delimiter: option(z.string(), {
      description: 'The separator of values: exactly one character of ASCII.',
      example: ';',
      allowed: 'one character such as ; , | or a tab, written "\\t"',
      verbatim: true,
      // DuckDB ends the whole process at a letter of several bytes.
      check: (value) =>
        String(value).length === 1 && String(value) <= '~' && !/["\r\n]/.test(String(value))
          ? []
          : [{ path: [], message: 'the delimiter must be exactly one character of ASCII, and no quote or line end' }],
    }).optional(),
    quote: choice(['all', 'needed', 'none'], {
      description:
        '`all` puts every value in quotes but NULL, `needed` only those that need them, `none` sets rows aside that need one.',
      example: 'all',
    }).prefault('needed'),
    header: flag({ description: 'Whether the first line names the columns.', example: false }).prefault(true),
    null: plain({
      description: 'The text for NULL, without quotes and delimiters.',
      example: 'NULL',
      check: (value) => (/["\r\n]/.test(String(value)) ? [{ path: [], message: 'may have no quote or line end' }] : []),
    }).prefault(''),
    line_end: choice(['lf', 'crlf'], { description: 'How lines end.', example: 'crlf' }).prefault('lf'),
    bom: flag({ description: 'Whether the file begins with a byte order mark.', example: true }).prefault(false),
    formulas: choice(['keep', 'escape'], {
      description:
        '`escape` puts an apostrophe before texts that a spreadsheet program would take for a formula; numbers stay.',
      example: 'escape',
    }).prefault('keep'),
    date: pattern({ description: '`iso`, or a pattern of strftime for dates.', example: '%d.%m.%Y' }),
    timestamp: pattern({
      description: '`iso`, or a pattern of strftime for times, which are in `time_zone`.',
      example: '%d.%m.%Y %H:%M:%S',
    }),
    encoding: choice(['utf-8', 'latin1', 'windows-1252', 'utf-16le'], {
      description: 'The encoding. A value with a letter that does not fit is left empty, and listed: see `on_reject`.',
      example: 'latin1',
    }).prefault('utf-8'),
    first_line: template({
      description: 'A line before the header. It may name `rows`.',
      example: 'HDR;{{ stream }}',
    }).prefault(''),
    last_line: template({
      description: 'A line after the last row. It may name `rows`.',
      example: 'TRL;{{ rows }}',
    }).prefault(''),
  }),
  { description: 'The dialect of `format: csv` and `tsv`.', example: { delimiter: ';', quote: 'all' } },
);

const done = option(
  z.union([
    template({ description: 'Name of an empty file.', example: '{{ file }}.done' }),
    option(
      map({
        file: template({ description: 'Its name.', example: '{{ file }}.done' }).prefault('{{ file }}.done'),
        body: template({ description: 'Its content.', example: '{{ rows }};{{ bytes }};{{ sha256 }}' }).prefault(''),
      }),
      { description: 'A file with content.' },
    ),
  ]),
  {
    description:
      'A file that is written last, when all else is there. Its name may have `file`, its content also `rows`, `bytes`, `sha256`, `md5`.',
    example: '{{ file }}.done',
    allowed: 'a name, or a map of file and body',
  },
);

const encrypt = option(
  map({
    pgp: option(z.array(path({ description: 'A file with public keys.', example: './partner.asc' })).min(1), {
      description: 'Files with the public keys of those who may read the files.',
      example: ['./partner.asc'],
    }),
    sign: secret(anyText, {
      description: 'A private key of yours, armored: signs the files.',
      example: '${OUR_KEY}',
    }).optional(),
    passphrase: secret(anyText, {
      description: 'The passphrase of that key.',
      example: '${OUR_KEY_PASSPHRASE}',
    }).optional(),
    armor: flag({ description: 'Whether the files are text.', example: true }).prefault(false),
  }),
  {
    description: 'Encrypts with PGP before anything leaves this machine. Needs the package openpgp.',
    example: { pgp: ['./partner.asc'] },
  },
);

export const exportOptions = {
  path: path({ description: 'Folder of the files. cdsync makes it if it is missing.', example: './out' }).optional(),
  url: option(z.string().regex(/^(sftp|s3|az):\/\/[^\s?#]+$/), {
    description:
      'Where the files go, instead of `path`: `sftp://user@host:22/folder` (needs the package ssh2), `s3://bucket/prefix` (@aws-sdk/client-s3, @aws-sdk/lib-storage), `az://container/prefix` (@azure/storage-blob).',
    example: 'sftp://cdp@files.partner.example/incoming',
    allowed: 'sftp://user@host/folder, s3://bucket/prefix or az://container/prefix, without a password',
    check: (value) =>
      /^\w+:\/\/[^/@]*:[^/@]*@/.test(String(value))
        ? [{ path: [], message: 'a password in the URL would be shown: use `password`' }]
        : [],
  }).optional(),
  password: secret(anyText, { description: 'SFTP: the password.', example: '${PARTNER_PASSWORD}' }).optional(),
  private_key: secret(anyText, {
    description: 'SFTP: the private key, in the format of OpenSSH, PEM or PKCS#8.',
    example: '${PARTNER_KEY}',
  }).optional(),
  key_passphrase: secret(anyText, {
    description: 'SFTP: its passphrase.',
    example: '${PARTNER_KEY_PASSPHRASE}',
  }).optional(),
  agent: flag({ description: 'SFTP: whether the keys of the SSH agent are used.', example: true }).prefault(false),
  host_key: option(
    z.union([
      verbatim({ description: 'A fingerprint.', example: 'SHA256:6DkZs1m5…' }),
      option(z.array(verbatim({ description: 'A fingerprint.', example: 'SHA256:6DkZs1m5…' })).min(1), {
        description: 'Fingerprints.',
      }),
    ]),
    {
      description: 'SFTP: fingerprints of the keys of the server, SHA256. `cdsync check` shows those that it has.',
      example: ['SHA256:6DkZs1m5…'],
      allowed: 'a fingerprint such as SHA256:…, or a list of them',
    },
  ).optional(),
  select: option(z.array(text({ description: 'A column of the stream.', example: 'email' })).min(1), {
    description: 'The columns of the files, in this order. Default: all. With `content: all` the key may be left out.',
    example: ['email', 'phone'],
    allowed: 'a list of columns',
    check: namedOnce,
  }).optional(),
  file: templateText({
    description:
      'The name of a file, a template: `stream`, `job`, `run_id`, `date`, `time`, `sequence`, `day_sequence`, `part`, `op`. With `op`, inserted, updated and deleted rows go into files of their own. Folders are made.',
    example: "{{ stream }}_{{ date | date: '%Y%m%d' }}_{{ sequence | pad: 4 }}.csv",
  }),
  time_zone: verbatim({
    description: 'The time zone of dates in names and of times in files.',
    example: 'Europe/Berlin',
  }).prefault('UTC'),
  content: choice(['all', 'changes'], {
    description: '`all`: the whole list. `changes`: what changed since the last file that was handed over, with `_op`.',
    example: 'changes',
  }).prefault('all'),
  when: choice(['changed', 'always'], {
    description: '`changed`: no file if nothing has changed. `always`: a file with each delivery.',
    example: 'always',
  }).prefault('changed'),
  empty: choice(['send', 'skip', 'fail'], {
    description: 'What to do with a list, or changes, without rows: send a file without rows, none, or fail.',
    example: 'fail',
  }).prefault('send'),
  format: choice(['csv', 'tsv', 'jsonl', 'json', 'parquet'], {
    description: 'Text with delimiters, one JSON object a line, one JSON list, or Parquet.',
    example: 'jsonl',
  }).prefault('csv'),
  csv: csv.prefault({}),
  compress: choice(['none', 'gzip', 'zip'], {
    description: 'Compresses the file. The suffix is added unless the name ends so.',
    example: 'gzip',
  }).prefault('none'),
  encrypt: encrypt.optional(),
  split: option(
    map({
      rows: whole(1, 1_000_000_000, { description: 'Most rows of a file …', example: 1_000_000 }).optional(),
      bytes: whole(1024, 1_000_000_000_000, {
        description: '… or most bytes, before compression.',
        example: 100_000_000,
      }).optional(),
    }),
    {
      description: 'Writes several files, whose name needs `part`.',
      example: { rows: 1_000_000 },
      forms: [['rows'], ['bytes']],
    },
  ).optional(),
  upload: choice(['rename', 'direct'], {
    description:
      '`rename`: uploaded under a temporary name, then renamed. `direct`: for servers that forbid that; a torn file has the final name until the next try.',
    example: 'direct',
  }).prefault('rename'),
  temporary: template({
    description: 'The temporary name, a template with `name`. It may be in another folder.',
    example: '.{{ name }}.part',
  }).prefault('.{{ name }}.part'),
  file_mode: option(z.string().regex(/^0?[2-7][0-7]{2}$/), {
    description: 'Permissions of the files in a folder or on an SFTP server, as octal digits.',
    example: '0640',
    allowed: 'octal permissions such as "0600" or "0640"',
    verbatim: true,
  }).prefault('0640'),
  checksum: choice(['none', 'sha256', 'md5'], {
    description: 'A file beside it, such as `name.sha256`, that `sha256sum -c` reads.',
    example: 'sha256',
  }).prefault('none'),
  done: done.optional(),
  acl: text({ description: 'S3: the canned ACL of the objects.', example: 'bucket-owner-full-control' }).optional(),
  sse: choice(['AES256', 'aws:kms'], {
    description: 'S3: the encryption by the store.',
    example: 'aws:kms',
  }).optional(),
  kms_key: verbatim({ description: 'S3: the key of `sse: aws:kms`.', example: 'alias/exports' }).optional(),
  overwrite: flag({
    description: 'Whether a file of the same name that cdsync did not write is replaced.',
    example: true,
  }).prefault(false),
  keep: duration({ description: 'Removes files of this destination that are older.', example: '30d' }).optional(),
  ...objectStoreOptions,
};

export type ExportShape = typeof exportOptions;

type Raw = Readonly<Record<string, unknown>>;
const isMap = (value: unknown): value is Raw => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Names that templates of file names may have. */
const nameFacts = ['stream', 'job', 'run_id', 'date', 'time', 'sequence', 'day_sequence', 'part', 'op'] as const;
/** The same for the mark: what its file is one of, `file` says. */
const markFacts = [...nameFacts.filter((name) => name !== 'part' && name !== 'op'), 'file'];
const sizeFacts = ['rows', 'bytes', 'sha256', 'md5'];

function unknownNames(written: unknown, at: (string | number)[], allowed: readonly string[]): OptionProblem[] {
  return namesIn(written)
    .filter(({ name }) => !allowed.includes(name))
    .map(({ name, placeholder }) => ({
      path: at,
      placeholder,
      code: 'template_invalid',
      message: `"${name}" cannot be used here: no value of a row may stand in the name of a file; allowed: ${allowed.join(', ')}`,
    }));
}

const onlyFor: Readonly<Record<string, readonly string[]>> = {
  sftp: ['password', 'private_key', 'key_passphrase', 'host_key', 'agent'],
  s3: ['acl', 'sse', 'kms_key'],
};

/** Rules between the options. */
export function checkExport(value: unknown): OptionProblem[] {
  const options = value as Raw;
  const has = (key: string) => options[key] !== undefined;
  const findings: OptionProblem[] = [];
  const refuse = (where: (string | number)[], message: string, rest: Partial<OptionProblem> = {}) =>
    findings.push({ path: where, message, ...rest });
  if (has('path') === has('url')) refuse([], 'give exactly one of `path` and `url`: it says where the files go');
  const scheme = /^(\w+):/.exec(String(options.url ?? ''))?.[1] ?? '';
  // A variable without a value may be of any kind.
  const isOpen = has('url') && typeof options.url !== 'string';
  for (const [kind, keys] of Object.entries(onlyFor))
    for (const key of keys.filter((name) => has(name) && scheme !== kind && !isOpen))
      refuse([key], `needs a \`url\` that begins with ${kind}://`);
  if (scheme === 'sftp' && !has('host_key'))
    refuse(
      [],
      '`host_key` is missing: without it, any machine could take the files; `ssh-keyscan -t ed25519,rsa HOST | ssh-keygen -lf -` shows it',
      {
        missing: 'host_key',
      },
    );
  if (scheme === 'sftp' && !has('password') && !has('private_key') && options.agent !== true)
    refuse([], 'an SFTP server needs `password`, `private_key` or `agent: true`');
  if (/^sftp:\/\/(@|[^@]*$)/.test(String(options.url ?? '')))
    refuse(['url'], 'an SFTP server needs a user: sftp://user@host/folder');
  for (const pin of [options.host_key ?? []].flat())
    if (typeof pin === 'string' && !pin.startsWith('SHA256:'))
      refuse(['host_key'], 'is not a fingerprint such as SHA256:…, as ssh-keygen -l shows it');
  const csvOptions = isMap(options.csv) ? options.csv : {};
  const { format = 'csv', file } = options;
  if (isMap(options.csv) && format !== 'csv' && format !== 'tsv')
    refuse(['csv'], 'only `format: csv` and `tsv` have it');
  if (format === 'parquet' && has('compress') && options.compress !== 'none')
    refuse(['compress'], 'Parquet is compressed inside');
  if (format === 'parquet' && isMap(options.split) && options.split.bytes !== undefined)
    refuse(['split'], 'Parquet is split by `rows` only');
  if (has('split') && typeof file === 'string' && !uses(file, 'part'))
    refuse(['file'], '`split` needs {{ part }} in the name');
  if (uses(file, 'op') && options.content !== 'changes') refuse(['file'], '{{ op }} needs `content: changes`');
  findings.push(...unknownNames(file, ['file'], nameFacts));
  findings.push(...unknownNames(options.temporary, ['temporary'], ['name']));
  const lines = [...nameFacts, 'rows'];
  for (const key of ['first_line', 'last_line']) findings.push(...unknownNames(csvOptions[key], ['csv', key], lines));
  if (isMap(options.split) && options.split.bytes !== undefined && uses(csvOptions.first_line, 'rows'))
    refuse(['csv', 'first_line'], 'with `split.bytes` the number of rows is not known before the last of them');
  const { encoding, delimiter = format === 'tsv' ? '\t' : ',' } = csvOptions;
  if (String(csvOptions.null ?? '').includes(String(delimiter))) refuse(['csv', 'null'], 'holds the delimiter');
  for (const key of ['first_line', 'last_line', 'null', 'date', 'timestamp']) {
    const lost = lostLetter(String(csvOptions[key] ?? ''), encoding as Encoding);
    if (lost !== undefined) refuse(['csv', key], `${encoding} has no letter for "${lost}"`);
  }
  const { done: mark } = options;
  findings.push(...unknownNames(isMap(mark) ? mark.file : mark, isMap(mark) ? ['done', 'file'] : ['done'], markFacts));
  if (isMap(mark)) findings.push(...unknownNames(mark.body, ['done', 'body'], [...markFacts, ...sizeFacts]));
  if (has('time_zone') && !isTimeZone(String(options.time_zone)))
    refuse(['time_zone'], `"${String(options.time_zone)}" is not a time zone such as UTC or Europe/Berlin`);
  return [...findings, ...objectStoreRules(options)];
}

function isTimeZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).format(0) !== '';
  } catch {
    return false;
  }
}

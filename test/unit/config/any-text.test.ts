import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import { parse, withStream } from './sample.js';

const secret = 'hunter2-s3cr3t';
const open = '$\u007b';

/** A configuration with secrets in the file and in a variable; the tests damage it. */
const sound = `version: 1
service:
  base_url: http://me:${secret}@127.0.0.1:8787
  tenant_id: acme
  auth: { client_id: me, client_secret: ${secret} }
  page_size: ${open}SECRET}
  retry:
    max_attempts: ${open}SECRET:-3}
storage: ./data
jobs:
  a:
    streams:
      - &s { name: s, source: index_profiles, index: "${open}SECRET}", filter: { t: "${open}SECRET}" } }
      - <<: *s
        name: t
        check_total: "x${open}SECRET}"
`;

function throwsOnlyOnPurpose(text: string): void {
  try {
    parse(text, { SECRET: secret });
  } catch (error) {
    expect(error).toBeInstanceOf(CdsyncError);
    expect((error as CdsyncError).message).not.toContain(secret);
    expect(JSON.stringify(error)).not.toContain(secret);
  }
}

test('no text makes the parser throw anything but a CdsyncError', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => throwsOnlyOnPurpose(text)),
    { numRuns: 300 },
  );
});

test('no YAML of odd parts makes it throw anything else', () => {
  const part = fc.constantFrom(
    ...[
      'a',
      ': ',
      ':',
      '\n',
      '\n  ',
      '- ',
      '? ',
      '[',
      ']',
      '{',
      '}',
      ',',
      '&a ',
      '*a',
      '<<: ',
      '!t ',
      '|',
      '>',
      '"',
      "'",
    ],
    ...[
      '#',
      '---',
      '...',
      '%YAML 1.1',
      '\t',
      '~',
      '1',
      open,
      '}',
      '$',
      'jobs',
      'service',
      'defaults',
      'streams',
      '\u0000',
    ],
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (parts) => throwsOnlyOnPurpose(parts.join(''))),
    { numRuns: 1000 },
  );
});

test('a configuration damaged anywhere makes it throw nothing else, and no message shows a secret', () => {
  const junk = fc.oneof(
    fc.constantFrom('\n', ' ', ':', '{', '"', '- ', '\t', '&s ', '*s', '!', '# '),
    fc.string({ maxLength: 3 }),
  );
  const secretEnds = [...sound.matchAll(new RegExp(secret, 'g'))].map(({ index }) => [index, index + secret.length]);
  const outside = (at: number) => secretEnds.every(([from = 0, to = 0]) => at <= from || at >= to);
  fc.assert(
    fc.property(fc.nat(sound.length), fc.nat(12), junk, (at, removed, inserted) => {
      const end = outside(at + removed) ? at + removed : at;
      if (outside(at)) throwsOnlyOnPurpose(sound.slice(0, at) + inserted + sound.slice(end));
    }),
    { numRuns: 1500 },
  );
});

test('a value of any kind under any key makes it throw nothing else', () => {
  const keys = [
    'name',
    'source',
    'index',
    'filter',
    'partition_by',
    'page_size',
    'check_total',
    'contract',
    'guards',
    'x',
  ];
  fc.assert(
    fc.property(fc.constantFrom(...keys), fc.json({ maxDepth: 3 }), (key, value) => {
      throwsOnlyOnPurpose(withStream('source: index_profiles', `${key}: ${value}`));
    }),
    { numRuns: 500 },
  );
});

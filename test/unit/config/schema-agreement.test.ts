import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { connectors } from '../../../connectors/index.js';
import { configJsonSchema } from '../../../src/config/json-schema.js';
import { lintConfig } from '../../../src/config/parse.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Every whole configuration of the examples and the pages. */
function* examples(): Generator<{ name: string; text: string }> {
  for (const name of readdirSync(`${root}configs`))
    if (name.endsWith('.yaml')) yield { name, text: readFileSync(`${root}configs/${name}`, 'utf8') };
  const pages = readdirSync(`${root}docs`).filter((name) => name.endsWith('.md'));
  for (const name of ['README.md', ...pages.map((page) => `docs/${page}`)]) {
    const blocks = readFileSync(root + name, 'utf8').matchAll(/^```yaml\n([\s\S]*?)^```/gm);
    for (const [at, [, text = '']] of [...blocks].entries())
      if (/^service:/m.test(text) && /^jobs:/m.test(text)) yield { name: `${name} ${at}`, text };
  }
}

const ajv = new Ajv2020({ strict: true, allErrors: true });
const validate = ajv.compile(configJsonSchema());

function byCheck(text: string): string {
  try {
    lintConfig(text, `${root}configs/x.yaml`, {
      env: {},
      connectors: new Map(connectors.map((each) => [each.name, each])),
    });
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}
function bySchema(text: string): string {
  return validate(parse(text)) ? '' : ajv.errorsText(validate.errors).slice(0, 300);
}

type Path = readonly (string | number)[];
function* paths(part: unknown, path: Path): Generator<Path> {
  if (path.length > 0) yield path;
  if (typeof part !== 'object' || part === null) return;
  for (const [key, value] of Object.entries(part))
    yield* paths(value, [...path, Array.isArray(part) ? Number(key) : key]);
}
const values: readonly unknown[] = [
  ...[undefined, null, '', [], {}, ['a'], { a: 1 }, 5, 0.05, -1, 640, true, 'zzz', 'a__b', 'a\u0000b'],
  ...[
    '$\u007bNAME}',
    '$\u007bfile:./x}',
    '$\u007bnot a name}',
    '$NAME',
    '5%',
    '105%',
    '5 rows',
    'off',
    '12',
    '12h',
    '0640',
  ],
  ...['2026-01-01', 'ftp://example.com/x', 'https://example.com'],
];

/** The document with the part at the path replaced; undefined removes it. */
function changed(document: unknown, path: Path, value: unknown): unknown {
  const copy = structuredClone(document) as Record<string | number, never>;
  let at = copy;
  for (const key of path.slice(0, -1)) at = at[key] as never;
  const last = path.at(-1) as string;
  if (value !== undefined) (at as Record<string, unknown>)[last] = value;
  else if (Array.isArray(at)) at.splice(Number(last), 1);
  else delete at[last];
  return copy;
}

/** What no schema can know: names of streams, modules that are not here, the rules of each place of a template. */
const beyond = [
  /has no stream/,
  /connector: unknown value/,
  /\.body[.:]/,
  /exactly one of `path` and `url`/,
  /publish\.mode/,
];

const documents = [...examples()].map(({ name, text }) => ({ name, text, document: parse(text) as unknown }));

test('editors take every example, as check does', () => {
  expect(documents.length).toBeGreaterThan(7);
  for (const { name, text } of documents) expect([name, byCheck(text), bySchema(text)]).toEqual([name, '', '']);
});

test('editors and check agree about hundreds of mutations of the examples', () => {
  const mutations = documents.flatMap(({ document }) =>
    [...paths(document, [])].flatMap((path) => values.map((value) => ({ document, path, value }))),
  );
  // A step that is prime to the number of values, so that each path gets others.
  const chosen = mutations.filter((_, at) => at % 37 === 5);
  expect(chosen.length).toBeGreaterThan(200);
  const refused = { both: 0, neither: 0 };
  for (const { document, path, value } of chosen) {
    const text = stringify(changed(document, path, value));
    const [check, schema] = [byCheck(text), bySchema(text)];
    if (check !== '' && schema === '' && beyond.some((pattern) => pattern.test(check))) continue;
    const isRefused = check !== '';
    expect([path, value, check, schema], 'both or neither').toEqual([
      path,
      value,
      isRefused ? check : '',
      isRefused ? expect.stringMatching(/./) : '',
    ]);
    refused[isRefused ? 'both' : 'neither'] += 1;
  }
  expect(Math.min(refused.both, refused.neither)).toBeGreaterThan(50);
});

const stream = (more: object) => ({
  streams: [{ name: 'members', source: 'index_profiles', index: 'members', ...more }],
});
const file = (job: object, service: object = {}) => ({
  service: { base_url: 'https://example.com', tenant_id: 'acme', auth: { token: '$\u007bT}' }, ...service },
  jobs: { nightly: { ...stream({}), ...job } },
});
const salt = '$\u007bSALT}';

test.each<[string, unknown, boolean]>([
  ['a variable in max_deleted', file({ guards: { max_deleted: '$\u007bX}' } }), true],
  ['a variable in max_null', file({ guards: { max_null: { email: '$\u007bX}' } } }), true],
  ['a variable in publish.mode', file({ publish: { mode: '$\u007bX}' } }), true],
  ['a variable as the source', file({ streams: [{ name: 'a', source: '$\u007bX}', index: 'b' }] }), true],
  ['a file for a number', file(stream({ page_size: '$\u007bfile:./n}' })), true],
  ['a file for max_changed', file({ guards: { max_changed: '$\u007bfile:./n}' } }), true],
  ['a variable for since', file({ streams: [{ name: 'a', source: 'audit_events', since: '$\u007bX}' }] }), true],
  ['a number of rows', file({ guards: { max_deleted: 5 } }), true],
  ['a share without %', file({ guards: { max_deleted: 0.05 } }), false],
  ['the same in quotes', file({ guards: { max_deleted: '0.05' } }), false],
  ['more than all', file({ guards: { max_deleted: '105%' } }), false],
  ['more changes than rows', file({ guards: { max_changed: '900%' } }), true],
  ['more than all, of a column', file({ guards: { max_null: { email: '100.5%' } } }), false],
  ['no jobs', { ...file({}), jobs: undefined }, false],
  ['jobs without one', { ...file({}), jobs: {} }, false],
  ['a job without streams', { ...file({}), jobs: { nightly: {} } }, false],
  ['streams that all jobs share', { ...file({}), jobs: { nightly: {} }, defaults: stream({}) }, true],
  ['ftp', file({}, { base_url: 'ftp://example.com' }), false],
  ['a prefix in the address', file({}, { base_url: 'https://example.com/api/' }), false],
  ['a bucket as a folder', { ...file({}), storage: 's3://bucket/x' }, false],
  ['two ways to log in', file({}, { auth: { token: '$\u007bT}', client_id: 'a', client_secret: '$\u007bS}' } }), false],
  ['one and a half', file({}, { auth: { token: '$\u007bT}', client_id: 'a' } }), false],
  ['a variable of a shell', file({}, { auth: { token: '$CDS_TOKEN' } }), false],
  ['a salt without hash', file(stream({ columns: { email: { salt } } })), false],
  ['a hash without salt', file(stream({ columns: { email: { hash: true } } })), false],
  ['a hash with its salt', file(stream({ columns: { email: { hash: true, salt } } })), true],
  ['a hash that is masked', file(stream({ columns: { email: { hash: true, salt, mask: 'all' } } })), false],
  ['a dropped column that is renamed', file(stream({ columns: { email: { drop: true, rename: 'mail' } } })), false],
  ['ids and keys', file({ streams: [{ name: 'a', source: 'realtime_profiles', collection: 'c' }] }), false],
])('%s', (_, document, isTaken) => {
  const text = stringify(document);
  expect([byCheck(text) === '', bySchema(text) === '']).toEqual([isTaken, isTaken]);
});

test('editors show the meaning of a source and a connector', () => {
  const { $defs } = configJsonSchema() as { $defs: { job: { properties: Record<string, object> } } };
  for (const [list, key] of [
    ['streams', 'source'],
    ['destinations', 'connector'],
  ] as const) {
    const { items } = $defs.job.properties[list] as { items: { oneOf: { properties: Record<string, object> }[] } };
    for (const { properties } of items.oneOf)
      expect(properties[key]).toEqual(
        expect.objectContaining(
          properties[key] && '$ref' in properties[key] ? {} : { description: expect.stringMatching(/./) },
        ),
      );
  }
});

import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../../src/config/problem.js';
import { sources as declared } from '../../../src/sources/sources.js';
import { head, members, parse, problemsOf, withStream } from './sample.js';

const sources = declared.map(({ name }) => name).join(', ');
const job = `jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n`;

/** Text after the sample's head and a job (from line 10), and the one line of its error. */
const appended: [name: string, yaml: string, line: string][] = [
  [
    'an unknown key names the nearest one and all that are known',
    'resuorces: {}',
    'cdsync.yaml:10:1  resuorces: unknown key; did you mean "resources"?  allowed: version, service, storage, resources, jobs, defaults',
  ],
  [
    'an unknown key that is near to none',
    'resources:\n  cheese: 1',
    'cdsync.yaml:11:3  resources.cheese: unknown key; allowed: memory_mb, threads',
  ],
  [
    'a key that only a job has',
    'guards: { max_deleted: 10% }',
    'cdsync.yaml:10:1  guards: unknown key here; it belongs to a job (jobs.NAME.guards), or to all jobs (defaults.guards)',
  ],
  [
    'a key of schedulers',
    'schedule: "0 3 * * *"',
    'cdsync.yaml:10:1  schedule: unknown key here; cdsync does not schedule runs: cron, systemd or CI does (docs/deployment.md)',
  ],
  [
    'a key without a space after its colon',
    'resources: { memory_mb:512 }',
    'cdsync.yaml:10:14  resources["…"]: a space is missing after "memory_mb:"',
  ],
  [
    'a merge conflict',
    '<<<<<<< HEAD\nresources: {}\n=======\n>>>>>>> other',
    'cdsync.yaml:10:1  a merge conflict is not resolved here',
  ],
  ['a duplicate key', 'version: 1', 'cdsync.yaml:10:1  version: duplicate key, first on line 1'],
  [
    'a list for a map',
    'resources: [1]',
    'cdsync.yaml:10:12  resources: must be a map, found a list; allowed: memory_mb, threads',
  ],
  [
    'a number for a map',
    'resources: 5',
    'cdsync.yaml:10:12  resources: must be a map, found a number; allowed: memory_mb, threads',
  ],
  [
    'nothing for a map',
    'resources:',
    'cdsync.yaml:10:1  resources: must be a map, found nothing; allowed: memory_mb, threads',
  ],
  [
    'a map for a number',
    'resources: { threads: {} }',
    'cdsync.yaml:10:23  resources.threads: must be a whole number from 1 to 256, found a map',
  ],
  [
    'a number out of bounds',
    'resources: { threads: 0 }',
    'cdsync.yaml:10:23  resources.threads: must be a whole number from 1 to 256, found 0',
  ],
  [
    'a number that is not whole',
    'resources: { threads: 1.5 }',
    'cdsync.yaml:10:23  resources.threads: must be a whole number from 1 to 256, found 1.5',
  ],
  [
    'a number in quotes',
    'resources: { threads: "2" }',
    'cdsync.yaml:10:23  resources.threads: must be a whole number from 1 to 256, found "2", which is text',
  ],
  [
    'nothing for a number',
    'resources:\n  threads:',
    'cdsync.yaml:11:3  resources.threads: must be a whole number from 1 to 256, found nothing; leave the key out instead',
  ],
  [
    'no destination in a list of them, inherited by every job',
    'defaults:\n  destinations: []',
    'cdsync.yaml:11:17  defaults.destinations: must be a list of at least one destination, found an empty list',
  ],
  [
    'a wrong value that every job inherits is shown once, at its own position',
    'defaults: { parquet: { compression: zst } }',
    'cdsync.yaml:10:37  defaults.parquet.compression: unknown value, found "zst"; did you mean "zstd"?  allowed: zstd, snappy, gzip, none',
  ],
  [
    'a duration without its unit',
    'defaults: { resume_within: 12 }',
    'cdsync.yaml:10:28  defaults.resume_within: must be a duration: a number and ms, s, m, h, d or w, such as 90s or 12h, 99999d at most; with a unit it is 12m or 12h, found "12"',
  ],
  [
    'permissions that are not octal',
    'defaults: { publish: { mode: "0688" } }',
    'cdsync.yaml:10:30  defaults.publish.mode: must be octal permissions that let the owner read, such as "0600" or "0640", found "0688"',
  ],
];

test.each(appended)('%s', (_, yaml, line) => {
  expect(problemsOf(`${head}${job}${yaml}\n`)).toEqual([line]);
});

/** Lines of a stream (from line 11), and the one line of their error. */
const streams: [name: string, lines: string[], line: string][] = [
  [
    'a key that is missing',
    ['source: index_profiles'],
    'cdsync.yaml:10:9  jobs.a.streams[0].index: missing; allowed: text that is not empty',
  ],
  [
    'a misspelt key',
    [...members, 'page_szie: 5'],
    'cdsync.yaml:13:9  jobs.a.streams[0].page_szie: unknown key; did you mean "page_size"?  allowed: name, source, index, filter, partition_by, check_total, confirm_deletes, page_size, guards, select, columns, strings, contract',
  ],
  [
    'an unknown source',
    ['source: index_profile'],
    `cdsync.yaml:11:17  jobs.a.streams[0].source: unknown value, found "index_profile"; did you mean "index_profiles"?  allowed: ${sources}`,
  ],
  ['no source', ['index: x'], `cdsync.yaml:10:9  jobs.a.streams[0].source: missing; allowed: ${sources}`],
  [
    'yes, which YAML 1.2 does not take for true',
    [...members, 'check_total: yes'],
    'cdsync.yaml:13:22  jobs.a.streams[0].check_total: must be true or false, found "yes", which is text',
  ],
  [
    'null as a filter value',
    [...members, 'filter: { tier: null }'],
    'cdsync.yaml:13:25  jobs.a.streams[0].filter.tier: must be text, one value: several values are several streams, found null; put it in quotes if the text is meant',
  ],
  [
    'a list as a filter value',
    [...members, 'filter: { tier: [a] }'],
    'cdsync.yaml:13:25  jobs.a.streams[0].filter.tier: must be text, one value: several values are several streams, found a list',
  ],
  [
    'an attribute without a name',
    [...members, 'filter: { "": a }'],
    'cdsync.yaml:13:19  jobs.a.streams[0].filter[""]: a key must be text that is not empty',
  ],
  [
    'an attribute that no map can hold',
    [...members, 'filter: { __proto__: a }'],
    'cdsync.yaml:13:19  jobs.a.streams[0].filter.__proto__: this cannot be a key',
  ],
  [
    'the same partition twice',
    [...members, 'partition_by: { attribute: c, values: [US, DE, "US"] }'],
    'cdsync.yaml:13:56  jobs.a.streams[0].partition_by.values[2]: the same value as [0]; a partition is read once',
  ],
  [
    'no partition at all',
    [...members, 'partition_by: { attribute: c, values: [] }'],
    'cdsync.yaml:13:47  jobs.a.streams[0].partition_by.values: must be a list of values, found an empty list',
  ],
  [
    'a partition by an attribute that the filter fixes',
    [...members, 'filter: { c: US }', 'partition_by: { attribute: c }'],
    'cdsync.yaml:14:36  jobs.a.streams[0].partition_by.attribute: the filter fixes this attribute; partition by another',
  ],
  [
    'a contract that is none',
    [...members, 'contract: { types: frozen }'],
    'cdsync.yaml:13:28  jobs.a.streams[0].contract.types: unknown value, found "frozen"; allowed: evolve, freeze, discard_value, discard_row',
  ],
  [
    'a hash without its salt',
    [...members, 'columns: { email: { hash: true } }'],
    'cdsync.yaml:13:35  jobs.a.streams[0].columns.email.hash: a hash needs a salt beside it: { hash: true, salt: "${NAME}" }; `cdsync salt` makes one',
  ],
  [
    'a rule that is none',
    [...members, 'columns: { email: { hsah: true } }'],
    'cdsync.yaml:13:29  jobs.a.streams[0].columns.email.hsah: unknown key; did you mean "hash"?  allowed: drop, hash, normalize, salt, mask, type, rename, track',
  ],
  [
    'a dropped column with a mask',
    [...members, 'columns: { email: { drop: true, mask: last4 } }'],
    'cdsync.yaml:13:47  jobs.a.streams[0].columns.email.mask: the column is dropped',
  ],
  [
    'a rule that drops the key',
    [...members, 'columns: { id: { drop: true } }'],
    'cdsync.yaml:13:32  jobs.a.streams[0].columns.id.drop: the column is the key, which identifies rows',
  ],
  [
    'a partition by a column that is not kept',
    [...members, 'columns: { country: { drop: true } }', 'partition_by: { attribute: country }'],
    'cdsync.yaml:14:23  jobs.a.streams[0].partition_by: the attribute is not kept as it is, so its values must be given here',
  ],
  [
    'a type that is none',
    [...members, 'columns: { birthday: { type: day } }'],
    'cdsync.yaml:13:38  jobs.a.streams[0].columns.birthday.type: must be text, integer, number, boolean, date, timestamp or decimal(precision, scale), found "day"',
  ],
  [
    'a guard that is none',
    [...members, 'guards: { max_delted: 10% }'],
    'cdsync.yaml:13:19  jobs.a.streams[0].guards.max_delted: unknown key; did you mean "max_deleted"?  allowed: action, min_rows, max_deleted, max_changed, max_rejected, max_null, unique, expect',
  ],
  [
    'a share without its sign',
    [...members, 'guards: { max_deleted: 0.05 }'],
    'cdsync.yaml:13:32  jobs.a.streams[0].guards.max_deleted: a share needs a %, and a number of rows must be whole; write 5% for a share, found "0.05"',
  ],
  [
    'a limit that is neither a share nor a number',
    [...members, 'guards: { max_deleted: most }'],
    'cdsync.yaml:13:32  jobs.a.streams[0].guards.max_deleted: must be a share such as 10%, a number such as 5 rows, or off, found "most"',
  ],
];

test.each(streams)('%s', (_, lines, line) => {
  expect(problemsOf(withStream(...lines))).toEqual([line]);
});

describe('the service', () => {
  const cases: [from: string, to: string, line: string][] = [
    [
      'http://127.0.0.1:8787',
      'ftp://files',
      'cdsync.yaml:3:13  service.base_url: must be an http:// or https:// URL, found "ftp://…"',
    ],
    [
      'http://127.0.0.1:8787',
      'https://me:hunter2@cds.example',
      'cdsync.yaml:3:13  service.base_url: may not hold a user or a password; use auth, found "https://…"',
    ],
    [
      'http://127.0.0.1:8787',
      'https://cds.example/api/',
      'cdsync.yaml:3:13  service.base_url: remove /api and /prof: cdsync adds them, found "https://…"',
    ],
    [
      '{ token_file: ./token }',
      '{ token_file: ./token, client_id: x }',
      'cdsync.yaml:5:9  service.auth: use only one of these forms; allowed: exactly one of: client_id and client_secret, or token, or token_file',
    ],
    [
      '{ token_file: ./token }',
      '{ client_id: x }',
      'cdsync.yaml:5:9  service.auth.client_secret: missing; allowed: exactly one of: client_id and client_secret, or token, or token_file',
    ],
    [
      '{ token_file: ./token }',
      '{}',
      'cdsync.yaml:5:9  service.auth: incomplete; allowed: exactly one of: client_id and client_secret, or token, or token_file',
    ],
    ...['content-length', 'Host', 'authorization', 'Transfer-Encoding'].map((name): [string, string, string] => [
      'tenant_id: acme',
      `tenant_id: acme\n  tenant_header: ${name}`,
      `cdsync.yaml:5:18  service.tenant_header: this header has another meaning; give the one of the tenant, found "${name}"`,
    ]),
    ['acme', 'a b', 'cdsync.yaml:4:14  service.tenant_id: must be text without spaces, found "a b"'],
  ];
  test.each(cases)('%s replaced by %s', (from, to, line) => {
    expect(problemsOf(`${head}${job}`.replace(from, to))).toEqual([line]);
  });
});

test('an address is no storage folder', () => {
  const text = withStream(...members).replace('storage: ./data', 'storage: s3://bucket/prefix');
  expect(problemsOf(text)).toEqual([
    'cdsync.yaml:6:10  storage: is an address, not a folder; write a bucket as { url: s3://bucket/prefix }, found "s3://…"',
  ]);
});

test('everything is reported at once, in the order of the file', () => {
  const text = `${withStream(...members, 'filter: { a: ~ }', 'contract: { columns: x }').replace('acme', '""')}bad: 1\n`;
  expect(problemsOf(text).map((line) => line.split('  ')[0])).toEqual([
    'cdsync.yaml:4:14',
    'cdsync.yaml:13:22',
    'cdsync.yaml:14:30',
    'cdsync.yaml:15:1',
  ]);
});

test('the error has every problem, for people and for programs', () => {
  try {
    parse(`${head}${job}bad: 1\nworse: 2\n`);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    const { code, kind, message, problems } = error as ConfigError;
    expect({ code, kind }).toEqual({ code: 'config_invalid', kind: 'configuration' });
    expect(message.split('\n')).toHaveLength(2);
    expect(problems[0]).toEqual({
      file: 'cdsync.yaml',
      line: 10,
      column: 1,
      path: 'bad',
      message: 'unknown key',
      nearest: undefined,
      allowed: 'version, service, storage, resources, jobs, defaults',
    });
  }
});

test('the error for an unknown job names the jobs that there are', async () => {
  expect(() => parse(`${head}${job.replace('a:', 'nightly:')}`, {}, { job: 'nigthly' })).toThrow(
    expect.objectContaining({
      code: 'job_not_found',
      kind: 'configuration',
      message: 'no job is called "nigthly"; did you mean "nightly"?',
      hint: 'the jobs of this file: nightly',
    }),
  );
});

test.each([
  ['path: ./data/a/a.duckdb', true],
  ['path: /srv/sync/data/a', true],
  ['path: ./data/../data/a/parquet/x.duckdb', true],
  ['path: ./data/warehouse.duckdb', false],
  ['path: ./data/ab/x.duckdb', false],
])('a destination with %s may write there, unless that is the folder of a job', (path, isRefused) => {
  const text = `${withStream(...members)}    destinations:\n      - { name: copy, connector: duckdb, ${path} }\n`;
  expect(problemsOf(text, {}, { destinations: true })).toEqual(
    isRefused
      ? [
          expect.stringContaining(
            'jobs.a.destinations[0].path: /srv/sync/data/a is the folder of a job: a destination may not write there',
          ),
        ]
      : [],
  );
});

test.each([
  ['email: {}', 'email: an empty rule hides nothing: write drop: true, hash: true or another'],
  ['email: { hsah: true }', 'email.hsah: unknown key; did you mean "hash"?'],
  ['email: { hash: yes, salt: "1234567890123456" }', 'email.hash: must be true or false, found "yes", which is text'],
  [
    'email: { drop: true }, attributes.email: { mask: all }',
    'email: names the same column as attributes.email: leave one of them',
  ],
])('the rule %s has one problem, which says what to write', (rule, problem) => {
  const lines = problemsOf(withStream(...members, `columns: { ${rule} }`));
  expect(lines).toEqual([expect.stringContaining(`columns.${problem}`)]);
});

test('a rule for an envelope field, and one for the attribute of that name, are two', () => {
  const rules = 'columns: { index_id: { drop: true }, attributes.index_id: { mask: all } }';
  expect(problemsOf(withStream(...members, rules))).toEqual([]);
});

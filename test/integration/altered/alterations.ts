import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { parseSealed, sealedJson } from '../../../src/core/sealed-json.js';

/** A file that only its owner may read, and a folder that nothing may be written into. */
export interface Trap {
  readonly secret: string;
  readonly folder: string;
}

type Json = Record<string, never> & { columns: Json[]; snapshot: Json[]; changes: Json[]; files: Json[] };

/** A change that another program made in the folder of a job. */
export interface Alteration {
  readonly what: string;
  /** The file or folder, below the folder of the job. */
  readonly place: string;
  make(path: string, trap: Trap): Promise<void>;
}

/** Statements over a DuckDB file that is attached as `s`. */
async function statements(path: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await promisify(execFile)('chmod', ['u+w', path]);
    await connection.run(`ATTACH '${path}' AS s`);
    for (const statement of sql.split(';;')) await connection.run(statement);
    await connection.run('DETACH s');
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Changes a state file, and gives it the checksums that it then needs. */
async function edit(path: string, change: (content: Json) => object): Promise<void> {
  const parsed = parseSealed((await readFile(path, 'utf8')).trimEnd());
  const content = change(parsed?.content as Json) as Record<string, unknown>;
  if ('checksum' in content) {
    const { checksum: _, ...rest } = content;
    content.checksum = createHash('sha256').update(JSON.stringify(rest)).digest('hex');
  }
  await writeFile(path, `${parsed?.isSealed ? sealedJson(content) : JSON.stringify(content)}\n`);
}

export const from = (secret: string) => `(SELECT content AS id, 1 AS n FROM read_text('${secret}'))`;

/** Views, macros and the like, for a store and for a published copy. */
const ofDatabases: readonly [string, (trap: Trap) => string][] = [
  ...['main.members', 'main.members__changes', 'private.keys_members', 'private.before_members'].map(
    (table): [string, (trap: Trap) => string] => [
      `a view in the place of ${table}`,
      ({ secret }) => `DROP TABLE s.${table};; CREATE VIEW s.${table} AS FROM ${from(secret)}`,
    ],
  ),
  ...[
    'private.streams',
    'private.moments',
    'private.store',
    'cdsync.runs',
    'cdsync.streams',
    'cdsync.columns',
    'cdsync.rejects',
  ].map((table): [string, (trap: Trap) => string] => [
    `a view in the place of ${table}`,
    ({ secret }) =>
      `CREATE TABLE s.main.kept AS FROM s.${table};; DROP TABLE s.${table};; CREATE VIEW s.${table} AS SELECT k.* FROM s.main.kept k, read_text('${secret}')`,
  ]),
  ['another history', ({ secret }) => `CREATE OR REPLACE VIEW s.main.members__history AS FROM ${from(secret)}`],
  ['other last changes', ({ secret }) => `CREATE OR REPLACE VIEW s.main.members__last_changes AS FROM ${from(secret)}`],
  ['another freshness', ({ secret }) => `CREATE OR REPLACE VIEW s.cdsync.freshness AS FROM ${from(secret)}`],
  ['another macro', ({ secret }) => `CREATE OR REPLACE MACRO s.main.members_as_of(ts) AS TABLE FROM ${from(secret)}`],
  [
    'a scalar macro of our name',
    ({ secret }) => `CREATE MACRO s.main.members_as_of(ts) AS (SELECT id FROM ${from(secret)})`,
  ],
  ...['md5', '||', 'count', 'read_parquet', 'duckdb_tables', 'duckdb_functions', 'current_database', 'to_json'].map(
    (name): [string, (trap: Trap) => string] => [
      `a macro in the place of ${name}`,
      ({ secret }) =>
        /read|duckdb/.test(name)
          ? `CREATE MACRO s.main."${name}"() AS TABLE FROM ${from(secret)}`
          : `CREATE MACRO s.main."${name}"(a) AS (SELECT id FROM ${from(secret)}), (a, b) AS (SELECT id FROM ${from(secret)})`,
    ],
  ),
  ['a default', () => `ALTER TABLE s.main.members ALTER COLUMN _run_id SET DEFAULT current_setting('temp_directory')`],
  [
    'a generated column',
    () =>
      'CREATE OR REPLACE TABLE s.cdsync.rejects (run_id VARCHAR, stream VARCHAR, key VARCHAR, column_name VARCHAR, reason VARCHAR AS (upper(key)))',
  ],
  [
    'a sequence as default',
    () => `CREATE SEQUENCE s.main.q;; ALTER TABLE s.cdsync.runs ALTER COLUMN sequence SET DEFAULT nextval('s.main.q')`,
  ],
  ['an index over an expression', () => `CREATE INDEX i ON s.main.members ((upper(id)))`],
  ['an enum', () => `CREATE TYPE s.main.mood AS ENUM ('a')`],
  [
    'one more schema with a macro',
    ({ secret }) => `CREATE SCHEMA s.system;; CREATE MACRO s.system.lower(a) AS (SELECT id FROM ${from(secret)})`,
  ],
  [
    'SQL as a type',
    ({ secret, folder }) =>
      `UPDATE s.private.streams SET state = replace(state, '"place":"envelope","field":"id"', '"declared":"VARCHAR FROM read_text(''${secret}''); COPY (SELECT 1) TO ''${folder}/x''; SELECT NULL::VARCHAR","place":"envelope","field":"id"')`,
  ],
  [
    'a path out of the folder',
    ({ secret }) =>
      `UPDATE s.private.streams SET state = replace(state, '"path":"snapshot/', '"path":"../../../../..${secret}/')`,
  ],
];

const type = (secret: string) => `VARCHAR FROM read_text('${secret}') --`;

/** Other content of state files, with the checksums that belong to it. */
const ofFiles: readonly [string, string, (content: Json, trap: Trap) => object][] = [
  [
    'SQL as a type in a feed',
    '.cdsync/feeds/members.json',
    (feed, { secret }) => ({
      ...feed,
      columns: feed.columns.map((column) => ({ ...column, declared: type(secret) })),
    }),
  ],
  [
    'a foreign file in a feed',
    '.cdsync/feeds/members.json',
    (feed, { secret }) => ({
      ...feed,
      snapshot: [{ ...feed.snapshot[0], path: `../../../../..${secret}` }],
    }),
  ],
  [
    'a foreign file in changes of a feed',
    '.cdsync/feeds/members.json',
    (feed, { secret }) => ({
      ...feed,
      changes: feed.changes.map((one) => ({ ...one, files: [`../../../../..${secret}`] })),
    }),
  ],
  [
    'a foreign file in a manifest',
    'parquet/members/manifest.json',
    (manifest, { secret }) => ({
      ...manifest,
      files: [{ ...manifest.files[0], path: `../../../../..${secret}` }],
    }),
  ],
  [
    'another job in the delivery state',
    '.cdsync/deliveries/wh/state.json',
    (state) => ({ ...state, destination: '../../..' }),
  ],
];

const replaced =
  (make: (path: string, trap: Trap) => Promise<unknown>) =>
  async (path: string, trap: Trap): Promise<void> => {
    await rm(path, { recursive: true, force: true });
    await make(path, trap);
  };

/** Something else in the place of a file. */
export const things: readonly [string, (path: string, trap: Trap) => Promise<void>][] = [
  ['a link to a secret', replaced((path, { secret }) => symlink(secret, path))],
  ['a pipe', replaced((path) => promisify(execFile)('mkfifo', [path]))],
  ['a folder', replaced((path) => mkdir(path))],
  ['a hard link to a secret', replaced((path, { secret }) => link(secret, path))],
];

/** @param version the name of the published version */
export function alterations(version: string, runId: string): Alteration[] {
  const store = '.cdsync/store.duckdb';
  const published = `published/${version}/nightly.duckdb`;
  const files = [
    store,
    published,
    'parquet/members/manifest.json',
    '.cdsync/feeds/members.json',
    `reports/${runId}.json`,
    '.cdsync/format.json',
  ];
  return [
    ...[store, published].flatMap((place) =>
      ofDatabases.map(([what, sql]) => ({
        what,
        place,
        make: (path: string, trap: Trap) => statements(path, sql(trap)),
      })),
    ),
    ...ofFiles.map(([what, place, change]) => ({
      what,
      place,
      make: (path: string, trap: Trap) => edit(path, (content) => change(content, trap)),
    })),
    ...files.flatMap((place) => things.map(([what, make]) => ({ what, place, make }))),
    {
      what: 'a Parquet of another schema',
      place: 'parquet/members/current',
      make: async (path) => {
        const file = join(path, '00001.parquet');
        const sql = `COPY (SELECT 1 AS other) TO '${file}.new' (FORMAT parquet)`;
        const instance = await DuckDBInstance.create(':memory:');
        const connection = await instance.connect();
        await connection.run(sql);
        connection.closeSync();
        instance.closeSync();
        await rename(`${file}.new`, file);
      },
    },
    {
      what: 'a file of another database',
      place: store,
      make: replaced((path) => writeFile(path, `SQLite format 3\0${'\0'.repeat(4096)}`)),
    },
    {
      what: 'a log of another database',
      place: `${store}.wal`,
      make: replaced((path) => writeFile(path, 'x'.repeat(4096))),
    },
  ];
}

/** Statements of another program in the DuckDB file of a destination. */
export const atDestination: readonly [string, (trap: Trap) => string][] = [
  ['a macro in the place of md5', ({ secret }) => `CREATE MACRO s.main.md5(a) AS (SELECT id FROM ${from(secret)})`],
  ['a macro in the place of +', ({ secret }) => `CREATE MACRO s.main."+"(a, b) AS (SELECT id FROM ${from(secret)})`],
  [
    'a macro in the place of a catalog function',
    ({ secret }) => `CREATE MACRO s.main.duckdb_views() AS TABLE FROM ${from(secret)}`,
  ],
  [
    'a view in the place of a table',
    ({ secret }) => `DROP TABLE s.main.members;; CREATE VIEW s.main.members AS FROM ${from(secret)}`,
  ],
  [
    'a view in the place of its record',
    ({ secret }) => `DROP TABLE s.main._cdsync_state;; CREATE VIEW s.main._cdsync_state AS FROM ${from(secret)}`,
  ],
  [
    'a view in the place of the loads',
    ({ secret }) => `DROP TABLE s.main._cdsync_loads;; CREATE VIEW s.main._cdsync_loads AS FROM ${from(secret)}`,
  ],
  [
    'SQL as a type in its record',
    ({ secret }) =>
      `UPDATE s.main._cdsync_state SET record = replace(record, '"kind":"VARCHAR"', '"kind":"VARCHAR) FROM read_text(''${secret}'') --"')`,
  ],
];

export { statements };

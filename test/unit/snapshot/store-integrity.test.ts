import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import { SnapshotStore } from '../../../src/snapshot/snapshot-store.js';
import { Database } from '../../../src/storage/duckdb.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
let secret: string;
beforeEach(async () => {
  snapshots = await Snapshots.open();
  secret = join(snapshots.layout.folder, 'secret.txt');
  await writeFile(secret, 'the secret');
  for (const n of [1, 2])
    await snapshots.run('members', [
      { id: 'a', n },
      { id: 'b', n: 1 },
    ]);
  await snapshots.detach();
});
afterEach(() => snapshots.close());

const read = () => `SELECT content AS id, 1 AS n FROM read_text('${secret}')`;

/** What another program could put into a store, each as statements over it. */
const alterations: readonly [string, () => string][] = [
  ['a view in the place of a stream', () => `DROP TABLE s.main.members; CREATE VIEW s.main.members AS ${read()}`],
  [
    'a view in the place of changes',
    () => `DROP TABLE s.main.members__changes; CREATE VIEW s.main.members__changes AS ${read()}`,
  ],
  [
    'a view in the place of keys',
    () => `DROP TABLE s.private.keys_members; CREATE VIEW s.private.keys_members AS ${read()}`,
  ],
  [
    'a view in the place of earlier rows',
    () => `DROP TABLE s.private.before_members; CREATE VIEW s.private.before_members AS ${read()}`,
  ],
  [
    'a view in the place of states',
    () =>
      `DROP TABLE s.private.streams; CREATE VIEW s.private.streams AS SELECT content AS stream, content AS state FROM read_text('${secret}')`,
  ],
  [
    'a view in the place of commit times',
    () => `DROP TABLE s.private.moments; CREATE VIEW s.private.moments AS ${read()}`,
  ],
  ['a view in the place of runs', () => `DROP TABLE s.cdsync.runs; CREATE VIEW s.cdsync.runs AS ${read()}`],
  ['a view in the place of counts', () => `DROP TABLE s.cdsync.streams; CREATE VIEW s.cdsync.streams AS ${read()}`],
  ['a view in the place of columns', () => `DROP TABLE s.cdsync.columns; CREATE VIEW s.cdsync.columns AS ${read()}`],
  ['a view in the place of rejects', () => `DROP TABLE s.cdsync.rejects; CREATE VIEW s.cdsync.rejects AS ${read()}`],
  ['another history', () => `CREATE OR REPLACE VIEW s.main.members__history AS ${read()}`],
  ['other last changes', () => `CREATE OR REPLACE VIEW s.main.members__last_changes AS ${read()}`],
  ['another freshness', () => `CREATE OR REPLACE VIEW s.cdsync.freshness AS ${read()}`],
  ['another macro', () => `CREATE OR REPLACE MACRO s.main.members_as_of(ts) AS TABLE ${read()}`],
  ['one more view', () => `CREATE VIEW s.main.more AS ${read()}`],
  ['one more view of our names', () => `CREATE VIEW s.main.members__history2 AS ${read()}`],
  [
    'a macro with the name of a function',
    () => `CREATE MACRO s.main.sha256(x) AS (SELECT content FROM read_text('${secret}'))`,
  ],
  ['a macro of rows', () => `CREATE MACRO s.main.rows() AS TABLE ${read()}`],
  ['a default', () => `ALTER TABLE s.main.members ALTER COLUMN n SET DEFAULT 5`],
  [
    'a default of a private table',
    () => `ALTER TABLE s.private.moments ALTER COLUMN run_id SET DEFAULT current_setting('temp_directory')`,
  ],
  [
    'a generated column',
    () =>
      `CREATE OR REPLACE TABLE s.cdsync.rejects (run_id VARCHAR, stream VARCHAR, key VARCHAR, column_name VARCHAR, reason VARCHAR AS (upper(key)))`,
  ],
  [
    'a check',
    () =>
      `CREATE OR REPLACE TABLE s.cdsync.rejects (run_id VARCHAR CHECK (length(run_id) < 5), stream VARCHAR, key VARCHAR, column_name VARCHAR, reason VARCHAR)`,
  ],
  ['an index over an expression', () => `CREATE INDEX i ON s.main.members ((n + 1))`],
  ['a sequence', () => `CREATE SEQUENCE s.main.q`],
  ['a type', () => `CREATE TYPE s.main.mood AS ENUM ('a')`],
  [
    'a macro with the name of one of ours',
    () => `CREATE MACRO s.main.members_as_of(ts) AS (SELECT content FROM read_text('${secret}'))`,
  ],
  [
    'SQL as the type of a column',
    () => `UPDATE s.private.streams SET state = json_merge_patch(state, {columns: list_transform((state->'columns')::JSON[],
        lambda c: json_merge_patch(c, {declared: 'VARCHAR, (SELECT content FROM read_text(''${secret}''))'}::JSON))}::JSON)`,
  ],
  [
    'SQL as the salt of a column',
    () => `UPDATE s.private.streams SET state = json_merge_patch(state, {columns: list_transform((state->'columns')::JSON[],
        lambda c: json_merge_patch(c, {rule: {hash: {salt: 'x"(1), read_text("'}}}::JSON))}::JSON)`,
  ],
  [
    'a file outside of the folder',
    () => `UPDATE s.private.streams SET state = replace(state, 'snapshot/', '../../../')`,
  ],
  [
    'a run that is a path',
    () => `UPDATE s.private.streams SET state = json_merge_patch(state, {run_id: '../..'}::JSON)`,
  ],
  ['a state that is no JSON', () => `UPDATE s.private.streams SET state = 'x'`],
  ['a stream without its changes', () => `DROP TABLE s.main.members__changes`],
];

describe('a store that another program has altered', () => {
  it('is opened if nothing was altered, also after it was closed', async () => {
    const database = await Database.open({ memoryMb: 256, threads: 1 });
    const store = await SnapshotStore.open(database, snapshots.layout);
    expect(await store.state()).toMatchObject({ sequence: 2 });
    await store.close();
    database.close();
  });

  it.each(alterations)('is refused with %s, and nothing of it is run', async (_, statements) => {
    const session = await snapshots.database.connect();
    await session.run(`ATTACH '${snapshots.layout.store}' AS s`);
    for (const statement of statements().split('; ')) await session.run(statement);
    await session.run('DETACH s');
    session.close();
    const database = await Database.open({ memoryMb: 256, threads: 1 });
    const error = await SnapshotStore.open(database, snapshots.layout).then(
      async (store) => {
        await store.close();
        return expect.unreachable('it was opened');
      },
      (thrown: CdsyncError) => thrown,
    );
    database.close();
    expect(error).toBeInstanceOf(CdsyncError);
    expect(error.code).toBe('storage_altered');
    expect(error.message).toContain('was altered');
  });
});

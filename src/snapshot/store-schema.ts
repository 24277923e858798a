import { randomUUID } from 'node:crypto';
import { sqlText } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import { defineHistory } from './history-views.js';
import {
  aboutTable,
  commitTimesTable,
  internalComment,
  internalSchema,
  storeName,
  storeTable,
  streamsTable,
} from './store-tables.js';
import { stateSchema } from './stream-state.js';

/** Version of the tables in the store. It rises when an older cdsync could no longer work with them. */
export const schemaVersion = 4;

interface StoreVersion {
  readonly version: number;
  /** Identifies the store among all others. */
  readonly id: string;
}

/** A table of the schema `cdsync`: for each column, its type and its comment. */
interface PublishedTable {
  readonly comment: string;
  readonly columns: Readonly<Record<string, readonly [type: string, comment: string]>>;
}

const published: Readonly<Record<string, PublishedTable>> = {
  runs: {
    comment: 'the runs of the job',
    columns: {
      run_id: ['VARCHAR', 'the run'],
      sequence: ['BIGINT', 'the number of the snapshot that it left; NULL while all of it is held'],
      status: ['VARCHAR', 'ok, held, partial or failed'],
      started_at: ['TIMESTAMPTZ', 'when it began'],
      finished_at: ['TIMESTAMPTZ', 'when it committed'],
    },
  },
  streams: {
    comment: 'the work of each run on each stream',
    columns: {
      run_id: ['VARCHAR', 'the run'],
      stream: ['VARCHAR', 'the stream'],
      sequence: ['BIGINT', 'the number of the snapshot that the run left'],
      changed: ['BOOLEAN', 'whether the run changed the stream'],
      rows: ['BIGINT', 'rows after the run'],
      inserted: ['BIGINT', 'rows that are new'],
      updated: ['BIGINT', 'rows with another value'],
      deleted: ['BIGINT', 'rows that are no longer there'],
      unchanged: ['BIGINT', 'rows that are as before'],
      duplicates: ['BIGINT', 'records that were read more than once'],
      rejected: ['BIGINT', 'records that could not be kept: see cdsync.rejects'],
    },
  },
  columns: {
    comment: 'the field of a record that each column is made from',
    columns: {
      stream: ['VARCHAR', 'the stream'],
      path: ['VARCHAR', 'the field'],
      column_name: ['VARCHAR', 'the column'],
      type: ['VARCHAR', 'its type'],
      since_run: ['VARCHAR', 'the first run that had it'],
    },
  },
  rejects: {
    comment: 'records and values that could not be kept',
    columns: {
      run_id: ['VARCHAR', 'the run'],
      stream: ['VARCHAR', 'the stream'],
      key: ['VARCHAR', 'the key of the record, under the rule of its column'],
      column_name: ['VARCHAR', 'the column; NULL for a whole record'],
      reason: ['VARCHAR', 'why'],
    },
  },
};

const freshness = {
  comment: 'how fresh each stream is',
  columns: {
    stream: 'the stream',
    run_id: 'the last run that read it completely',
    checked_at: 'when that run began',
    changed_at: 'when the last run that changed it began',
    rows: 'rows after the last run',
    age: 'time since checked_at',
  },
};

const internalTables = [
  `CREATE TABLE IF NOT EXISTS ${aboutTable} (id VARCHAR, version INTEGER)`,
  `CREATE TABLE IF NOT EXISTS ${streamsTable} (stream VARCHAR, state VARCHAR)`,
  // kept_from: the first time that the history gives this snapshot for; NULL once only later ones are kept.
  `CREATE TABLE IF NOT EXISTS ${commitTimesTable} (stream VARCHAR, run_id VARCHAR, synced_at TIMESTAMPTZ,
     committed_at TIMESTAMPTZ, kept_from TIMESTAMPTZ)`,
];

async function commentOn(session: Session, table: string, comment: string, columns: Readonly<Record<string, string>>) {
  await session.run(
    `COMMENT ON ${table === 'freshness' ? 'VIEW' : 'TABLE'} ${storeTable(table, 'cdsync')} IS ${sqlText(comment)}`,
  );
  for (const [column, text] of Object.entries(columns))
    await session.run(`COMMENT ON COLUMN ${storeTable(table, 'cdsync')}.${column} IS ${sqlText(text)}`);
}

async function defineFreshness(session: Session): Promise<void> {
  await session.run(`USE ${storeName}`);
  try {
    await session.run(
      `CREATE OR REPLACE VIEW cdsync.freshness AS
       SELECT stream, arg_max(run_id, started_at) AS run_id, max(started_at) AS checked_at,
         max(started_at) FILTER (WHERE changed) AS changed_at, arg_max(rows, started_at) AS rows,
         now() - max(started_at) AS age
       FROM cdsync.streams JOIN cdsync.runs USING (run_id) GROUP BY stream`,
    );
  } finally {
    await session.run('USE memory');
  }
  await commentOn(session, 'freshness', freshness.comment, freshness.columns);
}

/** Creates all schemas, tables and views of a store but those of its streams, unless they are there. Call it in a transaction. */
async function defineSchema(session: Session): Promise<void> {
  for (const schema of ['cdsync', internalSchema])
    await session.run(`CREATE SCHEMA IF NOT EXISTS ${storeName}.${schema}`);
  for (const statement of internalTables) await session.run(statement);
  for (const table of [aboutTable, streamsTable, commitTimesTable])
    await session.run(`COMMENT ON TABLE ${table} IS '${internalComment}'`);
  for (const [name, { comment, columns }] of Object.entries(published)) {
    const typed = Object.entries(columns).map(([column, [type]]) => `${column} ${type}`);
    await session.run(`CREATE TABLE IF NOT EXISTS ${storeTable(name, 'cdsync')} (${typed.join(', ')})`);
    const texts = Object.entries(columns).map(([column, [, text]]) => [column, text]);
    await commentOn(session, name, comment, Object.fromEntries(texts));
  }
  await defineFreshness(session);
}

/** Creates a new store. Call it in a transaction. */
export async function createStore(session: Session): Promise<StoreVersion> {
  const id = randomUUID();
  await defineSchema(session);
  await session.run(`INSERT INTO ${aboutTable} VALUES ('${id}', ${schemaVersion})`);
  return { version: schemaVersion, id };
}

/** The oldest version that can be migrated. */
export const oldestVersion = 2;
/** The schema of versions 2 and 3 that {@link internalSchema} replaces. */
const formerSchema = '_cdsync';

/** The store's version and id; undefined if it has no tables. */
export async function versionOf(session: Session): Promise<StoreVersion | undefined> {
  const found = await session.rows(
    `SELECT schema_name FROM duckdb_tables() WHERE database_name = '${storeName}' AND table_name = 'store'
       AND schema_name IN ('${internalSchema}', '${formerSchema}') ORDER BY schema_name DESC`,
  );
  const schema = found[0]?.schema_name;
  if (schema === undefined) return undefined;
  const [about] = await session.rows(`SELECT id, version FROM ${storeTable('store', String(schema))}`);
  return { version: Number(about?.version ?? 0), id: String(about?.id) };
}

/** Copies each table of the former schema to where it is now. */
async function moveTables(session: Session): Promise<void> {
  const tables = await session.rows(
    `SELECT table_name FROM duckdb_tables() WHERE database_name = '${storeName}' AND schema_name = '${formerSchema}'`,
  );
  await session.run(`CREATE SCHEMA IF NOT EXISTS ${storeName}.${internalSchema}`);
  for (const { table_name } of tables) {
    const name = String(table_name);
    const [, changed] = /^changes_(.*)$/.exec(name) ?? [];
    if (changed !== undefined) await session.run(`DROP VIEW IF EXISTS ${storeTable(`${changed}__changes`)}`);
    const target = changed === undefined ? storeTable(name, internalSchema) : storeTable(`${changed}__changes`);
    await session.run(`CREATE TABLE ${target} AS FROM ${storeTable(name, formerSchema)}`);
    if (changed === undefined) await session.run(`COMMENT ON TABLE ${target} IS '${internalComment}'`);
  }
  await session.run(`DROP SCHEMA ${storeName}.${formerSchema} CASCADE`);
}

/** Versions 2 and 3 removed the times of commits that are older than the history, and moved those of the last of them. */
async function restoreCommitTimes(session: Session): Promise<void> {
  await session.run(`ALTER TABLE ${commitTimesTable} ADD COLUMN kept_from TIMESTAMPTZ`);
  await session.run(`UPDATE ${commitTimesTable} SET kept_from = committed_at`);
  const commits = `SELECT s.stream, s.run_id, r.started_at, r.finished_at
     FROM ${storeTable('streams', 'cdsync')} AS s JOIN ${storeTable('runs', 'cdsync')} AS r USING (run_id, sequence) WHERE s.changed`;
  await session.run(
    `UPDATE ${commitTimesTable} AS m SET committed_at = c.finished_at FROM (${commits}) AS c
     WHERE c.stream = m.stream AND c.run_id = m.run_id`,
  );
  await session.run(
    `INSERT INTO ${commitTimesTable} SELECT c.stream, c.run_id, c.started_at, c.finished_at, NULL FROM (${commits}) AS c
     WHERE NOT EXISTS (FROM ${commitTimesTable} AS m WHERE m.stream = c.stream AND m.run_id = c.run_id)`,
  );
}

/**
 * Migrates from version 3, whose tables of changes were in the former schema, or from version 2, whose tables of changes
 * still have the first load: it goes when it is older than the history. Call it in a transaction.
 */
export async function migrate(session: Session): Promise<void> {
  await moveTables(session);
  await restoreCommitTimes(session);
  await defineSchema(session);
  for (const { state } of await session.rows(`SELECT state FROM ${streamsTable}`)) {
    await defineHistory(session, stateSchema.parse(JSON.parse(String(state))));
  }
  await session.run(`UPDATE ${aboutTable} SET version = ${schemaVersion}`);
}

import { randomUUID } from 'node:crypto';
import { sqlText } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import {
  aboutTable,
  commitTimesTable,
  internalComment,
  internalSchema,
  storeName,
  storeTable,
  streamsTable,
} from './store-tables.js';

/** Version of the tables in the store. It rises when another version of cdsync could not work with them. */
export const schemaVersion = 5;

/** The version that {@link upgradeStore} turns into the present one. */
export const upgradableVersion = 4;

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
      is_kept: ['BOOLEAN', 'whether this file still has the rows as that run left them'],
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
    kept_from: 'since when __history, __changes and _as_of of the stream are complete',
  },
};

const internalTables = [
  `CREATE TABLE ${aboutTable} (id VARCHAR, version INTEGER)`,
  `CREATE TABLE ${streamsTable} (stream VARCHAR, state VARCHAR)`,
  // kept_from: the first time that the history gives this snapshot for; NULL once only later ones are kept.
  `CREATE TABLE ${commitTimesTable} (stream VARCHAR, run_id VARCHAR, synced_at TIMESTAMPTZ,
     committed_at TIMESTAMPTZ, kept_from TIMESTAMPTZ)`,
];

async function commentOn(session: Session, table: string, comment: string, columns: Readonly<Record<string, string>>) {
  await session.run(
    `COMMENT ON ${table === 'freshness' ? 'VIEW' : 'TABLE'} ${storeTable(table, 'cdsync')} IS ${sqlText(comment)}`,
  );
  for (const [column, text] of Object.entries(columns))
    await session.run(`COMMENT ON COLUMN ${storeTable(table, 'cdsync')}.${column} IS ${sqlText(text)}`);
}

/** Defines the view of the freshness of each stream. */
export async function defineFreshness(session: Session): Promise<void> {
  await session.run(`USE ${storeName}`);
  try {
    await session.run(
      `CREATE OR REPLACE VIEW cdsync.freshness AS
       SELECT stream, arg_max(run_id, finished_at) FILTER (WHERE reads) AS run_id,
         arg_max(started_at, finished_at) FILTER (WHERE reads) AS checked_at,
         arg_max(started_at, finished_at) FILTER (WHERE changed) AS changed_at, arg_max(rows, finished_at) AS rows,
         greatest(now() - arg_max(started_at, finished_at) FILTER (WHERE reads), INTERVAL 0 SECOND) AS age,
         (SELECT min(kept_from) FROM ${internalSchema}.moments AS m WHERE m.stream = s.stream) AS kept_from
       FROM (SELECT *, started_at < finished_at AS reads FROM cdsync.streams JOIN cdsync.runs USING (run_id)) AS s GROUP BY stream`,
    );
  } finally {
    await session.run('USE memory');
  }
  await commentOn(session, 'freshness', freshness.comment, freshness.columns);
}

/** Creates all schemas, tables and views of a store but those of its streams. Call it in a transaction. */
async function defineSchema(session: Session): Promise<void> {
  for (const schema of ['cdsync', internalSchema]) await session.run(`CREATE SCHEMA ${storeName}.${schema}`);
  for (const statement of internalTables) await session.run(statement);
  for (const table of [aboutTable, streamsTable, commitTimesTable])
    await session.run(`COMMENT ON TABLE ${table} IS '${internalComment}'`);
  for (const [name, { comment, columns }] of Object.entries(published)) {
    const typed = Object.entries(columns).map(([column, [type]]) => `${column} ${type}`);
    await session.run(`CREATE TABLE ${storeTable(name, 'cdsync')} (${typed.join(', ')})`);
    const texts = Object.entries(columns).map(([column, [, text]]) => [column, text]);
    await commentOn(session, name, comment, Object.fromEntries(texts));
  }
  await defineFreshness(session);
}

/**
 * Upgrades a store of version 4 to the present one: it lacks a column, and its views have other columns. The views and macros of streams
 * must be defined again too. Call it in a transaction.
 */
export async function upgradeStore(session: Session): Promise<void> {
  const streams = storeTable('streams', 'cdsync');
  await session.run(`ALTER TABLE ${streams} ADD COLUMN is_kept BOOLEAN DEFAULT true`);
  await session.run(`ALTER TABLE ${streams} ALTER COLUMN is_kept DROP DEFAULT`);
  await session.run(
    `COMMENT ON COLUMN ${streams}.is_kept IS ${sqlText(published.streams?.columns.is_kept?.[1] ?? '')}`,
  );
  await session.run(
    `UPDATE ${streams} AS s SET is_kept = false FROM ${storeTable('runs', 'cdsync')} AS r
     WHERE r.run_id = s.run_id AND r.finished_at < (SELECT min(kept_from) FROM ${commitTimesTable} AS m WHERE m.stream = s.stream)`,
  );
  await defineFreshness(session);
  await session.run(`UPDATE ${aboutTable} SET version = ${schemaVersion}`);
}

/** Creates a new store. Call it in a transaction. */
export async function createStore(session: Session): Promise<StoreVersion> {
  const id = randomUUID();
  await defineSchema(session);
  await session.run(`INSERT INTO ${aboutTable} VALUES ('${id}', ${schemaVersion})`);
  return { version: schemaVersion, id };
}

/** The store's version and id; undefined if it has no tables. */
export async function versionOf(session: Session): Promise<StoreVersion | undefined> {
  const rows = await session.rows(
    `SELECT 1 FROM duckdb_tables() WHERE database_name = '${storeName}' AND table_name = 'store' AND schema_name = '${internalSchema}'`,
  );
  if (rows.length === 0) return undefined;
  const [about] = await session.rows(`SELECT id, version FROM ${aboutTable}`);
  return { version: Number(about?.version ?? 0), id: String(about?.id) };
}

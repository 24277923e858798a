import type { Session } from '../storage/duckdb.js';
import { defineHistory } from './history-views.js';
import { defineSchema, type StoreVersion, schemaVersion } from './store-schema.js';
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

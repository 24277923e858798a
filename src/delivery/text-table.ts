import { randomUUID } from 'node:crypto';
import { internalName, quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';

/** Makes a temporary table of texts: values of records are never in SQL text. @returns SQL of a query for its column `text` */
export async function textTable(session: Session, texts: readonly string[]): Promise<string> {
  const table = `temp.${quoteIdentifier(internalName(`texts_${randomUUID()}`))}`;
  await session.run(`CREATE TEMPORARY TABLE ${table} (text VARCHAR)`);
  await session.run(`INSERT INTO ${table} SELECT DISTINCT unnest($1)`, texts);
  return `SELECT text FROM ${table}`;
}

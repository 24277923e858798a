import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { tableConformance } from 'cdsync/sdk/conformance';
import shelf from './shelf.js';

/** SQL of a value's text in the form that the suite compares. */
function compared(column, type) {
  const value = `"${column}"`;
  if (type.startsWith('TIMESTAMP')) return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
  if (type === 'DATE') return `strftime(${value}, '%Y-%m-%d')`;
  if (type === 'DOUBLE') return `CASE WHEN ${value} = 0 AND signbit(${value}) THEN '-0' ELSE to_json(${value})::VARCHAR END`;
  return `${value}::VARCHAR`;
}

async function rows(file, table) {
  const connection = await (await DuckDBInstance.fromCache(file)).connect();
  try {
    await connection.run("SET TimeZone = 'UTC'");
    const columns = (await connection.runAndReadAll(`DESCRIBE "${table}"`)).getRowObjects();
    const texts = columns.map((column) => compared(column.column_name, column.column_type));
    const found = (await connection.runAndReadAll(`SELECT ${texts.join(', ')} FROM "${table}"`)).getRows();
    return found.map((row) => new Map(columns.map(({ column_name }, index) => [column_name, row[index]])));
  } finally {
    connection.closeSync();
  }
}

tableConformance({
  connector: shelf,
  // DuckDB's compression of doubles stores both zeros as 0.0.
  keepsNegativeZero: false,
  place: async () => {
    const folder = await mkdtemp(join(tmpdir(), 'shelf-'));
    const path = join(folder, 'shelf.duckdb');
    return {
      options: { path },
      rows: (table) => rows(path, table),
      close: () => rm(folder, { recursive: true, force: true }),
    };
  },
});

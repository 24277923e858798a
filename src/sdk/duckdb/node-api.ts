import { createRequire } from 'node:module';
import type * as NodeApi from '@duckdb/node-api';
import { keepMarks } from './private-parts.js';

/**
 * The parts of DuckDB's package that cdsync uses. It is required and not imported, because Node reads each of its 180 files twice to find the
 * names that an `import` may ask for: 0.1 s of CPU time at each start.
 */
const api = createRequire(import.meta.url)('@duckdb/node-api') as typeof NodeApi;
export const {
  BLOB,
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBDataChunk,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBScalarFunction,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  DuckDBUnionValue,
  JsonDuckDBValueConverter,
  LIST,
  listValue,
  ResultReturnType,
  StatementType,
  UBIGINT,
  VARCHAR,
  version,
} = api;

export type DuckDBDataChunk = NodeApi.DuckDBDataChunk;
export type DuckDBInstance = NodeApi.DuckDBInstance;
export type DuckDBTimestampTZValue = NodeApi.DuckDBTimestampTZValue;
export type DuckDBTypeId = NodeApi.DuckDBTypeId;
export type DuckDBUnionValue = NodeApi.DuckDBUnionValue;
export type StatementType = NodeApi.StatementType;

/**
 * Opens a database of DuckDB: the only way to do so, because texts would lose their marks otherwise.
 * @param isShared whether all of the process that open this path share one instance
 */
export async function openInstance(
  path: string,
  settings: Readonly<Record<string, string>> = {},
  isShared = false,
): Promise<DuckDBInstance> {
  keepMarks();
  return isShared ? api.DuckDBInstance.fromCache(path, settings) : api.DuckDBInstance.create(path, settings);
}

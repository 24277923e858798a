import { createRequire } from 'node:module';
import type * as NodeApi from '@duckdb/node-api';

/**
 * The parts of DuckDB's package that cdsync uses. It is required and not imported, because Node reads each of its 180 files twice to find the
 * names that an `import` may ask for: 0.1 s of CPU time at each start.
 */
export const {
  BLOB,
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBDataChunk,
  DuckDBInstance,
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
} = createRequire(import.meta.url)('@duckdb/node-api') as typeof NodeApi;

export type DuckDBDataChunk = NodeApi.DuckDBDataChunk;
export type DuckDBInstance = NodeApi.DuckDBInstance;
export type DuckDBTimestampTZValue = NodeApi.DuckDBTimestampTZValue;
export type DuckDBTypeId = NodeApi.DuckDBTypeId;
export type DuckDBUnionValue = NodeApi.DuckDBUnionValue;
export type StatementType = NodeApi.StatementType;

/** Everything that a connector imports: `import { tableConnector, text } from 'cdsync/sdk'`. */
export { escapeCsvFormula, escapeCsvFormulaSql, unescapeCsvFormulaSql } from '../core/csv-formulas.js';
export { printable } from '../core/printable.js';
export { byProxy, type ProxyRoute, proxyFor } from '../core/proxy.js';
export { ProxyFailure } from '../core/proxy-failure.js';
export { redactor, Secret } from '../core/secret.js';
export { filePattern } from '../core/sql.js';
export type {
  CsvDialect,
  FileFormat,
  IdentifierRules,
  Mode,
  RecordCapabilities,
  TableCapabilities,
} from './capabilities.js';
export { columnSums, type SummedColumn } from './column-sums.js';
export { type ColumnType, isNested, parseColumnType, type StreamColumn, type StructField } from './column-type.js';
export {
  type ChecksumColumn,
  type ColumnSum,
  type Connector,
  type DestinationCheck,
  type DestinationContext,
  type JobStream,
  type Lack,
  type OptionShape,
  type OptionValues,
  type OutgoingRecord,
  type RecordConnector,
  type RecordDestination,
  type RecordResult,
  recordConnector,
  type ServiceAccess,
  type TableConnector,
  type TableDestination,
  tableConnector,
} from './destination.js';
export { type DuckdbStatements, extensionsOption, loadDuckdbExtensions } from './duckdb-extensions.js';
export { duckdbProxy } from './duckdb-proxy.js';
export { duckdbRefused } from './duckdb-refused.js';
export {
  CdsyncError,
  connectionLost,
  countDiffers,
  type ErrorDetails,
  type ErrorKind,
  loadRefused,
  loginRefused,
  permissionMissing,
  unavailable,
  vendorLibrary,
  watermarkMoved,
} from './errors.js';
export { jsonValueSql } from './json-value.js';
export type {
  ColumnMapping,
  DataFile,
  Load,
  LoadAction,
  LoadColumn,
  LoadData,
  SchemaChange,
  TableColumn,
  TableDescription,
  TargetTable,
  ValueLimits,
} from './load.js';
export { type Finding, map, type OptionFacts, option } from './option.js';
export { choice, duration, flag, path, secret, text, verbatim, whole } from './option-types.js';
export { isThisMachine, plaintextRefused } from './plaintext.js';
export { type PostgresTls, withoutPostgresTls, withPostgresTls } from './postgres-tls.js';
export { type S3Options, type S3Store, s3Library, s3Options, s3Rules } from './s3/index.js';
export {
  openTrino,
  type TrinoLogin,
  type TrinoSession,
  trinoFailureName,
  trinoIdentifier,
  trinoText,
} from './trino.js';
export { emptyTrinoMerge, type TrinoAbsent, trinoMerge, trinoNames } from './trino-merge.js';
export { sameWatermark, type Watermark, watermarkColumns, watermarkFrom, watermarkTable } from './watermark.js';

/** Everything that a connector imports: `import { tableConnector, text } from 'cdsync/sdk'`. */
export { abortAfter, callAfter, sleep } from '../core/clock.js';
export { escapeCsvFormula, escapeCsvFormulaSql, unescapeCsvFormulaSql } from '../core/csv-formulas.js';
export {
  readStateIfUsable,
  renameDurably,
  sha256OfFile,
  statOrUndefined,
  syncFile,
  syncFolder,
  temporaryName,
  writeFileAtomically,
  writeStateFile,
  writeSynced,
} from '../core/durable.js';
export { entriesBelow, isThere, makeFolders } from '../core/folders.js';
export { printable } from '../core/printable.js';
export { retryAfterMs } from '../core/retry-after.js';
export { decodedLogin, redactor, Secret, withoutNotedSecrets } from '../core/secret.js';
export { filePattern, quoteIdentifier, sqlText } from '../core/sql.js';
export { z } from '../core/zod.js';
export {
  type ColumnType,
  decimalText,
  holdsAsJson,
  holdsEverywhere,
  isNested,
  parseColumnType,
  type StreamColumn,
  type StructField,
  typeParts,
  widensDecimal,
  widensInteger,
} from './column-type.js';
export { memoryOption, memorySettings, passwordOption, schemaOption } from './connection-options.js';
export { type CsvRow, csvRows } from './csv.js';
export type {
  FileFormat,
  Mode,
  RecordCapabilities,
  TableCapabilities,
} from './destination.js';
export {
  type Connector,
  type DestinationCheck,
  type DestinationContext,
  type FileConnector,
  fileConnector,
  type JobStream,
  type MissingRight,
  type OptionShape,
  type OptionValues,
  type OutgoingRecord,
  type RecordConnector,
  type RecordDestination,
  type RecordResult,
  recordConnector,
  type ServiceAccess,
  type StreamColumns,
  type TableConnector,
  type TableDestination,
  type TableSums,
  type TableTypes,
  tableConnector,
} from './destination.js';
export { duckdbRefused, wantsMemory } from './duckdb/errors.js';
export {
  duckdbProxy,
  duckdbS3Secret,
  extensionsOption,
  loadDuckdbExtensions,
  s3Confined,
  s3Server,
} from './duckdb/extensions.js';
export {
  assertHttps,
  isThisMachine,
  type PostgresTls,
  postgresEncryptionHint,
  withoutPostgresTls,
  withPostgresTls,
} from './encryption.js';
export {
  CdsyncError,
  connectionLost,
  countDiffers,
  type ErrorDetails,
  type ErrorKind,
  type ErrorRow,
  errorByWords,
  fenced,
  loadRefused,
  loginRefused,
  notATable,
  permissionMissing,
  serverErrors,
  tableMoved,
  tlsRefused,
  unavailable,
  untrusted,
  untrustedHint,
  valueRefused,
  vendorLibrary,
} from './errors.js';
export {
  comparableFileName,
  type FileFacts,
  type FileOp,
  type FilePart,
  type FilePlace,
  type FilePolicy,
  type FileTask,
  type HandedOver,
  type HandOver,
  type Made,
  type MadeFile,
  type TemporaryPlace,
  type WrittenFile,
} from './file-destination.js';
export {
  basicLogin,
  HttpConnections,
  type HttpRequest,
  type HttpResponse,
  NoResponse,
} from './http.js';
export type { IdentifierRules } from './identifier-rules.js';
export { type JsonMember, jsonText, objectText } from './json-text.js';
export {
  type ColumnMapping,
  type DataFile,
  type Finished,
  type FoundRows,
  type FoundTable,
  type Load,
  type LoadColumn,
  type LoadData,
  type LoadLine,
  type LoadOutcome,
  mapsColumns,
  type ReadBack,
  type RefusedValue,
  type StateKey,
  type StateRow,
  type TableChange,
  type TableColumn,
  type TableState,
  type TargetColumn,
  type TargetTable,
  type TypeTable,
  type ValueLimits,
  type Write,
} from './load.js';
export { objectStore, objectStoreOptions, objectStoreRules, reachedStore } from './object-stores.js';
export { describeTables, orClose } from './opened-destination.js';
export {
  choice,
  duration,
  flag,
  map,
  namedOnce,
  type OptionInfo,
  type OptionProblem,
  option,
  path,
  secret,
  text,
  verbatim,
  whole,
} from './option.js';
export type { PlannedRequest, PlannedRequests } from './planned-requests.js';
export { postgresConnector } from './postgres/connector.js';
export type { PostgresFamily } from './postgres/family.js';
export { type S3Options, type S3Store, s3Library, s3Options, s3Rules } from './s3/index.js';
export { silenceMs } from './silence.js';
export {
  type Change,
  columnsIn,
  type FoundColumns,
  type MergeTask,
  type SqlDialect,
  type SqlRow,
  type SqlSession,
  type Stage,
  TransactionalSession,
} from './sql/dialect.js';
export { duckdbDialect, duckdbType, duckdbTypes, duckdbWidens, largeRowsDialect } from './sql/duckdb-dialect.js';
export {
  alteredFile,
  assertNoDefinitions,
  assertNoFalseFunctions,
  type ConnectedDuckdb,
  connectDuckdb,
  DuckdbSession,
  keepSignOfZero,
} from './sql/duckdb-session.js';
export {
  canonicalText,
  canonicalTexts,
  type Digest,
  duckdbHashing,
  type RowHashing,
  rowNumber,
  shortBytes,
} from './sql/row-sum.js';
export { SqlDestination } from './sql/sql-destination.js';
export {
  isSameStream,
  loadsColumns,
  loadsKeptDays,
  loadsTable,
  stateColumns,
  stateTable,
  tableState,
} from './sql/state-rows.js';
export {
  absentChanges,
  assignments,
  definitions,
  deleteUpdateInsert,
  freeAlias,
  isOp,
  mergeSql,
  nameList,
  removesValues,
  sameKey,
  stagedColumns,
} from './sql/statements.js';
export { whileResponding } from './sql/while-responding.js';
export { templateFaults } from './template/faults.js';
export { TemplateFailure } from './template/filters.js';
export { templateText, unknownColumns } from './template/option.js';
export { BodyTemplate, TemplateRow, TextTemplate } from './template/template.js';
export { parseExactly } from './template/values.js';
export { nearestExisting, unwritable } from './writable.js';

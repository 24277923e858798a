/** What connectors import that keep watermarks: the SDK, with loads, tables and destinations as they were before records. */
export * from '../index.js';
export { columnSums } from './column-sums.js';
export {
  type ChecksumColumn,
  type ColumnSum,
  type TableConnector,
  type TableDestination,
  tableConnector,
} from './destination.js';
export { watermarkMoved } from './errors.js';
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
export { sameWatermark, type Watermark, watermarkColumns, watermarkFrom, watermarkTable } from './watermark.js';

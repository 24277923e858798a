/** An id of 64 bits: a bigint if it has 16 digits or more (see `exact-json.ts`). */
type LongId = number | bigint;

/** The members of a table's metadata that this connector reads (Iceberg specification, "Table Metadata"). Other members are passed on. */
export interface TableMetadata {
  readonly 'format-version': number;
  readonly 'table-uuid': string;
  readonly location: string;
  readonly 'last-column-id': number;
  readonly 'current-schema-id': number;
  readonly schemas: readonly IcebergSchema[];
  readonly 'default-spec-id'?: number;
  /** The highest id of a partition field of any spec. */
  readonly 'last-partition-id'?: number;
  readonly 'partition-specs'?: readonly { readonly 'spec-id': number; readonly fields: readonly PartOfLayout[] }[];
  readonly 'default-sort-order-id'?: number;
  readonly 'sort-orders'?: readonly { readonly 'order-id': number; readonly fields: readonly PartOfLayout[] }[];
  readonly properties?: Readonly<Record<string, string>>;
  /** Missing, null or -1: the table has no rows and never had any. */
  readonly 'current-snapshot-id'?: LongId | null;
  readonly snapshots?: readonly Snapshot[];
  readonly refs?: Readonly<Record<string, unknown>>;
  readonly 'snapshot-log'?: readonly unknown[];
  readonly 'last-sequence-number'?: number;
  readonly 'last-updated-ms'?: number;
  /** Format 3: the id of the next row that is added. */
  readonly 'next-row-id'?: number;
}

/** One field of a partition spec or of a sort order. Other members are passed on. */
interface PartOfLayout {
  readonly 'source-id': number;
  readonly [member: string]: unknown;
}

/** The catalog's response to "load table": the metadata, and settings for a reader of the files (`config`, credentials). */
export interface LoadedTable {
  readonly metadata: TableMetadata;
  /** The file of the metadata. */
  readonly 'metadata-location'?: string;
  readonly config?: Readonly<Record<string, string>>;
  readonly 'storage-credentials'?: readonly Pick<LoadedTable, 'config'>[];
  readonly [member: string]: unknown;
}

export interface IcebergSchema {
  readonly type: 'struct';
  readonly 'schema-id': number;
  readonly 'identifier-field-ids'?: readonly number[];
  readonly fields: readonly IcebergField[];
}

export interface IcebergField {
  readonly id: number;
  readonly name: string;
  readonly required: boolean;
  readonly type: IcebergType;
}

/** A primitive type is text, such as `decimal(38, 0)`. */
export type IcebergType = string | IcebergStruct | IcebergList | IcebergMap;

type IcebergStruct = Pick<IcebergSchema, 'type' | 'fields'>;

interface IcebergList {
  readonly type: 'list';
  readonly 'element-id': number;
  readonly element: IcebergType;
  readonly 'element-required': boolean;
}

/** cdsync makes no maps, but a table that it adopts may have one. */
interface IcebergMap {
  readonly type: 'map';
  readonly 'key-id': number;
  readonly key: IcebergType;
  readonly 'value-id': number;
  readonly value: IcebergType;
  readonly 'value-required': boolean;
}

export interface Snapshot {
  readonly 'snapshot-id': LongId;
  readonly 'parent-snapshot-id'?: LongId;
  readonly 'sequence-number'?: number;
  readonly 'timestamp-ms': number;
  readonly 'manifest-list': string;
  readonly summary: Readonly<Record<string, string>>;
  /** Format 3, row lineage. */
  readonly 'first-row-id'?: number;
  readonly 'added-rows'?: number;
}

/** The schema that new rows have. */
export function currentSchema(metadata: TableMetadata): IcebergSchema {
  const schema = metadata.schemas.find((schema) => schema['schema-id'] === metadata['current-schema-id']);
  if (schema === undefined) throw new Error('the metadata of the table lacks its current schema');
  return schema;
}

/** The snapshot that readers see. */
export function currentSnapshot(metadata: TableMetadata): Snapshot | undefined {
  const id = currentSnapshotId(metadata);
  return metadata.snapshots?.find((snapshot) => snapshot['snapshot-id'] === id);
}

/** The id of the snapshot that readers see; null if there is none. */
export function currentSnapshotId({ 'current-snapshot-id': id }: TableMetadata): LongId | null {
  return id === undefined || id === null || id === -1 ? null : id;
}

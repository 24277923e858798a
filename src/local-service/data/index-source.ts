/** An index as the Profile API shows it (specification, section 2.1). */
export interface IndexResource {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Attribute and value of each filter of a request. */
export type Filters = readonly (readonly [attribute: string, value: string])[];

/** The records of one page, as positions; valid until the next selection. */
export interface Selected {
  readonly positions: ArrayLike<number>;
  readonly count: number;
  /** Bytes of these records together; undefined: each has about the most that a record may have. */
  readonly bytes?: number;
  /** Position of the first record after the page; -1 at the end of the list. */
  readonly next: number;
}

/** The records of an index that match some filters. */
export interface ProfileList {
  /** The present number of records. */
  total(): number;
  /** At most `limit` records, from a position onwards. */
  select(from: number, limit: number): Selected;
}

/** Where the records of one index come from. */
export interface IndexSource {
  readonly resource: IndexResource;
  readonly filterable: readonly string[];
  /** The longest record has at most this many bytes. */
  readonly maxRecordBytes: number;
  /** The caller passes filterable attributes only. */
  list(filters: Filters): ProfileList;
  /** Writes the record at a position that a selection gave; returns the offset after it. */
  write(position: number, target: Uint8Array, offset: number): number;
  /** Position of the record with this id; -1 if there is none. */
  find(id: string): number;
}

/** The bytes of one record. */
export function recordBytes(source: IndexSource, position: number): Buffer {
  const bytes = Buffer.allocUnsafe(source.maxRecordBytes);
  return bytes.subarray(0, source.write(position, bytes, 0));
}

/**
 * How far a stream has been delivered to a destination: everything up to and including snapshot `sequence` of the store
 * `storeId`. The destination itself keeps it in {@link watermarkTable}, one row for each (destination, stream).
 */
export interface Watermark {
  /** The destination's name in the configuration. */
  readonly destination: string;
  readonly stream: string;
  /** The table or place that the stream is delivered to. */
  readonly table: string;
  /** Tells the job's storage folder from any other. */
  readonly storeId: string;
  /** Number of the snapshot. */
  readonly sequence: number;
  /** Hash of what is delivered: the stream's definition, its columns' names, the mode. */
  readonly definition: string;
  /** When it was moved: ISO 8601, UTC. */
  readonly deliveredAt: string;
}

/** The table of watermarks: it has exactly this name, and lies beside the tables that it describes. */
export const watermarkTable = '_cdsync_watermarks';

/** Columns of {@link watermarkTable} in order. `sequence` is an integer of 64 bits, the others are text. */
export const watermarkColumns = [
  'destination',
  'stream',
  'table_name',
  'store_id',
  'sequence',
  'definition',
  'delivered_at',
] as const;

/** The watermark in a row of {@link watermarkTable}. */
export function watermarkFrom(row: Readonly<Record<string, unknown>>): Watermark {
  return {
    destination: String(row.destination),
    stream: String(row.stream),
    table: String(row.table_name),
    storeId: String(row.store_id),
    sequence: Number(row.sequence),
    definition: String(row.definition),
    deliveredAt: String(row.delivered_at),
  };
}

/** Whether two readings of a stream's watermark are equal: nobody has moved it in between. */
export function sameWatermark(one: Watermark | undefined, other: Watermark | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.storeId === other.storeId && one.sequence === other.sequence && one.deliveredAt === other.deliveredAt;
}

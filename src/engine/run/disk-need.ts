/** What is known of a stream that is to be read. */
export interface StreamSize {
  /** Records that will be read. */
  readonly rows: number;
  /** Of a record as it is spooled. */
  readonly spooledPerRow: number;
  /** Of a row in Parquet. */
  readonly parquetPerRow: number;
  /** Part of the rows that will be inserted or updated, from 0 to 1. */
  readonly changedShare: number;
  /** Bytes of the stream's parts that are there already. */
  readonly read: number;
}

export interface StoreSize {
  /** Of the store's file, or of its published copy. */
  readonly bytes: number;
  /** Of all streams together. */
  readonly rows: number;
  /** Whether a copy is published. */
  readonly publishes: boolean;
}

/** Bytes that a run needs besides what is there, by what needs them; they add up to its peak. */
export interface DiskNeed {
  /** Records that wait for their conversion. */
  readonly spool: number;
  /** Parts and their keys: the next snapshot's files. */
  readonly parts: number;
  /** What the store grows by. */
  readonly store: number;
  /** The copy of the store that is published. */
  readonly published: number;
  readonly total: number;
}

/** A stream has so much spooled at most: batches that are written, wait, and are converted. */
const mostSpooled = 48e6;
/** A row in a part's keys file, compressed: its key, hash and place. */
export const keyBytes = 30;
/** Where nothing better is known: a row in DuckDB's tables, with its key and hash, takes so much of what is spooled of it. */
const tableFactor = 0.4;
/** Where more of the rows than this change, the table is made anew beside the old one (see snapshot/apply.ts). */
const rebuildShare = 0.1;

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** What a run needs at its peak: everything it writes before it removes anything. */
export function diskNeed(streams: readonly StreamSize[], store: StoreSize): DiskNeed {
  const tablePerRow = ({ spooledPerRow }: StreamSize) =>
    store.rows > 0 ? store.bytes / store.rows : tableFactor * spooledPerRow;
  const grows = (stream: StreamSize) => {
    const table = stream.rows * tablePerRow(stream);
    return stream.changedShare > rebuildShare ? table : 2 * stream.changedShare * table;
  };
  const spool = sum(streams.map(({ rows, spooledPerRow }) => Math.min(rows * spooledPerRow, mostSpooled)));
  const parts = sum(
    streams.map(({ rows, parquetPerRow, read }) => Math.max(0, rows * (parquetPerRow + keyBytes) - read)),
  );
  const growth = sum(streams.map(grows));
  const changes = sum(streams.map(({ rows, parquetPerRow, changedShare }) => rows * parquetPerRow * changedShare));
  const published = store.publishes && growth > 0 ? store.bytes + growth : 0;
  const bytes = { spool, parts: parts + changes, store: growth, published };
  const rounded = Object.fromEntries(Object.entries(bytes).map(([name, value]) => [name, Math.ceil(value)]));
  return { ...(rounded as typeof bytes), total: sum(Object.values(rounded)) };
}

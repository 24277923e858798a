/** The sizes of a stream to read. */
export interface StreamSize {
  /** Records that will be read. */
  readonly rows: number;
  /** Bytes of a spooled record. */
  readonly spooledPerRow: number;
  /** Bytes of a row in Parquet. */
  readonly parquetPerRow: number;
  /** Share of the rows that will be inserted or updated, from 0 to 1. */
  readonly changedShare: number;
  /** Bytes of parts that an earlier run has written already. */
  readonly read: number;
}

interface StoreSize {
  /** Size of the store's file, or of its published copy. */
  readonly bytes: number;
  /** Rows of all streams together. */
  readonly rows: number;
  /** Whether a copy is published. */
  readonly publishes: boolean;
}

/** Bytes that a run needs in addition, by purpose; their sum is its peak. */
export interface DiskNeed {
  /** Records that wait for conversion. */
  readonly spool: number;
  /** Parts and their keys: the next snapshot's files. */
  readonly parts: number;
  /** Growth of the store. */
  readonly store: number;
  /** The copy of the store that is published. */
  readonly published: number;
  readonly total: number;
}

/** The most that a stream has spooled: batches that are written, wait, or are converted. */
const mostSpooled = 48e6;
/** A row in a part's keys file, compressed: its key, hash and place. */
export const keyBytes = 30;
/** Without a store to measure: size of a row in DuckDB's tables, with key and hash, relative to its spooled record. */
const tableFactor = 0.4;
/** If a larger share of the rows changes, the table is rebuilt beside the old one (see snapshot/apply.ts). */
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

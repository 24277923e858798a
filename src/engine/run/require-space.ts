import { stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { entriesBelow } from '../../core/folders.js';
import { formatBytes } from '../../core/quantities.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { RunContext } from '../run-context.js';
import type { PreviousState } from './recover.js';

/** Bytes that this user may still write to the file system of a folder, which need not exist yet. */
async function freeSpace(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch (error) {
    const above = dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === folder) throw error;
    return freeSpace(above);
  }
}

/** Bytes of the files below a folder; 0 if there is no folder. */
async function bytesBelow(folder: string): Promise<number> {
  const entries = await entriesBelow(folder).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = files.map((entry) => stat(join(entry.parentPath, entry.name)).catch(() => undefined));
  return (await Promise.all(sizes)).reduce((sum, stats) => sum + (stats?.size ?? 0), 0);
}

/** Bytes of one file; 0 if there is none. */
export async function bytesOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

/** The sizes of a stream to read. */
export interface StreamSize {
  /** Records that will be read. */
  readonly rows: number;
  /** Bytes of a record in a staging file. */
  readonly stagedPerRow: number;
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
  readonly staging: number;
  /** Parts and their keys: the next snapshot's files. */
  readonly parts: number;
  /** Growth of the store. */
  readonly store: number;
  /** The copy of the store that is published. */
  readonly published: number;
  readonly total: number;
}

/** The most bytes of a stream in staging files: batches that are written, wait, or are converted. */
const maxStaged = 48e6;
/** A row in a part's keys file, compressed: its key, hash and place. */
const keyBytes = 30;
/** Without a store to measure: size of a row in DuckDB's tables, with key and hash, relative to its staged record. */
const tableFactor = 0.4;
/** Growth of the store by a stream that changes, however few its rows are: DuckDB writes whole blocks for each table and column. */
const minGrowth = 2e6;
/** If a larger share of the rows changes, the table is rebuilt beside the old one (see snapshot/apply.ts). */
const rebuildShare = 0.1;

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The space that a run needs at its peak: all that it writes before it removes files. */
export function diskNeed(streams: readonly StreamSize[], store: StoreSize): DiskNeed {
  const tablePerRow = ({ stagedPerRow }: StreamSize) =>
    store.rows > 0 ? store.bytes / store.rows : tableFactor * stagedPerRow;
  const grows = (stream: StreamSize) => {
    const table = stream.rows * tablePerRow(stream);
    const grown = stream.changedShare > rebuildShare ? table : 2 * stream.changedShare * table;
    return stream.changedShare > 0 ? grown + minGrowth : 0;
  };
  const staging = sum(streams.map(({ rows, stagedPerRow }) => Math.min(rows * stagedPerRow, maxStaged)));
  const parts = sum(
    streams.map(({ rows, parquetPerRow, read }) => Math.max(0, rows * (parquetPerRow + keyBytes) - read)),
  );
  const growth = sum(streams.map(grows));
  const changes = sum(streams.map(({ rows, parquetPerRow, changedShare }) => rows * parquetPerRow * changedShare));
  const published = store.publishes && growth > 0 ? store.bytes + growth : 0;
  const bytes = { staging, parts: parts + changes, store: growth, published };
  const rounded = Object.fromEntries(Object.entries(bytes).map(([name, value]) => [name, Math.ceil(value)]));
  return { ...(rounded as typeof bytes), total: sum(Object.values(rounded)) };
}

/** The least share of the last run's files that must fit: the list may have become shorter since. */
const minShare = 0.5;
/** The share of a list that usually changes between runs. */
const usualChange = 0.02;
/** Size of a staged record relative to its row in Parquet. */
const stagingFactor = 12;
/** A first run gets a warning if less than this is free, because its need is unknown. */
const firstRunFloor = 500e6;

/** Rows and bytes of a stream's last snapshot. */
function sizeOf({ snapshot }: StreamState): { rows: number; bytes: number } {
  return snapshot.reduce((sum, file) => ({ rows: sum.rows + file.rows, bytes: sum.bytes + file.bytes }), {
    rows: 0,
    bytes: 0,
  });
}

/** The size of the last snapshots of streams that are read in full, and the free space. */
interface DiskSpace {
  readonly streams: readonly string[];
  readonly previous: readonly { rows: number; bytes: number }[];
  /** Parts and their keys: each run writes as much again. */
  readonly parts: number;
  readonly free: number;
  readonly usable: number;
  /** Whether a run is refused. */
  readonly isShort: boolean;
}

/** Compares the need of the last run with the free space. */
export async function measureSpace(
  { layout }: Pick<RunContext, 'layout'>,
  configs: readonly StreamConfig[],
  before: PreviousState | undefined,
): Promise<DiskSpace> {
  const streams = configs.filter(({ reads }) => reads.coverage === 'everything').map(({ name }) => name);
  const previous = streams.flatMap((name) => before?.streams.get(name) ?? []).map(sizeOf);
  const parts = previous.reduce((sum, { rows, bytes }) => sum + bytes + rows * keyBytes, 0);
  const free = await freeSpace(layout.folder);
  // Files of earlier runs count as free: a run resumes or removes them.
  const usable = free + (await bytesBelow(layout.runs));
  return { streams, previous, parts, free, usable, isShort: usable < minShare * parts };
}

/**
 * Checks, before the first request, that there is space for as much as the last run wrote for the same streams. Warns if the space
 * is only probably too small.
 * @throws {CdsyncError} `disk_short`
 */
export async function requireSpace(
  context: Pick<RunContext, 'layout' | 'job' | 'notice'>,
  configs: readonly StreamConfig[],
  before: PreviousState,
): Promise<void> {
  const { layout, job, notice } = context;
  const { streams, previous, parts, free, usable, isShort } = await measureSpace(context, configs, before);
  const isFree = `${formatBytes(free)} are free in ${layout.folder}`;
  if (isShort) {
    throw new CdsyncError(
      `the disk is too small: the last snapshot of ${streams.join(', ')} takes ${formatBytes(parts)}, and ${isFree}`,
      {
        code: 'disk_short',
        hint: 'no request was sent; free some space, lower `keep.snapshots` or `keep.changes`, or read less at once with --stream',
      },
    );
  }
  if (previous.length < streams.length && free < firstRunFloor) {
    notice(`warning: ${isFree}, and streams are read for the first time; cdsync plan shows their need`);
    return;
  }
  const rows = [...before.streams.values()].reduce((sum, stream) => sum + stream.rows, 0);
  const store = { bytes: await bytesOf(layout.store), rows, publishes: job.publish.duckdb };
  const sizes = previous.map(({ rows: count, bytes }) => {
    const parquetPerRow = count === 0 ? 0 : bytes / count;
    const stagedPerRow = parquetPerRow * stagingFactor;
    return { rows: count, parquetPerRow, stagedPerRow, changedShare: usualChange, read: 0 };
  });
  const { total } = diskNeed(sizes, store);
  if (usable >= total) return;
  notice(`warning: a run like the last needs up to ${formatBytes(total)}, and ${isFree}; cdsync plan shows more`);
}

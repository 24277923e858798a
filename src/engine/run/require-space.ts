import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { formatBytes } from '../../core/quantities.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { bytesBelow, bytesOf, freeSpace } from '../../storage/free-space.js';
import type { RunContext } from '../run-context.js';
import { diskNeed, keyBytes } from './disk-need.js';
import type { PreviousState } from './recover.js';

/** The least share of the last run's files that must fit: the list may have become shorter since. */
const leastShare = 0.5;
/** The share of a list that a usual night changes. */
const usualChange = 0.02;
/** Size of a spooled record relative to its row in Parquet. */
const spooledFactor = 12;
/** A first run gets a warning if less than this is free: nobody knows how much it needs. */
const firstRunFloor = 500e6;

/** Rows and bytes of a stream's last snapshot. */
function sizeOf({ snapshot }: StreamState): { rows: number; bytes: number } {
  return snapshot.reduce((sum, file) => ({ rows: sum.rows + file.rows, bytes: sum.bytes + file.bytes }), {
    rows: 0,
    bytes: 0,
  });
}

/** Streams whose every record is read in each run. */
function readInFull({ reads }: StreamConfig): boolean {
  return reads.brings === 'everything';
}

/** What the last run wrote for the streams that are read in full, and the space there is. */
interface Room {
  readonly streams: readonly string[];
  readonly known: readonly { rows: number; bytes: number }[];
  /** Parts and their keys: what each run writes again. */
  readonly parts: number;
  readonly free: number;
  readonly usable: number;
  /** Whether a run is refused. */
  readonly isShort: boolean;
}

/** Compares what the last run needed with the free space. */
export async function roomFor(
  { layout }: Pick<RunContext, 'layout'>,
  configs: readonly StreamConfig[],
  before: PreviousState | undefined,
): Promise<Room> {
  const streams = configs.filter(readInFull).map(({ name }) => name);
  const known = streams.flatMap((name) => before?.streams.get(name) ?? []).map(sizeOf);
  const parts = known.reduce((sum, { rows, bytes }) => sum + bytes + rows * keyBytes, 0);
  const free = await freeSpace(layout.folder);
  // Files of earlier runs count as free: a run resumes or removes them.
  const usable = free + (await bytesBelow(layout.runs));
  return { streams, known, parts, free, usable, isShort: usable < leastShare * parts };
}

/**
 * Makes sure, before the first request, that there is room for what the last run wrote for the same streams. If room is
 * only probably short, warns.
 * @throws {CdsyncError} `disk_short`
 */
export async function requireSpace(
  context: Pick<RunContext, 'layout' | 'job' | 'notice'>,
  configs: readonly StreamConfig[],
  before: PreviousState,
): Promise<void> {
  const { layout, job, notice } = context;
  const { streams, known, parts, free, usable, isShort } = await roomFor(context, configs, before);
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
  if (known.length < streams.length && free < firstRunFloor) {
    notice(`warning: ${isFree}, and streams are read for the first time; cdsync plan shows what they need`);
    return;
  }
  const rows = [...before.streams.values()].reduce((sum, stream) => sum + stream.rows, 0);
  const store = { bytes: await bytesOf(layout.store), rows, publishes: job.publish.duckdb };
  const sizes = known.map(({ rows: count, bytes }) => {
    const parquetPerRow = count === 0 ? 0 : bytes / count;
    const spooledPerRow = parquetPerRow * spooledFactor;
    return { rows: count, parquetPerRow, spooledPerRow, changedShare: usualChange, read: 0 };
  });
  const { total } = diskNeed(sizes, store);
  if (usable >= total) return;
  notice(`warning: a run like the last needs up to ${formatBytes(total)}, and ${isFree}; cdsync plan shows more`);
}

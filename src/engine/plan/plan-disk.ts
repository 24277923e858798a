import type { StreamState } from '../../snapshot/snapshot-store.js';
import { bytesOf } from '../../store/free-space.js';
import { chosenStreams } from '../run/chosen-streams.js';
import { diskNeed, type StreamSize } from '../run/disk-need.js';
import type { Before } from '../run/recover.js';
import { roomFor } from '../run/require-space.js';
import type { RunContext } from '../run-context.js';
import type { JobPlan, PlannedStream } from './job-plan.js';
import type { TimedReading } from './past-pace.js';

/** A stream while the plan is being made. */
export interface Planned {
  readonly shown: PlannedStream;
  /** Undefined if the stream does not ask the service, or could not. */
  readonly reading: TimedReading | undefined;
}

/** Parquet compresses each column alone: to about this share of the same records compressed in one piece. */
const columnarShare = 0.6;

function sizeOf({ reading, shown }: Planned, previous: StreamState | undefined): StreamSize {
  const rows = reading?.records ?? shown.snapshot_rows ?? 0;
  const bytes = previous?.snapshot.reduce((sum, file) => sum + file.bytes, 0) ?? 0;
  const stored = previous?.snapshot.reduce((sum, file) => sum + file.rows, 0) ?? 0;
  const sample = reading?.sample;
  const parquetPerRow = stored > 0 ? bytes / stored : columnarShare * (sample?.compressedPerRecord ?? 0);
  const compared = sample?.compared ?? undefined;
  const changed = (compared?.new ?? 0) + (compared?.changed ?? 0);
  const seen = changed + (compared?.unchanged ?? 0);
  return {
    rows,
    spooledPerRow: sample?.bytesPerRecord ?? 0,
    parquetPerRow,
    changedShare: previous === undefined ? 1 : seen === 0 ? 0 : changed / seen,
    read: (reading?.resumes?.records ?? 0) * parquetPerRow,
  };
}

/** The disk space that a run would need, estimated from the last snapshot and the sample, and the free space. */
export async function planDisk(
  context: RunContext,
  before: Before | undefined,
  planned: readonly Planned[],
): Promise<JobPlan['disk']> {
  const { layout, job } = context;
  const sizes = planned.map((each) => sizeOf(each, before?.streams.get(each.shown.name)));
  const rows = [...(before?.streams.values() ?? [])].reduce((sum, stream) => sum + stream.rows, 0);
  const store = { bytes: await bytesOf(layout.store), rows, publishes: job.publish.duckdb };
  const need = diskNeed(sizes, store);
  const { free, usable, isShort } = await roomFor(context, chosenStreams(context), before);
  return { need, free, short: isShort ? 'refused' : usable < need.total ? 'perhaps' : 'no' };
}

import type { JobConfig, StreamConfig } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { nameHint } from '../core/suggestions.js';
import { usageError } from './output.js';

/** What a command line narrows its work to; undefined for everything. */
export interface JobSelection {
  readonly streams?: readonly string[] | undefined;
  readonly destinations?: readonly string[] | undefined;
  /** Only jobs with a stream that is read by time. */
  readonly byTime?: boolean | undefined;
  /** Only jobs with a destination. */
  readonly delivering?: boolean | undefined;
}

/** A job, and the streams and destinations of it that a command works on; undefined for all. */
export interface SelectedJob extends Pick<JobSelection, 'streams' | 'destinations'> {
  readonly job: JobConfig;
}

const isByTime = ({ reads }: StreamConfig) => reads.windows !== undefined;

/** @throws {CdsyncError} if none of the jobs has one of the names */
function refuseUnknown(what: 'stream' | 'destination', named: readonly string[], known: readonly string[]): void {
  const unknown = named.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new CdsyncError(`none of these jobs has a ${what} "${unknown}"`, {
    code: `${what}_not_found`,
    hint: nameHint(`their ${what}s`, unknown, [...new Set(known)]),
  });
}

function inJob(job: JobConfig, { streams, destinations, byTime, delivering }: JobSelection): SelectedJob | undefined {
  const chosen = job.streams.filter(({ name }) => streams?.includes(name) ?? true);
  const targets = job.destinations.filter(({ name }) => destinations?.includes(name) ?? true);
  if (chosen.length === 0 || (byTime && !chosen.some(isByTime))) return undefined;
  if (targets.length === 0 && (delivering || destinations !== undefined)) return undefined;
  return {
    job,
    streams: streams && chosen.map(({ name }) => name),
    destinations: destinations && targets.map(({ name }) => name),
  };
}

/**
 * What of a command's streams and destinations each of several jobs has. A job that has nothing of them is left out.
 * @throws {CdsyncError} `stream_not_found`, `destination_not_found` if no job has one; `usage` if nothing is left
 */
export function selectJobs(jobs: readonly JobConfig[], narrowing: JobSelection): readonly SelectedJob[] {
  const all = <T>(of: (job: JobConfig) => readonly T[]) => jobs.flatMap(of);
  const { streams = [], destinations = [] } = narrowing;
  refuseUnknown(
    'stream',
    streams,
    all((job) => job.streams.map(({ name }) => name)),
  );
  refuseUnknown(
    'destination',
    destinations,
    all((job) => job.destinations.map(({ name }) => name)),
  );
  const left = jobs.flatMap((job) => inJob(job, narrowing) ?? []);
  if (left.length > 0) return left;
  if (narrowing.byTime) {
    throw usageError(
      'no stream of these jobs is read by time, so there is nothing to read again',
      '--from and --to are for the sources that have the option `since`',
    );
  }
  throw new CdsyncError('none of these jobs has such a destination', {
    code: 'destination_not_found',
    hint: 'add one under `destinations:`; docs/destinations.md has examples',
  });
}

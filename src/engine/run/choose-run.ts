import { heldStreams } from '../../store/held.js';
import { createRun, type RunIdentity } from '../../store/run-state.js';
import type { RunContext } from '../run-context.js';
import type { OpenedStream } from './read-stream.js';
import type { Before } from './recover.js';

/**
 * The run to resume: an earlier one that has committed nothing and holds nothing. Otherwise a new one, which takes over the
 * parts of the earlier.
 */
export async function chooseRun(
  { layout, job, clock }: Pick<RunContext, 'layout' | 'job' | 'clock'>,
  opened: readonly OpenedStream[],
  before: Before,
): Promise<RunIdentity> {
  const unfinished = opened.flatMap(({ unfinished: found }) => (found === undefined ? [] : [found.run]));
  const newest = unfinished.sort((a, b) => (a.runId < b.runId ? 1 : -1))[0];
  const names = job.streams.map(({ name }) => name);
  const holds = (await heldStreams(layout, names)).some(({ run_id }) => run_id === newest?.runId);
  if (newest !== undefined && !holds && !before.committed.has(newest.runId)) return newest;
  return createRun(layout, clock.now());
}

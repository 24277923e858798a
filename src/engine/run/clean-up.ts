import { heldStreams } from '../../store/held.js';
import { discardRun, discardStreams, streamsIn } from '../../store/run-state.js';
import { runFolders } from '../../store/storage.js';
import type { RunContext } from '../run-context.js';
import { type RunEnd, removable } from './removable.js';

/** After a run, removes files in the runs' folders that nobody needs any more: see {@link removable}. */
export async function cleanUp(
  { layout, only, range, job }: Pick<RunContext, 'layout' | 'only' | 'range' | 'job'>,
  end: Pick<RunEnd, 'runId' | 'streams' | 'isCutShort'>,
): Promise<void> {
  const names = job.streams.map(({ name }) => name);
  const held = (await heldStreams(layout, names)).map(({ run_id: runId, stream }) => ({ runId, stream }));
  const folders: { runId: string; streams: string[] }[] = [];
  for (const runId of await runFolders(layout)) folders.push({ runId, streams: await streamsIn(layout, runId) });
  const isPart = only !== undefined || range !== undefined;
  const { runs, streams } = removable({ ...end, isPart, folders, held });
  for (const { runId, stream } of streams) await discardStreams(layout, runId, [stream]);
  for (const runId of runs) await discardRun(layout, runId);
}

import { lstat, readdir, readlink, rm } from 'node:fs/promises';
import { CdsyncError } from '../core/errors.js';
import { swapLink } from '../storage/durable.js';
import type { JobLayout } from '../storage/layout.js';
import { linkedFiles, snapshotFilePattern, snapshotFolder } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import type { StreamState } from './stream-state.js';

/** An archiver may have put a copy of the files in place of the link. */
async function removeCopy(layout: JobLayout, stream: string): Promise<void> {
  const path = layout.current(stream);
  const found = await lstat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) return;
  if ((await readdir(path)).every((name) => snapshotFilePattern.test(name))) return rm(path, { recursive: true });
  throw new CdsyncError(`${path} is a folder with files that cdsync did not put there; it should be a link`, {
    code: 'storage_failed',
    stream,
    hint: 'move it away, and run again',
  });
}

/** Leads `current` to the folder of a stream's last snapshot, unless it already does. The files must be in their place. */
export async function swapCurrentLink(layout: JobLayout, { stream, snapshot }: StreamState): Promise<void> {
  const folder = snapshotFolder(snapshot);
  const path = layout.current(stream);
  if (folder === undefined || (await readlink(path).catch(() => undefined)) === folder) return;
  await removeCopy(layout, stream);
  await swapLink(path, folder);
}

/**
 * Earlier versions left the files of a snapshot that only grew in the folders of the runs that brought them. This gathers them in the
 * folder of the last one; publishing then brings them there.
 * @returns the streams that had such files, as the store now has them
 */
export async function gatherSnapshots(
  store: SnapshotStore,
  layout: JobLayout,
  states: Iterable<StreamState>,
): Promise<StreamState[]> {
  const moved: StreamState[] = [];
  for (const state of states) {
    if (state.snapshot.length === 0 || snapshotFolder(state.snapshot) !== undefined) continue;
    const next = {
      ...state,
      snapshot: linkedFiles(layout, { stream: state.stream, runId: state.run_id }, state.snapshot),
    };
    await store.rememberStream(next);
    moved.push(next);
  }
  return moved;
}

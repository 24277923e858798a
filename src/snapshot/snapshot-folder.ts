import { lstat, readdir, readlink, rm, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { swapLink } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import type { JobLayout } from '../storage/layout.js';
import type { ParquetFile } from '../storage/parquet.js';
import type { CommittedFile, StreamState } from './stream-state.js';

/*
 * `snapshot/<run>/` has all files of the run's snapshot, those that it shares with the snapshot before included: these are hard links,
 * or copies where the file system has none. So a plain glob of one folder is always one whole snapshot.
 *
 * `current` points to the newest folder, and may be swapped while someone opens the files of a glob one by one. So a name never
 * leads them from one snapshot into a part of another: a file that is a whole snapshot is `00001.parquet`; one of several has its run
 * in its name. They find the file that they have listed, or a whole snapshot, or nothing.
 */

const numbered = (index: number) => `${String(index + 1).padStart(5, '0')}.parquet`;

/** The name of a file in a snapshot's folder. */
export const snapshotFilePattern = /^(\d{8}T\d{6}Z-[0-9a-f]{6}-)?\d{5}\.parquet$/;

/** The name of a new file in its snapshot's folder. */
export function snapshotFileName(runId: string, index: number, isWhole: boolean): string {
  return isWhole ? numbered(index) : `${runId}-${numbered(index)}`;
}

/** The folder of a snapshot, relative to that of its stream; undefined if it has no files, or not all of them in one folder. */
export function snapshotFolder(files: readonly Pick<CommittedFile, 'path'>[]): string | undefined {
  const folders = new Set(files.map(({ path }) => path.split('/').slice(0, 2).join('/')));
  return folders.size === 1 ? [...folders][0] : undefined;
}

/** A new file as the commit names it, and from where publishing moves it. */
export async function newFile(layout: JobLayout, written: ParquetFile, path: string): Promise<CommittedFile> {
  const { rows, bytes, sha256 } = written;
  const { mtimeMs } = await stat(written.path);
  const from = relative(layout.folder, written.path);
  return { path, from, rows, bytes, sha256, changed_ms: Math.floor(mtimeMs) };
}

/**
 * The same files in the folder of one run's snapshot. Files of other folders keep their names there; if two have the same one, the run
 * that wrote the file precedes it.
 */
export function linkedFiles(
  layout: JobLayout,
  { stream, runId }: { stream: string; runId: string },
  files: readonly CommittedFile[],
): CommittedFile[] {
  const isOwn = ({ path }: CommittedFile) => path.split('/')[1] === runId;
  const taken = new Set(files.filter(isOwn).map(({ path }) => basename(path)));
  return files.map((file) => {
    if (isOwn(file)) return file;
    const [, run = '', name = ''] = file.path.split('/');
    const unique = taken.has(name) ? `${run}-${name}` : name;
    taken.add(unique);
    const from = relative(layout.folder, join(layout.stream(stream), file.path));
    return { ...file, path: `snapshot/${runId}/${unique}`, from };
  });
}

/** An archiver may have put a copy of the files in place of the link. */
async function removeCopy(layout: JobLayout, stream: string): Promise<void> {
  const path = layout.current(stream);
  const stats = await lstat(path).catch(() => undefined);
  if (stats?.isDirectory() !== true) return;
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

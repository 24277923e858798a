import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import type { FilePlace } from '../../sdk/file-destination.js';
import type { Erasure } from '../../storage/erasures.js';
import { type HandedFile, readExportState, writeExportState } from './file-state.js';

type Opening = () => Promise<FilePlace>;

interface Removed {
  /** Files that were no longer there. */
  readonly gone: number;
  /** Why the others could not be removed. */
  readonly failure?: { readonly files: number; readonly error: unknown };
}

/** Removes a file, and its own companions. @returns whether it was there */
async function removeFile(place: FilePlace, { name, companions }: HandedFile, others: readonly HandedFile[]) {
  const shared = new Set(others.flatMap((other) => (other.name === name ? [] : other.companions)));
  // The file last: while it is there, all names are known.
  for (const companion of companions) if (!shared.has(companion)) await place.remove(companion);
  return place.remove(name);
}

/** Removes cdsync's files that may have people who were forgotten since. */
export async function removeOwed(kept: string, erasures: readonly Erasure[], opened: Opening): Promise<Removed> {
  const state = await readExportState(kept);
  const due = erasures.filter(({ number }) => number > state.removed_for);
  if (due.length > 0) {
    const files = state.files.map((file) => ({ ...file, is_owed: true }));
    await writeExportState(kept, { ...state, files, removed_for: due.at(-1)?.number ?? 0 });
  }
  return removeFiles(kept, ({ is_owed }) => is_owed === true, opened);
}

async function removeFiles(kept: string, isDue: (file: HandedFile) => boolean, opened: Opening): Promise<Removed> {
  const { files } = await readExportState(kept);
  const due = files.filter(isDue);
  if (due.length === 0) return { gone: 0 };
  const place = await opened();
  let [gone, failed, error] = [0, 0, undefined as unknown];
  for (const file of due) {
    const state = await readExportState(kept);
    try {
      if (!(await removeFile(place, file, state.files))) gone += 1;
    } catch (thrown) {
      if (asCdsyncError(thrown).kind === 'retryable') throw thrown;
      [failed, error] = [failed + 1, thrown];
      continue;
    }
    await writeExportState(kept, { ...state, files: state.files.filter(({ name }) => name !== file.name) });
  }
  return error === undefined ? { gone } : { gone, failure: { files: failed, error } };
}

/** Removes cdsync's files that are older than `keep`. One that cannot be removed is tried again next time. */
export async function removeOld(
  kept: string,
  { keep, now }: { readonly keep: number | undefined; readonly now: number },
  opened: Opening,
  notice: (line: string) => void,
): Promise<void> {
  if (keep === undefined) return;
  const { failure } = await removeFiles(kept, ({ at, handed_at = at }) => handed_at < now - keep, opened);
  if (failure === undefined) return;
  const { message } = asCdsyncError(failure.error);
  notice(`${formatCounted(failure.files, 'file')} older than \`keep\` could not be removed: ${message}`);
}

/** The problem of a delivery that could not remove files with forgotten people. */
export function filesOwed(stream: string, { files, error }: NonNullable<Removed['failure']>): CdsyncError {
  const { message, code } = asCdsyncError(error);
  return new CdsyncError(
    `${formatCounted(files, 'file')} of stream "${stream}" may have people who were forgotten or values that are hidden now, and could not be removed: ${message} (${code})`,
    {
      code: 'removal_owed',
      stream,
      hint: 'allow cdsync to delete there, or ask the receiver to; each delivery tries again: cdsync push',
      cause: error,
    },
  );
}

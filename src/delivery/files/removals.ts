import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import type { FilePlace } from '../../sdk/file-destination.js';
import type { Erasure } from '../../storage/erasures.js';
import { type HandedFile, readExportState, writeExportState } from './file-state.js';

type Opening = () => Promise<FilePlace>;

/** Files that could not be removed, and why. */
interface Failure {
  readonly names: readonly string[];
  readonly error: unknown;
}

interface Removed {
  /** Files that were no longer there. */
  readonly gone: number;
  readonly failure?: Failure | undefined;
}

/** Removes a file, and its own companions. @returns whether it was there */
async function removeFile(place: FilePlace, { name, companions }: HandedFile, others: readonly HandedFile[]) {
  const shared = new Set(others.flatMap((other) => (other.name === name ? [] : other.companions)));
  // The file last: while it is there, all names are known.
  for (const companion of companions) if (!shared.has(companion)) await place.remove(companion);
  return place.remove(name);
}

/**
 * Removes cdsync's files that may have people who were forgotten since.
 * @param earlier of this delivery: these are not tried twice
 */
export async function removeOwed(
  kept: string,
  erasures: readonly Erasure[],
  opened: Opening,
  earlier?: Failure,
): Promise<Removed> {
  const state = await readExportState(kept);
  const due = erasures.filter(({ number }) => number > state.removed_for);
  if (due.length > 0) {
    const files = state.files.map((file) => ({ ...file, is_owed: true }));
    await writeExportState(kept, { ...state, files, removed_for: due.at(-1)?.number ?? 0 });
  }
  return removeFiles(kept, ({ is_owed }) => is_owed === true, opened, earlier);
}

async function removeFiles(
  kept: string,
  isDue: (file: HandedFile) => boolean,
  opened: Opening,
  earlier?: Failure,
): Promise<Removed> {
  const due = (await readExportState(kept)).files.filter(isDue);
  const failed = due.map(({ name }) => name).filter((name) => earlier?.names.includes(name));
  const untried = due.filter(({ name }) => !failed.includes(name));
  let [gone, error] = [0, earlier?.error];
  for (const file of untried) {
    const place = await opened();
    const state = await readExportState(kept);
    try {
      if (!(await removeFile(place, file, state.files))) gone += 1;
    } catch (thrown) {
      if (asCdsyncError(thrown).kind === 'retryable') throw thrown;
      failed.push(file.name);
      error = thrown;
      continue;
    }
    await writeExportState(kept, { ...state, files: state.files.filter(({ name }) => name !== file.name) });
  }
  return failed.length === 0 ? { gone } : { gone, failure: { names: failed, error } };
}

/** Removes cdsync's files that are older than `keep`. One that cannot be removed is tried again next time. */
export async function removeOld(
  kept: string,
  { keep, now }: { readonly keep: number | undefined; readonly now: number },
  opened: Opening,
  notice: (line: string) => void,
): Promise<void> {
  if (keep === undefined) return;
  const isDue = ({ at, handed_at = at, is_owed }: HandedFile) => handed_at < now - keep && is_owed !== true;
  const { failure } = await removeFiles(kept, isDue, opened);
  if (failure === undefined) return;
  const { message } = asCdsyncError(failure.error);
  notice(`${formatCounted(failure.names.length, 'file')} older than \`keep\` could not be removed: ${message}`);
}

/** The problem of a delivery that could not remove files with forgotten people. */
export function filesOwed(stream: string, { names, error }: Failure): CdsyncError {
  const { message, code } = asCdsyncError(error);
  return new CdsyncError(
    `${formatCounted(names.length, 'file')} of stream "${stream}" may have people who were forgotten or values that are hidden now, and could not be removed: ${message} (${code})`,
    {
      code: 'removal_owed',
      stream,
      hint: 'allow cdsync to delete there, or ask the receiver to; each delivery tries again: cdsync push',
      cause: error,
    },
  );
}

import { rm } from 'node:fs/promises';
import type { DestinationConfig } from '../../config/destination-config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/suggestions.js';
import { comparableFileName } from '../../sdk/file-destination.js';
import type { JobLayout } from '../../storage/layout.js';
import type { DeliveryRequest } from '../delivery.js';
import { type FilePlan, plannedFolder, readExportState, writeExportState } from './file-state.js';

/** The names that a stream's files have, or will have. */
async function namesOf(layout: JobLayout, destination: string, stream: string): Promise<string[]> {
  const { files, plan } = await readExportState(layout.deliveredStream(destination, stream));
  return [...files, ...(plan?.files ?? [])].map(({ name }) => name);
}

/** @throws {CdsyncError} `template_invalid` if two files of one delivery have the same name: the later would replace the other */
export function assertDistinct(names: readonly string[], stream: string): void {
  const seen = new Set<string>();
  const twice = names.find((name) => {
    const { size } = seen;
    return seen.add(comparableFileName(name)).size === size;
  });
  if (twice === undefined) return;
  throw new CdsyncError(`\`file\` gives several files of one delivery the name "${twice}"`, {
    code: 'template_invalid',
    stream,
    hint: 'use {{ part }} and {{ op }} in the name without filters; nothing was handed over',
  });
}

/** @throws {CdsyncError} `file_exists` if another stream of the destination has handed over a file of this name */
export async function assertNameFree(
  layout: JobLayout,
  { name: destination, streams }: Pick<DestinationConfig, 'name' | 'streams'>,
  stream: string,
  name: string,
): Promise<void> {
  for (const other of streams) {
    if (other === stream) continue;
    const taken = (await namesOf(layout, destination, other)).some(
      (it) => comparableFileName(it) === comparableFileName(name),
    );
    if (!taken) continue;
    throw new CdsyncError(`stream "${other}" has written the file "${name}": stream "${stream}" would replace it`, {
      code: 'file_exists',
      stream,
      hint: 'give each stream other names: add {{ stream }} to `file`',
    });
  }
}

/**
 * Throws the error of a hand-over. A plan whose name others have is dropped, if no byte of it can be at the place: the next one may
 * have another name, and an old name that was asked for keeps nothing from later files.
 */
export async function thrownFor(kept: string, plan: FilePlan, error: unknown): Promise<never> {
  if (!(error instanceof CdsyncError && error.code === 'file_exists')) throw error;
  const isNowhere = plan.former.length === 0 && plan.files?.every((file) => !file.is_tried && !file.is_sent);
  if (!isNowhere)
    throw new CdsyncError(error.message, {
      ...{ code: 'file_exists', stream: error.stream, destination: error.destination },
      hint: 'move it away, or allow it with `overwrite: true`; the place may have a part of this delivery, so that it keeps its name',
    });
  await writeExportState(kept, { ...(await readExportState(kept)), plan: null });
  await rm(plannedFolder(kept), { recursive: true, force: true });
  throw error;
}

/** @throws {CdsyncError} `file_unknown` if no stream of the destination has written a file of this name */
export async function assertOldName(
  layout: JobLayout,
  { destination }: Pick<DeliveryRequest, 'destination'>,
  name: string,
): Promise<void> {
  const names = (
    await Promise.all(destination.streams.map((stream) => namesOf(layout, destination.name, stream)))
  ).flat();
  if (names.includes(name)) return;
  const [near] = nearest(name, names, 1);
  throw new CdsyncError(`destination "${destination.name}" has written no file "${name}"`, {
    code: 'file_unknown',
    hint: near === undefined ? '--file takes a name that was handed over before' : `did you mean "${near}"?`,
  });
}

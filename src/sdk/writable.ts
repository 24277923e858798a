import { access, constants } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isThere } from '../core/folders.js';
import type { MissingRight } from './destination.js';

function mayWrite(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
}

/** The path itself, or the nearest folder above it that exists. */
export async function nearestExisting(path: string): Promise<string> {
  const above = dirname(path);
  return above === path || (await isThere(path)) ? path : nearestExisting(above);
}

/** A lack for each of these paths that may not be written; for one that is not there, of the nearest folder above it. */
export async function unwritable(paths: readonly string[]): Promise<MissingRight[]> {
  const lacks: MissingRight[] = [];
  for (const path of new Set(await Promise.all(paths.map(nearestExisting)))) {
    const hint = 'check who owns it, and run as that user';
    if (!(await mayWrite(path))) lacks.push({ message: `${path} may not be written`, hint });
  }
  return lacks;
}

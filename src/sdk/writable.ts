import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

export function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

export function mayWrite(path: string): Promise<boolean> {
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

import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { writeFileAtomically } from './durable.js';

/** A kind of small JSON file that cdsync keeps for itself, and the error for one that cannot be read. */
export interface StateFile<T> {
  readonly schema: z.ZodType<T>;
  /** Its name in messages. Default: `state file`. */
  readonly what?: string;
  /** Default: `state_unreadable`. */
  readonly code?: string;
  readonly hint: string;
}

/**
 * Reads a file that {@link writeStateFile} has written.
 * @returns undefined if there is no such file
 * @throws {CdsyncError} with the code of its kind if the content does not fit
 */
export async function readStateFile<T>(
  path: string,
  { schema, what = 'state file', code = 'state_unreadable', hint }: StateFile<T>,
): Promise<T | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CdsyncError(`${path} is not a ${what} of cdsync`, { code, hint, cause });
  }
}

/** The same for a file that cdsync can do without: undefined also if it cannot be read. */
export async function readStateIfUsable<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return undefined;
  }
}

/** Replaces a state file: a reader sees the old content or the new. Its folder must exist. */
export async function writeStateFile(path: string, content: unknown): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(content)}\n`);
}

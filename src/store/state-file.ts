import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { writeFileAtomically } from './durable.js';

/** A kind of small JSON file that cdsync keeps for itself, and what to do where one cannot be read. */
export interface StateFile<T> {
  readonly schema: z.ZodType<T>;
  /** What it is, in a message. Default: a state file. */
  readonly what?: string;
  /** Default: `state_unreadable`. */
  readonly code?: string;
  readonly hint: string;
}

/**
 * Reads what {@link writeStateFile} has written.
 * @returns undefined where there is no such file
 * @throws {CdsyncError} with the code of its kind where its content is another
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
    throw new CdsyncError(`${path} is no ${what} of cdsync`, { code, hint, cause });
  }
}

/** The same for a file that can be done without: undefined also where it cannot be read. */
export async function readStateIfUsable<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return undefined;
  }
}

/** Replaces a state file: a reader sees the old content or the new. Its folder must be there. */
export async function writeStateFile(path: string, content: unknown): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(content)}\n`);
}

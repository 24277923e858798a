import { lstat, rm } from 'node:fs/promises';
import { readStateIfUsable, writeStateFile } from '../core/durable.js';
import { z } from '../core/zod.js';
import type { JobLayout } from './layout.js';

const fileSchema = z.object({ version: z.literal(1), since: z.string() });

/** Since when erased or hidden values must leave the files of a job (ISO 8601, UTC); undefined: none has to. */
export async function removalOwedSince({ remoteFiles, removal }: JobLayout): Promise<string | undefined> {
  const noted = remoteFiles?.removalOwed?.since ?? (await readStateIfUsable(removal, fileSchema))?.since;
  // A damaged note still says that something must leave.
  return noted ?? (await lstat(removal).catch(() => undefined))?.mtime.toISOString();
}

/** Notes that old files of a folder have values that were erased or hidden. A bucket notes it in the state of the job. */
export async function oweRemoval(layout: JobLayout, nowMs: number): Promise<void> {
  if (layout.remoteFiles !== undefined || (await removalOwedSince(layout)) !== undefined) return;
  await writeStateFile(layout.removal, { version: 1, since: new Date(nowMs).toISOString() });
}

/** Notes that no file of the folder has them any more. */
export async function removalDone({ removal }: JobLayout): Promise<void> {
  await rm(removal, { recursive: true, force: true });
}

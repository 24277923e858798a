import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isRowKey } from '../columns/row-hash.js';
import { readStateFile, type StateFile, syncFolder, writeStateFile } from '../core/durable.js';
import { z } from '../core/zod.js';
import type { JobLayout } from './layout.js';
import { namesIn } from './storage.js';

const erasureSchema = z.object({
  version: z.literal(1),
  /** Rises with each erasure, also after the storage folder was restored from a backup: it is a time in milliseconds or later. */
  number: z.number(),
  /** Null once every destination has carried it out. */
  keys: z.array(z.string()).nullable(),
});

/** One `cdsync forget`: keys that destinations must not have any more, unless the snapshot has them again. */
export type Erasure = Pick<z.infer<typeof erasureSchema>, 'number' | 'keys'>;

const erasureFile: StateFile<z.infer<typeof erasureSchema>> = {
  schema: erasureSchema,
  hint: 'restore it from a backup: without it, destinations keep rows that were erased here',
};

/**
 * The erasures of a stream, the oldest first. Each has its own file, so that deliveries may change one while another is added.
 * @param key the stream's key columns, to leave out texts that no row can have as its key: earlier builds noted such
 * @throws {CdsyncError} `state_unreadable`
 */
export async function readErasures(
  layout: JobLayout,
  stream: string,
  key: readonly string[] = [''],
): Promise<Erasure[]> {
  const folder = layout.erasures(stream);
  const names = (await namesIn(folder)).filter((name) => /^\d+\.json$/.test(name));
  const erasures = await Promise.all(names.map((name) => readStateFile(join(folder, name), erasureFile)));
  return erasures
    .flatMap((erasure) => erasure ?? [])
    .map((erasure) => ({ ...erasure, keys: erasure.keys?.filter((text) => isRowKey(text, key)) ?? null }))
    .sort((one, other) => one.number - other.number);
}

async function write(layout: JobLayout, stream: string, erasure: Erasure): Promise<void> {
  await writeStateFile(join(layout.erasures(stream), `${erasure.number}.json`), { version: 1, ...erasure });
}

/** The number of the next erasure of some streams. @param nowMs in milliseconds since 1970 */
export async function nextErasure(layout: JobLayout, streams: readonly string[], nowMs: number): Promise<number> {
  const last = await Promise.all(streams.map(async (name) => (await readErasures(layout, name)).at(-1)?.number ?? 0));
  return Math.max(nowMs, ...last.map((number) => number + 1));
}

/**
 * Notes an erasure for all destinations. Call it under the job's lock, before the commit that erases the rows: if that fails, the
 * snapshot still has the rows, and destinations keep them.
 * @param keys as the stream's rows have them; null if no destination has any
 * @param nowMs in milliseconds since 1970
 */
export async function addErasure(
  layout: JobLayout,
  stream: string,
  keys: readonly string[] | null,
  nowMs: number,
): Promise<void> {
  const number = await nextErasure(layout, [stream], nowMs);
  await mkdir(layout.erasures(stream), { recursive: true, mode: 0o700 });
  await write(layout, stream, { number, keys: keys && [...keys] });
  await syncFolder(layout.erasuresFolder);
}

/** Removes the keys of erasures that every destination has carried out. @param through the number of the last such erasure */
export async function dropErasedKeys(layout: JobLayout, stream: string, through: number): Promise<void> {
  for (const { number, keys } of await readErasures(layout, stream)) {
    if (number <= through && keys !== null) await write(layout, stream, { number, keys: null });
  }
}

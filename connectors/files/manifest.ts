import { z } from 'zod';
import { loadRefused, unavailable, type Watermark } from '../../src/sdk/index.js';
import type { FileStore } from './store.js';

const formats = ['parquet', 'csv', 'jsonl'] as const;
export type Format = (typeof formats)[number];

const fileSchema = z.object({
  /** Relative to the manifest. */
  path: z.string(),
  rows: z.number(),
  bytes: z.number(),
  sha256: z.string(),
  /** Texts of the values that all rows of the file have in the columns of `partition_by`, which the file itself lacks. */
  partition: z.record(z.string(), z.string().nullable()).optional(),
});

const watermarkSchema = z.object({
  destination: z.string(),
  stream: z.string(),
  store_id: z.string(),
  sequence: z.number(),
  definition: z.string(),
  delivered_at: z.string(),
});

const manifestSchema = z.object({
  version: z.literal(1),
  table: z.string(),
  /** Number of the set: one more with each change. */
  set: z.int(),
  format: z.enum(formats),
  partition_by: z.array(z.string()),
  schema: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.number(),
  /** Of those, the rows whose `_deleted_at` is NULL. */
  live_rows: z.number(),
  files: z.array(fileSchema),
  watermark: watermarkSchema.nullable(),
});

/** Which files make a table. */
export type Manifest = z.infer<typeof manifestSchema>;
export type SetFile = z.infer<typeof fileSchema>;

export function watermarkOf({ watermark, table }: Manifest): Watermark | undefined {
  if (watermark === null) return undefined;
  const { destination, stream, sequence, definition } = watermark;
  return {
    destination,
    stream,
    table,
    storeId: watermark.store_id,
    sequence,
    definition,
    deliveredAt: watermark.delivered_at,
  };
}

export function savedWatermark({ destination, stream, storeId, sequence, definition, deliveredAt }: Watermark) {
  return { destination, stream, store_id: storeId, sequence, definition, delivered_at: deliveredAt };
}

/** A table's name as a folder's: what file systems and URLs find difficult is written as `%` and hex digits. */
export function folderOf(table: string): string {
  const encoded = encodeURIComponent(table).replace(/[!'()*~]/g, (found) => `%${found.charCodeAt(0).toString(16)}`);
  return encoded.replace(/^\./, '%2e');
}

export function setName(set: number): string {
  return String(set).padStart(12, '0');
}

const lookAttempts = 10;
/** What a crash has left of a manifest that did not get its name. */
const unnamed = /\/manifests\/\.(\d{12})\./;

function setOf(path: string): number | undefined {
  const [, digits] = /\/(?:data|manifests)\/(\d{12})\b/.exec(path) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The sets of one table. Each set has a manifest of its own number, which is made once and never changed: only one delivery can
 * make the next number, and with it moves the table on. `manifest.json`, which readers look at, is then swapped. If that is cut
 * short, the next delivery that opens the table does it.
 */
export class TableSets {
  readonly folder: string;
  readonly #store: FileStore;

  constructor(store: FileStore, folder: string) {
    this.#store = store;
    this.folder = folder;
  }

  /** The newest set; undefined where there is no such table. */
  async newest(): Promise<Manifest | undefined> {
    for (let attempt = 1; attempt <= lookAttempts; attempt += 1) {
      const sets = (await this.#store.files(`${this.folder}/manifests`)).flatMap((path) => setOf(path) ?? []);
      if (sets.length === 0) return undefined;
      const found = await this.#read(this.#manifest(Math.max(...sets)));
      // Where it is gone, somebody has moved the table on and tidied up in between.
      if (found !== undefined) return found;
    }
    throw unavailable(`the manifests of ${this.folder} in ${this.#store.place} change too fast to be read`);
  }

  /** Moves the table on. @returns false where somebody else has done so since `newest` */
  async commit(manifest: Manifest): Promise<boolean> {
    if (!(await this.#store.create(this.#manifest(manifest.set), textOf(manifest)))) return false;
    // A number that was removed long ago can be made once more by who has slept since.
    return (await this.newest())?.set === manifest.set;
  }

  /** Lets `manifest.json` name this set, unless it names a later one. */
  async publish(manifest: Manifest): Promise<void> {
    const path = `${this.folder}/manifest.json`;
    for (;;) {
      const found = await this.#store.read(path);
      if (found !== undefined && this.#parsed(path, found.text).set >= manifest.set) return;
      if (await this.#store.replace(path, textOf(manifest), found?.tag)) return;
    }
  }

  /** Removes what no set needs but the newest one and `keep` before it, also what loads have left that were cut short. */
  async prune(newest: Manifest, keep: number): Promise<void> {
    const manifests = await this.#store.files(`${this.folder}/manifests`);
    const oldest = newest.set - keep;
    const kept = manifests.filter((path) => (setOf(path) ?? Number(unnamed.exec(path)?.[1] ?? newest.set)) >= oldest);
    const needed = new Set<string>();
    for (const path of kept) {
      const manifest = setOf(path) === undefined ? undefined : await this.#read(path);
      for (const file of manifest?.files ?? []) needed.add(`${this.folder}/${file.path}`);
    }
    const data = await this.#store.files(`${this.folder}/data`);
    // What has a later number is somebody else's work under way.
    const old = data.filter((path) => (setOf(path) ?? 0) <= newest.set && !needed.has(path));
    await this.#store.remove([...old, ...manifests.filter((path) => !kept.includes(path))]);
  }

  #manifest(set: number): string {
    return `${this.folder}/manifests/${setName(set)}.json`;
  }

  async #read(path: string): Promise<Manifest | undefined> {
    const found = await this.#store.read(path);
    return found === undefined ? undefined : this.#parsed(path, found.text);
  }

  #parsed(path: string, text: string): Manifest {
    try {
      return manifestSchema.parse(JSON.parse(text));
    } catch (error) {
      throw loadRefused(`${this.#store.place}/${path} is no manifest of cdsync`, {
        hint: 'another version has written it, or something else: move it away, and push again',
        cause: error,
      });
    }
  }
}

function textOf(manifest: Manifest): string {
  return `${JSON.stringify(manifest, null, 1)}\n`;
}

import { type CdsyncError, loadRefused, loadsKeptDays, z } from '../../src/sdk/index.js';
import type { FileStore } from './store.js';

const formats = ['parquet', 'csv', 'jsonl'] as const;
export type Format = (typeof formats)[number];

const fileSchema = z.object({
  /** Relative to the manifest. */
  path: z.string(),
  rows: z.number(),
  bytes: z.number(),
  sha256: z.string(),
  /** The values of the `partition_by` columns, as text. All rows of the file have them, and the file itself lacks these columns. */
  partition: z.record(z.string(), z.string().nullable()).optional(),
});

const manifestSchema = z.object({
  version: z.literal(2),
  table: z.string(),
  /** Number of the set; it rises by one with each change. */
  set: z.int(),
  format: z.enum(formats),
  partition_by: z.array(z.string()),
  /** Of CSV, whether text that a spreadsheet program would take for a formula is escaped. Manifests without it: `keep`. */
  csv_formulas: z.enum(['escape', 'keep']).optional(),
  schema: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.number(),
  /** The number of rows whose `_deleted_at` is NULL. */
  live_rows: z.number(),
  files: z.array(fileSchema),
  destination: z.string(),
  stream: z.string(),
  /** The load that made the set. */
  stamp: z.string().nullable(),
  /** The line of `loads.jsonl` about that load. */
  line: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  /** At other destinations, the record of `_cdsync_state`. */
  record: z.record(z.string(), z.unknown()),
});

/** Lists the files of a table. */
export type Manifest = z.infer<typeof manifestSchema>;
export type SetFile = z.infer<typeof fileSchema>;
/** How the files of a set are written: one pattern must read all of them. */
export type Layout = Pick<Manifest, 'format' | 'partition_by' | 'csv_formulas'>;

/** The folder name for a table: characters that are difficult in file systems or URLs become `%` and hex digits. */
export function folderOf(table: string): string {
  const encoded = encodeURIComponent(table).replace(
    /[!'()*~]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  );
  return encoded.replace(/^\./, '%2e');
}

export function setName(set: number): string {
  return String(set).padStart(12, '0');
}

const lookAttempts = 10;
/** The temporary file of a manifest; a crash may leave it behind. */
const unnamed = /\/manifests\/\.(\d{12})\./;

function setOf(path: string): number | undefined {
  const [, digits] = /\/(?:data|manifests)\/(\d{12})\b/.exec(path) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The sets of one table. Each set has a manifest under its own number, which is created once and never changed. Only one
 * delivery can create the manifest of the next number; that commits its set. It then replaces `manifest.json`, which readers
 * use. If it is cut short before that, the next delivery that opens the table does so.
 */
export class TableSets {
  readonly folder: string;
  readonly #store: FileStore;

  constructor(store: FileStore, folder: string) {
    this.#store = store;
    this.folder = folder;
  }

  get #published(): string {
    return `${this.folder}/manifest.json`;
  }

  /** The newest set; undefined if there is no such table. */
  async newest(): Promise<Manifest | undefined> {
    // `manifests/` may have been removed: readers still have this one, and the next set must be newer.
    let damage: unknown;
    const published = await this.#read(this.#published).catch((error: Partial<CdsyncError>) => {
      if (error.kind !== 'fatal') throw error;
      damage = error;
      return undefined;
    });
    for (let attempt = 1; attempt <= lookAttempts; attempt += 1) {
      const sets = (await this.#store.files(`${this.folder}/manifests`)).flatMap((path) => setOf(path) ?? []);
      const last = Math.max(0, ...sets);
      // Without a set of this table's own, it may be a file of others.
      if (last === 0 && damage !== undefined) throw damage;
      if (last <= (published?.set ?? 0)) return published;
      const manifest = await this.#read(this.path(last));
      // If it is gone, another delivery has committed a later set and removed this one in between.
      if (manifest !== undefined) return manifest;
    }
    throw loadRefused(`the manifests of ${this.folder} in ${this.#store.place} change too fast to be read`);
  }

  /** Commits a set. @returns false if another delivery has committed one since `newest` */
  async commit(manifest: Manifest): Promise<boolean> {
    if (!(await this.#store.create(this.path(manifest.set), textOf(manifest)))) return false;
    // A delivery that paused for long can create a number again that was used and removed since: such a set is not the newest.
    return (await this.newest())?.set === manifest.set;
  }

  /** Writes this set to `manifest.json`, unless that already has this set or a later one. */
  async publish(manifest: Manifest): Promise<void> {
    for (let next = manifest; ; ) {
      const stored = await this.#store.read(this.#published);
      if (stored !== undefined && this.#setIn(stored.text) >= next.set) return;
      const isReplaced = await this.#store.replace(this.#published, textOf(next), stored?.tag);
      // A folder, unlike an object store, compares and writes in two steps: a later set may have been published in between.
      if (isReplaced && !this.#store.isLocal) return;
      next = (await this.newest()) ?? next;
    }
  }

  /**
   * Adds the lines about the loads of these sets to `loads.jsonl` that it lacks, and removes old ones. Those of an earlier set too: a
   * delivery may have been cut short before its line, or another one may have replaced the file at the same moment.
   */
  async note(sets: readonly (Manifest | undefined)[]): Promise<void> {
    const path = `${this.folder}/loads.jsonl`;
    const noted = sets.flatMap((set) => (set?.line === undefined ? [] : [set.line]));
    for (;;) {
      const stored = await this.#store.read(path);
      const lines = (stored?.text ?? '').split('\n').filter((text) => text !== '');
      const missing = noted.filter(({ load }) => !lines.some((text) => text.includes(JSON.stringify(load))));
      const [newest] = missing
        .map(({ committed_at }) => String(committed_at))
        .sort()
        .reverse();
      if (newest === undefined) return;
      const oldest = new Date(Date.parse(newest) - loadsKeptDays * 86_400_000).toISOString();
      const kept = [...lines.filter((text) => isSince(text, oldest)), ...missing.map((line) => JSON.stringify(line))];
      if (await this.#store.replace(path, `${kept.join('\n')}\n`, stored?.tag)) return;
    }
  }

  /** Removes all files but those of the newest set and of `keep` sets before it; also files of loads that were cut short. */
  async prune(newest: Manifest, keep: number): Promise<void> {
    const manifests = await this.#store.files(`${this.folder}/manifests`);
    const oldest = newest.set - keep;
    const kept = manifests.filter((path) => (setOf(path) ?? Number(unnamed.exec(path)?.[1] ?? newest.set)) >= oldest);
    const needed = new Set(newest.files.map((file) => `${this.folder}/${file.path}`));
    for (const path of kept) {
      const manifest = setOf(path) === undefined ? undefined : await this.#read(path);
      for (const file of manifest?.files ?? []) needed.add(`${this.folder}/${file.path}`);
    }
    const data = await this.#store.files(`${this.folder}/data`);
    // Files with a later number belong to another delivery that is under way.
    const old = data.filter((path) => (setOf(path) ?? 0) <= newest.set && !needed.has(path));
    await this.#store.remove([...old, ...manifests.filter((path) => !kept.includes(path))]);
  }

  /** The path of a set's manifest. */
  path(set: number): string {
    return `${this.folder}/manifests/${setName(set)}.json`;
  }

  async #read(path: string): Promise<Manifest | undefined> {
    const stored = await this.#store.read(path);
    return stored === undefined ? undefined : this.#parsed(path, stored.text);
  }

  /** The set that `manifest.json` has; 0 if it is damaged, and so to be replaced. */
  #setIn(text: string): number {
    try {
      return this.#parsed(this.#published, text).set;
    } catch {
      return 0;
    }
  }

  #parsed(path: string, text: string): Manifest {
    try {
      return manifestSchema.parse(JSON.parse(text));
    } catch (error) {
      throw loadRefused(`${this.#store.place}/${path} is not a manifest of cdsync`, {
        hint: 'another version of cdsync, or another program, has written it: move the folder away, and push again',
        cause: error,
      });
    }
  }
}

function textOf(manifest: Manifest): string {
  return `${JSON.stringify(manifest, null, 1)}\n`;
}

/** Whether a line of `loads.jsonl` was committed at this moment or later; a damaged line is kept. */
function isSince(line: string, oldest: string): boolean {
  const [, committed] = /"committed_at":"([^"]+)"/.exec(line) ?? [];
  return committed === undefined || committed >= oldest;
}

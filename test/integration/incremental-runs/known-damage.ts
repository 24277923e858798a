import { cp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { entriesBelow } from '../../../src/core/folders.js';
import { cachePaths, readCacheFile } from '../../../src/record-cache/cache-file.js';
import type { Dice } from './dice.js';
import type { Reader } from './print.js';

/** Damage to the files of the record cache. None of it may change the published data. */
export const damages = [
  'removed',
  'emptied',
  'truncated',
  'flipped',
  'lengthened',
  'older',
  'swapped',
  'folder',
] as const;
export type Damage = (typeof damages)[number];

/** The files of the record cache of the job in this folder. */
export class CacheFiles {
  readonly #folder: string;
  readonly #kept: string;

  constructor(jobFolder: string, kept: string) {
    this.#folder = join(jobFolder, '.cdsync', 'known');
    this.#kept = kept;
  }

  /** Keeps a copy, to be put back in a later run. */
  async keep(): Promise<void> {
    await rm(this.#kept, { recursive: true, force: true });
    await cp(this.#folder, this.#kept, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }

  async #files(): Promise<string[]> {
    const entries = await entriesBelow(this.#folder).catch(() => []);
    return entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort();
  }

  /** @returns whether there was a file to damage */
  async damage(how: Damage, dice: Dice): Promise<boolean> {
    const files = await this.#files();
    if (files.length === 0) return false;
    if (how === 'older') {
      const isKept = await stat(this.#kept).then(
        () => true,
        () => false,
      );
      if (isKept) await cp(this.#kept, this.#folder, { recursive: true });
      return isKept;
    }
    if (how === 'swapped') return this.#swap();
    const path = dice.pick(files);
    const { size } = await stat(path);
    if (how === 'removed') await rm(path);
    else if (how === 'emptied') await truncate(path, 0);
    else if (how === 'truncated') await truncate(path, dice.whole(size));
    else if (how === 'lengthened') await writeFile(path, 'x', { flag: 'a' });
    else if (how === 'flipped') await flip(path, dice);
    else {
      await rm(path);
      await cp(join(path, '..'), path, { recursive: true, filter: (source) => source !== path }).catch(() => undefined);
    }
    return true;
  }

  /** In which undamaged files the set of hashes is not that of the rows beside it. */
  async contradictions(reader: Reader): Promise<string[]> {
    const found: string[] = [];
    for (const stream of (await readdir(this.#folder).catch(() => [])).sort()) {
      const folder = join(this.#folder, stream);
      const cache = await readCacheFile(folder, () => undefined).catch(() => undefined);
      if (cache === undefined) continue;
      const { header, table } = cache;
      const rows = await reader.rows(`SELECT DISTINCT raw_hi, raw_lo FROM '${cachePaths(folder).keys(header.id)}'`);
      const words = new BigUint64Array(2);
      const missing = rows.filter(({ raw_hi, raw_lo }) => {
        words.set([BigInt(String(raw_hi)), BigInt(String(raw_lo))]);
        return table.find(new Uint32Array(words.buffer), 0) < 0;
      });
      if (missing.length > 0 || table.count !== rows.length)
        found.push(`cache of ${stream}: ${table.count} hashes for ${rows.length}, ${missing.length} missing`);
    }
    return found;
  }

  /** Gives each of two streams the files of the other one. */
  async #swap(): Promise<boolean> {
    const [first, second] = (await readdir(this.#folder)).sort().map((name) => join(this.#folder, name));
    if (first === undefined || second === undefined) return false;
    await rename(first, `${first}.x`);
    await rename(second, first);
    await rename(`${first}.x`, second);
    return true;
  }
}

async function flip(path: string, dice: Dice): Promise<void> {
  const bytes = await readFile(path);
  if (bytes.length === 0) return;
  const at = dice.whole(bytes.length);
  bytes[at] = (bytes[at] as number) ^ (1 << dice.whole(8));
  await writeFile(path, bytes);
}

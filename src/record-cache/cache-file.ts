import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, type FileHandle, link, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hashWords, recordHashVersion } from '../columns/record-hash.js';
import { openFlags, renameDurably, sha256OfFile, syncFolder } from '../core/durable.js';
import { z } from '../core/zod.js';
import { RecordHashTable } from './hash-table.js';

const headerSchema = z.object({
  version: z.literal(1),
  hash_version: z.literal(recordHashVersion),
  /** Changes with every cache file. */
  id: z.string().regex(/^[0-9a-f]{32}$/),
  /** The store, and the run that committed the cached records. */
  store_id: z.string(),
  run_id: z.string(),
  /** Digest of everything that decides how a record's bytes are converted. */
  fingerprint: z.string(),
  /** Of the hash, in hex. */
  secret: z.string(),
  /** The separator of the records; null if it is unknown. */
  separator: z.object({ bytes: z.string(), before: z.number(), next: z.number() }).nullable(),
  /** When every record was last converted and compared: ISO 8601. */
  verified_at: z.string(),
  /** Number of hashes in the image. */
  count: z.number(),
  slots: z.number(),
  /** SHA-256 of the image. */
  sha256: z.string(),
  /** The Parquet file beside it: (key, raw_hi, raw_lo) of each row. */
  keys: z.object({ rows: z.number(), sha256: z.string() }),
});

/** The header of a cache file. */
export type CacheHeader = z.infer<typeof headerSchema>;

/** The content of a cache file. */
export interface CacheFile {
  readonly header: CacheHeader;
  readonly table: RecordHashTable;
}

/** A cache file that cannot be used; its message says why. */
export class UnusableCache extends Error {}

const magic = Buffer.from('cdsync known\n');
/** Bytes of magic number and header together, so that the image begins at a multiple of a page. */
const headerBytes = 4096;
const readBytes = 1 << 24;

function digest(content: string): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Consecutive views of an image, because Node limits the bytes of a hash update and of a Buffer. */
function* viewsOf({ buffer, byteOffset, byteLength }: Uint32Array): Generator<Buffer> {
  for (let from = 0; from < byteLength; from += readBytes)
    yield Buffer.from(buffer, byteOffset + from, Math.min(readBytes, byteLength - from));
}

function digestOf(words: Uint32Array): string {
  const hash = createHash('sha256');
  for (const view of viewsOf(words)) hash.update(view);
  return hash.digest('hex');
}

/** The paths of a cache file and its keys in a folder. */
export function cachePaths(folder: string): { readonly image: string; keys(id: string): string } {
  return { image: join(folder, 'known.bin'), keys: (id) => join(folder, `${id}.parquet`) };
}

/** Writes the image and its header and syncs them, but not the folder. @returns the complete header */
export async function writeCacheFile(
  path: string,
  { words, slots, count }: RecordHashTable,
  about: Omit<CacheHeader, 'version' | 'hash_version' | 'count' | 'slots' | 'sha256'>,
): Promise<CacheHeader> {
  const sha256 = digestOf(words);
  const header: CacheHeader = { version: 1, hash_version: recordHashVersion, ...about, count, slots, sha256 };
  const json = JSON.stringify(header);
  const text = Buffer.from(`${json}\n${digest(json)}\n`);
  if (magic.length + text.length > headerBytes) throw new RangeError('the header of a cache file is too long');
  const head = Buffer.alloc(headerBytes);
  magic.copy(head);
  text.copy(head, magic.length);
  const handle = await open(path, openFlags.replace, 0o600);
  try {
    await handle.writeFile(head);
    for (const view of viewsOf(words)) await handle.writeFile(view);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return header;
}

async function readFull(handle: FileHandle, target: Buffer, position: number): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const { bytesRead } = await handle.read(target, done, Math.min(readBytes, target.length - done), position + done);
    if (bytesRead === 0) throw new UnusableCache('the cache file is cut short');
    done += bytesRead;
  }
}

async function readHeader(handle: FileHandle): Promise<CacheHeader> {
  const head = Buffer.alloc(headerBytes);
  await readFull(handle, head, 0);
  if (head.compare(magic, 0, magic.length, 0, magic.length) !== 0) throw new UnusableCache('the cache file is damaged');
  const [json = '', sum] = head.toString('utf8', magic.length).split('\n');
  if (digest(json) !== sum) throw new UnusableCache('the cache file is damaged');
  const header = headerSchema.safeParse(JSON.parse(json));
  if (!header.success) throw new UnusableCache('another version of cdsync has written the cache file');
  return header.data;
}

/**
 * Reads a cache file.
 * @param accept checks the header before anything else is read, and throws if the file must not be used
 * @returns undefined if there is none
 * @throws {UnusableCache} if it is damaged, of another version, or cannot be read
 */
export async function readCacheFile(
  folder: string,
  accept: (header: CacheHeader) => void,
): Promise<CacheFile | undefined> {
  const { image: path, keys } = cachePaths(folder);
  let handle: FileHandle;
  try {
    handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new UnusableCache(`the cache file cannot be read (${code})`);
  }
  try {
    const header = await readHeader(handle);
    accept(header);
    const imageBytes = header.slots * hashWords * Uint32Array.BYTES_PER_ELEMENT;
    if ((await handle.stat()).size !== headerBytes + imageBytes) throw new UnusableCache('the cache file is cut short');
    const words = new Uint32Array(header.slots * hashWords);
    let position = headerBytes;
    for (const view of viewsOf(words)) {
      await readFull(handle, view, position);
      position += view.length;
    }
    if (digestOf(words) !== header.sha256) throw new UnusableCache('the cache file is damaged');
    const sha256 = await sha256OfFile(keys(header.id)).catch(() => undefined);
    if (sha256 !== header.keys.sha256) throw new UnusableCache('the keys of the cache file are missing or damaged');
    return { header, table: new RecordHashTable(words, header.count) };
  } catch (error) {
    if (error instanceof UnusableCache) throw error;
    throw new UnusableCache(
      `the cache file cannot be read (${(error as NodeJS.ErrnoException).code ?? 'its numbers are wrong'})`,
    );
  } finally {
    await handle.close();
  }
}

/** Links a cache file into another, existing folder, so that the file remains as long as that folder. */
export async function linkCacheFile(from: string, to: string, id: string): Promise<void> {
  const [source, target] = [cachePaths(from), cachePaths(to)];
  for (const [path, copy] of [
    [source.image, target.image],
    [source.keys(id), target.keys(id)],
  ] as const) {
    await rm(copy, { force: true });
    // Some file systems have no hard links.
    await link(path, copy).catch(() => copyFile(path, copy));
  }
  await syncFolder(to);
}

/** Moves a complete cache file to the folder that the next run reads, and removes the previous one. */
export async function promoteCacheFile(from: string, to: string, id: string): Promise<void> {
  const [source, target] = [cachePaths(from), cachePaths(to)];
  await mkdir(to, { recursive: true, mode: 0o700 });
  await renameDurably(source.keys(id), target.keys(id));
  await renameDurably(source.image, target.image);
  await keepOnly(to, id);
}

async function keepOnly(folder: string, id: string): Promise<void> {
  const { image, keys } = cachePaths(folder);
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (path !== image && path !== keys(id)) await rm(path, { recursive: true, force: true });
  }
}

/** Removes what cannot be used of the cache files of all streams, whose folders are in this one. */
export async function cleanCacheFiles(folder: string): Promise<void> {
  for (const stream of await readdir(folder).catch(() => [])) {
    const streamFolder = join(folder, stream);
    const cache = await readCacheFile(streamFolder, () => undefined).catch(() => undefined);
    if (cache === undefined) await rm(streamFolder, { recursive: true, force: true });
    else await keepOnly(streamFolder, cache.header.id);
  }
}

/** Removes the cache file of a stream. */
export async function removeCacheFile(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
}

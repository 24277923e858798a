import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createInflate, deflate } from 'node:zlib';
import { sleep } from '../core/clock.js';
import { sha256OfFile, temporaryName } from '../core/durable.js';
import { asCdsyncError } from '../core/errors.js';
import type { S3Store } from '../sdk/index.js';
import { rangesHere, readAt } from './blocks.js';
import { bucketError, objectChanged, objectChangedCode } from './errors.js';
import { type ObjectParts, objectOf, type StoredFile, stateKey } from './state.js';

const deflated = promisify(deflate);

/** How long to wait before each further attempt, while the bucket cannot be reached. */
const pauses = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000];

/** After a first failure, a service that takes long to fail gets no further attempt once this time is over. */
const patienceMs = 90_000;

/** Time, as {@link withRetry} needs it. */
export interface Time {
  /** Milliseconds that never go back. */
  now(): number;
  wait(ms: number, signal?: AbortSignal): Promise<void>;
}

const realTime: Time = { now: () => performance.now(), wait: sleep };

/** Repeats work on the bucket while it cannot be reached, for about a minute. Errors become those of the storage. */
export async function withRetry<T>(work: () => Promise<T>, signal?: AbortSignal, time: Time = realTime): Promise<T> {
  let failingSince: number | undefined;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      failingSince ??= time.now();
      const pause = pauses[attempt];
      const isOver = pause === undefined || time.now() - failingSince + pause > patienceMs;
      if (asCdsyncError(error).kind !== 'retryable' || isOver) throw bucketError(error);
      await time.wait(pause, signal);
    }
  }
}

/** Files and bytes of transfers with the bucket. */
interface TransferCount {
  readonly files: number;
  readonly bytes: number;
}

/** Objects with the content of files, named by their checksums. */
export class ObjectStore {
  readonly #store: S3Store;
  readonly #folder: string;
  readonly #signal: AbortSignal | undefined;
  /** Objects that are missing, or whose content does not match their name. They are uploaded again if their content is here. */
  readonly lost = new Set<string>();
  /** Other objects with the same content, by checksum. */
  #copies: ReadonlyMap<string, string> = new Map();
  #downloaded = { files: 0, bytes: 0 };
  #uploaded = { files: 0, bytes: 0 };

  /** @param folder of the job, in the bucket */
  constructor(store: S3Store, folder: string, signal?: AbortSignal) {
    this.#store = store;
    this.#folder = folder;
    this.#signal = signal;
  }

  get downloaded(): TransferCount {
    return this.#downloaded;
  }
  get uploaded(): TransferCount {
    return this.#uploaded;
  }

  key(object: string): string {
    return `${this.#folder}/${object}`;
  }

  /** Sets the checksums of the public objects, by key: each is a second copy of an object. */
  setCopies(shown: Readonly<Record<string, string>>): void {
    this.#copies = new Map(Object.entries(shown).map(([key, sha256]) => [sha256, key]));
  }

  /** Counts an uploaded object. */
  countUpload(bytes: number): void {
    this.#uploaded = { files: this.#uploaded.files + 1, bytes: this.#uploaded.bytes + bytes };
  }

  /** Uploads a file as one object. @returns the object */
  async uploadFile(
    local: string,
    { path, sha256, bytes }: Pick<StoredFile, 'path' | 'sha256' | 'bytes'>,
  ): Promise<string> {
    const object = objectOf(path, sha256);
    // An empty body cannot be streamed in parts.
    if (bytes === 0) await this.#uploadBytes(Buffer.alloc(0), object);
    else {
      await withRetry(() => this.#store.put(local, this.key(object), sha256), this.#signal);
      this.countUpload(bytes);
    }
    this.lost.delete(object);
    return object;
  }

  /** Uploads bytes as one object, deflated. @returns the object, with the length of the bytes */
  async uploadPacked(bytes: Buffer): Promise<Piece> {
    const object = `objects/${createHash('sha256').update(bytes).digest('hex')}.z`;
    await this.#uploadBytes(await deflated(bytes, { level: 1 }), object);
    return { object, bytes: bytes.length };
  }

  async #uploadBytes(bytes: Buffer, object: string): Promise<void> {
    await withRetry(() => this.#store.putBytes(bytes, this.key(object)), this.#signal);
    this.countUpload(bytes.length);
    this.lost.delete(object);
  }

  /**
   * Downloads a file to a temporary name beside its place.
   * @param near a file on this disk that is made of some of the same objects
   * @throws {CdsyncError} `bucket_object_changed` if an object is missing, or has other content than its name says
   */
  async download(file: StoredFile, target: string, near?: NearFile): Promise<string> {
    const temporary = temporaryName(target);
    try {
      if (file.pieces === undefined)
        await this.#fetch({ object: objectOf(file.path, file.sha256), bytes: file.bytes }, temporary);
      else if (near === undefined || !(await this.#assemble(file, { ...file.pieces, near }, temporary))) {
        const isWhole = await this.#assemble(file, file.pieces, temporary);
        if (!isWhole) throw objectChanged(this.#named(stateKey), `does not say how ${file.path} is made`);
      }
      this.#downloaded = { ...this.#downloaded, files: this.#downloaded.files + 1 };
      return temporary;
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  /** Whether an object has this content. */
  has(object: string, sha256: string): Promise<boolean> {
    return withRetry(async () => {
      const hash = createHash('sha256');
      try {
        for await (const chunk of (await this.#store.stream(this.key(object))) ?? []) hash.update(chunk as Buffer);
      } catch (error) {
        throw this.#store.streamError(error);
      }
      return hash.digest('hex') === sha256;
    }, this.#signal);
  }

  #named(object: string): string {
    return `${this.#store.place}/${this.key(object)}`;
  }

  /** Fetches an object, or a copy of it if it is lost, and checks that it has the content that its name says. */
  async #fetch(piece: Piece, local: string): Promise<void> {
    const { object } = piece;
    const [, sha256 = ''] = /([0-9a-f]{64})/.exec(object) ?? [];
    try {
      await this.#fetchOne(piece, local, sha256);
    } catch (error) {
      if ((error as { code?: unknown }).code !== objectChangedCode) throw error;
      this.lost.add(object);
      const copy = this.#copies.get(sha256);
      if (copy === undefined || object.endsWith('.z')) throw error;
      await this.#fetchOne({ ...piece, object: copy }, local, sha256).catch(() => Promise.reject(error));
    }
  }

  /** A longer object than it should be must not fill the disk: a short one may inflate to any length. */
  async #fetchOne({ object, bytes }: Piece, local: string, sha256: string): Promise<void> {
    const changed = () => objectChanged(this.#named(object), 'has other content');
    const within = async function* (chunks: AsyncIterable<Buffer>) {
      let left = bytes;
      for await (const chunk of chunks) {
        left -= chunk.length;
        if (left < 0) throw changed();
        yield chunk;
      }
    };
    await withRetry(async () => {
      const body = await this.#store.stream(this.key(object));
      if (body === undefined) throw objectChanged(this.#named(object), 'is missing');
      body.on('data', (chunk: Buffer) => {
        this.#downloaded = { ...this.#downloaded, bytes: this.#downloaded.bytes + chunk.length };
      });
      const out = createWriteStream(local, { mode: 0o600 });
      try {
        await (object.endsWith('.z') ? pipeline(body, createInflate(), within, out) : pipeline(body, within, out));
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException;
        if (code.startsWith('Z_')) throw changed();
        throw code === 'ENOSPC' || code === objectChangedCode ? error : this.#store.streamError(error);
      }
    }, this.#signal);
    if ((await sha256OfFile(local)) !== sha256) throw changed();
  }

  /** Assembles a file of ranges of objects. @returns whether its checksum is right */
  async #assemble(
    file: StoredFile,
    { objects, ranges, near }: ObjectParts & { readonly near?: NearFile },
    target: string,
  ): Promise<boolean> {
    const sources = new Sources();
    const out = await open(target, 'w', 0o600);
    try {
      for (const [index, piece] of objects.entries()) {
        const { object } = piece;
        const used = ranges.filter((range) => range[0] === index);
        const here = near && used.every(([, from, bytes]) => rangesHere(near.pieces, { object, from, bytes }));
        if (here) continue;
        const local = temporaryName(target);
        sources.temporary.push(local);
        await this.#fetch(piece, local);
        await sources.open(object, local);
      }
      if (near !== undefined) await sources.openNear(near.path);
      for (const [index, from, bytes] of ranges) {
        const { object } = objects[index] as Piece;
        const fetched = sources.fetched(object);
        const places =
          fetched === undefined ? rangesHere(near?.pieces ?? none, { object, from, bytes }) : [[from, bytes] as const];
        for (const [at, length] of places ?? []) await copyRange(fetched ?? sources.near, out, [at, length]);
      }
    } finally {
      await out.close();
      await sources.close();
    }
    return (await sha256OfFile(target)) === file.sha256;
  }
}

type Piece = ObjectParts['objects'][number];

const none: ObjectParts = { objects: [], ranges: [] };

/** A file on this disk, and how it is made of objects. */
interface NearFile {
  readonly path: string;
  readonly pieces: ObjectParts;
}

/** The files that a file is put together from: fetched objects, and one on this disk. */
class Sources {
  /** Files to be removed at the end. */
  readonly temporary: string[] = [];
  readonly #fetched = new Map<string, FileHandle>();
  #near: FileHandle | undefined;

  async open(object: string, path: string): Promise<void> {
    this.#fetched.set(object, await open(path, 'r'));
  }

  async openNear(path: string): Promise<void> {
    this.#near = await open(path, 'r');
  }

  fetched(object: string): FileHandle | undefined {
    return this.#fetched.get(object);
  }

  get near(): FileHandle | undefined {
    return this.#near;
  }

  async close(): Promise<void> {
    for (const handle of this.#fetched.values()) await handle.close();
    await this.#near?.close();
    for (const local of this.temporary) await rm(local, { force: true });
  }
}

async function copyRange(
  from: FileHandle | undefined,
  out: FileHandle,
  [at, bytes]: readonly [at: number, bytes: number],
): Promise<void> {
  for (let done = 0; from !== undefined && done < bytes; ) {
    const piece = Buffer.allocUnsafe(Math.min(1 << 22, bytes - done));
    await readAt(from, piece, at + done);
    await out.appendFile(piece);
    done += piece.length;
  }
}

import { createHash, randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { BlockBlobClient, BlockBlobCommitBlockListOptions } from '@azure/storage-blob';
import { fileChanged } from '../s3/s3-errors.js';
import { type AzureOptions, type Client, clientOf, mayOnlyCreate, sasEnd } from './azure-client.js';
import { azureError, isMissing, isOverwriteRefusal, isPreconditionFailure } from './azure-errors.js';

/** A blob up to this size is written by one request, a larger one in blocks of this size. */
const blockBytes = 8 * 1024 * 1024;
/** Blocks that are under way, and in memory. */
const blocksAtOnce = 4;
const removedAtOnce = 16;

/** Blobs of a container below a prefix. Paths are relative to it, with `/`. A write is durable once its promise resolves. */
export class AzureStore {
  readonly isLocal = false;
  readonly place: string;
  /** When the shared access signature ends. */
  readonly loginEnd: Date | undefined;
  readonly #client: Client;
  readonly #prefix: string;
  readonly #mayOnlyCreate: boolean;
  readonly #stop = new AbortController();

  private constructor(client: Client, options: AzureOptions) {
    const prefix = decodeURIComponent(new URL(options.url).pathname).replace(/^\/+|(?<!\/)\/+$/g, '');
    this.place = options.url.replace(/(?<!\/)\/+$/, '');
    this.loginEnd = sasEnd(options);
    this.#client = client;
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
    this.#mayOnlyCreate = mayOnlyCreate(options);
    const { signal } = this.#stop;
    // Every request adds a listener to this signal.
    setMaxListeners(0, signal);
    options.signal.addEventListener('abort', () => this.#stop.abort(options.signal.reason), { signal });
  }

  /** Sends no request yet. */
  static async open(options: AzureOptions): Promise<AzureStore> {
    return new AzureStore(await clientOf(options), options);
  }

  folders(): Promise<string[]> {
    return this.#classified(async () => {
      const names: string[] = [];
      const listed = this.#client.container.listBlobsByHierarchy('/', { prefix: this.#prefix, ...this.#abort });
      for await (const { kind, name } of listed) if (kind === 'prefix') names.push(name.slice(this.#prefix.length, -1));
      return names;
    });
  }

  files(folder: string): Promise<string[]> {
    return this.#classified(async () => {
      const paths: string[] = [];
      const listed = this.#client.container.listBlobsFlat({ prefix: `${this.#prefix}${folder}/`, ...this.#abort });
      for await (const { name } of listed) paths.push(name.slice(this.#prefix.length));
      return paths;
    });
  }

  read(path: string): Promise<{ text: string; tag: string } | undefined> {
    return this.#ifThere(async () => {
      const { readableStreamBody, etag = '' } = await this.#blob(path).download(0, undefined, this.#abort);
      return { text: await textOf(readableStreamBody as Readable), tag: etag };
    });
  }

  /** Writes a new blob. @returns false if it exists already */
  create(path: string, text: string): Promise<boolean> {
    return this.replace(path, text, undefined);
  }

  /**
   * Replaces a blob.
   * @param tag the version to replace; undefined if the blob must not exist yet
   * @returns false if it is at another version
   */
  async replace(path: string, text: string, tag: string | undefined): Promise<boolean> {
    const conditions = tag === undefined ? { ifNoneMatch: '*' } : { ifMatch: tag };
    const isWritten = await this.#ifHolds(() =>
      this.#blob(path).upload(text, Buffer.byteLength(text), { conditions, ...this.#abort }),
    );
    // The refusal may be of a second try, after the response to a first and successful one was lost.
    return isWritten || (await this.read(path))?.text === text;
  }

  async put(local: string, path: string): Promise<void> {
    await this.putFile(local, path, { isNew: false });
  }

  /** Writes a file, whole or not at all. @param md5 what its content must have @returns false if `isNew`, and there is such a blob */
  async putFile(
    local: string,
    path: string,
    { md5, isNew }: { md5?: string | undefined; isNew: boolean },
  ): Promise<boolean> {
    const { size } = await stat(local);
    const blobContentMD5 = md5 === undefined ? {} : { blobContentMD5: Buffer.from(md5, 'hex') };
    const options = {
      ...(isNew ? { conditions: { ifNoneMatch: '*' } } : {}),
      ...(md5 === undefined ? {} : { blobHTTPHeaders: blobContentMD5 }),
      ...this.#abort,
    };
    const blob = this.#blob(path);
    const work = async () => {
      if (size > blockBytes && !this.#mayOnlyCreate) return this.#putBlocks(local, blob, { md5, ...options });
      const checked = md5 === undefined ? {} : { transactionalContentMD5: Buffer.from(md5, 'hex') };
      return blob.upload(() => createReadStream(local), size, { ...options, ...checked });
    };
    if (isNew) return this.#ifHolds(work);
    await this.#classified(work);
    return true;
  }

  /** Blocks that an ended upload leaves uncommitted are no part of the blob, and Azure removes them within a week. */
  async #putBlocks(
    local: string,
    blob: BlockBlobClient,
    { md5, ...options }: BlockBlobCommitBlockListOptions & { md5: string | undefined },
  ): Promise<void> {
    const hash = createHash('md5');
    const ids: string[] = [];
    const upload = randomBytes(6).toString('hex');
    let underWay: Promise<unknown>[] = [];
    for await (const chunk of createReadStream(local, { highWaterMark: blockBytes })) {
      hash.update(chunk as Buffer);
      const id = Buffer.from(`${upload}${String(ids.length).padStart(6, '0')}`).toString('base64');
      const transactionalContentMD5 = createHash('md5')
        .update(chunk as Buffer)
        .digest();
      underWay.push(blob.stageBlock(id, chunk as Buffer, chunk.length, { transactionalContentMD5, ...this.#abort }));
      ids.push(id);
      if (underWay.length < blocksAtOnce) continue;
      await Promise.all(underWay);
      underWay = [];
    }
    await Promise.all(underWay);
    if (md5 !== undefined && hash.digest('hex') !== md5) throw fileChanged(local);
    await blob.commitBlockList(ids, options);
  }

  head(path: string): Promise<{ bytes: number; changedMs: number; md5: string | undefined } | undefined> {
    return this.#ifThere(async () => {
      const { contentLength, lastModified, contentMD5 } = await this.#blob(path).getProperties(this.#abort);
      return {
        bytes: contentLength ?? 0,
        changedMs: lastModified?.getTime() ?? Number.POSITIVE_INFINITY,
        md5: contentMD5 && Buffer.from(contentMD5).toString('hex'),
      };
    });
  }

  fetch(path: string, folder: string): Promise<string> {
    return this.#classified(async () => {
      // Names of blobs may be longer than those of files.
      const local = join(folder, createHash('sha256').update(path).digest('hex'));
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const { readableStreamBody } = await this.#blob(path).download(0, undefined, this.#abort);
      await pipeline(readableStreamBody as Readable, createWriteStream(local, { mode: 0o600 }));
      return local;
    });
  }

  async remove(paths: readonly string[]): Promise<void> {
    for (let from = 0; from < paths.length; from += removedAtOnce)
      await Promise.all(
        paths.slice(from, from + removedAtOnce).map((path) =>
          // Snapshots of a blob have its values too.
          this.#ifThere(() => this.#blob(path).delete({ deleteSnapshots: 'include', ...this.#abort })),
        ),
      );
  }

  close(): void {
    this.#stop.abort();
    this.#client.close();
  }

  get #abort(): { abortSignal: AbortSignal } {
    return { abortSignal: this.#stop.signal };
  }

  #blob(path: string): BlockBlobClient {
    return this.#client.container.getBlockBlobClient(`${this.#prefix}${path}`);
  }

  async #ifThere<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw this.#error(error);
    }
  }

  async #ifHolds(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      // A condition on a version of a blob that is gone may be answered 404.
      if (isPreconditionFailure(error) || isMissing(error)) return false;
      if (this.#mayOnlyCreate && isOverwriteRefusal(error)) return false;
      throw this.#error(error);
    }
  }

  async #classified<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#error(error);
    }
  }

  #error(error: unknown): unknown {
    return azureError(error, { place: this.place, container: new URL(this.place).hostname });
  }
}

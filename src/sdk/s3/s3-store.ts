import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type * as S3 from '@aws-sdk/client-s3';
import { unavailable } from '../errors.js';
import { orClose } from '../opened-destination.js';
import { reachingMs } from '../silence.js';
import { checkedStream } from './checked-stream.js';
import { clientOf, type Library, loadLibrary, type S3Options } from './s3-client.js';
import { isMissing, isPreconditionFailure, s3Error } from './s3-errors.js';

/** The text of an object. */
interface S3Text {
  readonly text: string;
  /** Its ETag, which identifies this version. */
  readonly tag: string;
  /** How long ago it was written, by the store's own clock, in milliseconds; undefined if the store does not say. */
  readonly ageMs: number | undefined;
}

/** An object in a list. */
interface S3Listed {
  readonly path: string;
  readonly bytes: number;
  /** When it was written, by the store's clock: milliseconds since 1970. */
  readonly writtenAt: number;
}

/** An object that shows whether the store honours conditions. It stays in the store, so that later openings need two requests. */
const probe = '_cdsync_conditional_writes';
/** The ETag of no object. */
const noVersion = '"00000000000000000000000000000000"';
/** Most objects that one request removes. */
const removedAtOnce = 1000;

/** Objects of a bucket below a prefix. Paths are relative to it, with `/`. A write is durable once its promise resolves. */
export class S3Store {
  readonly isLocal = false;
  readonly place: string;
  readonly #library: Library;
  readonly #client: S3.S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #stop: AbortController;
  readonly #abort: { readonly abortSignal: AbortSignal };
  #began: number | undefined;
  #keepsConditions = true;
  #hasResponded = false;
  #clockAheadMs: number | undefined;

  private constructor(parts: Library, options: S3Options) {
    const { hostname, pathname } = new URL(options.url);
    const prefix = decodeURIComponent(pathname).replace(/^\/+|(?<!\/)\/+$/g, '');
    this.place = options.url.replace(/(?<!\/)\/+$/, '');
    this.#library = parts;
    this.#client = clientOf(parts, options);
    this.#watchResponses();
    this.#bucket = hostname;
    // Every request adds a listener to this signal.
    const stop = new AbortController();
    setMaxListeners(0, stop.signal);
    options.signal.addEventListener('abort', () => stop.abort(options.signal.reason), { signal: stop.signal });
    this.#stop = stop;
    this.#abort = { abortSignal: stop.signal };
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
  }

  /** Writes nothing: for reading only. */
  static async openReadOnly(options: S3Options): Promise<S3Store> {
    return new S3Store(await loadLibrary(), options);
  }

  /** Connects, and finds out whether the store honours `If-None-Match` and `If-Match`. */
  static async open(options: S3Options, { warns = true }: { readonly warns?: boolean } = {}): Promise<S3Store> {
    const store = new S3Store(await loadLibrary(), options);
    await orClose(store, () => store.#findOutConditions());
    if (warns && !store.#keepsConditions)
      options.notice(`${store.place} has no conditional writes: make sure that nothing else loads it at the same time`);
    return store;
  }

  /** Whether the store honours the conditions of {@link replace}, as far as {@link open} found out. */
  get keepsConditions(): boolean {
    return this.#keepsConditions;
  }

  /** By how much the store's clock is ahead of this machine's, in milliseconds, to the second; undefined before its first response. */
  get clockAheadMs(): number | undefined {
    return this.#clockAheadMs;
  }

  async folders(): Promise<string[]> {
    const names: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#pages({ Prefix: this.#prefix, Delimiter: '/' }))
      for (const { Prefix = '' } of CommonPrefixes) names.push(Prefix.slice(this.#prefix.length, -1));
    return names;
  }

  async files(folder: string): Promise<string[]> {
    const paths: string[] = [];
    for await (const { Contents = [] } of this.#pages({ Prefix: `${this.#prefix}${folder}/` }))
      for (const { Key = '' } of Contents) paths.push(Key.slice(this.#prefix.length));
    return paths;
  }

  /** Every object below a folder. */
  async *listed(folder: string): AsyncGenerator<S3Listed> {
    for await (const { Contents = [] } of this.#pages({ Prefix: `${this.#prefix}${folder}` }))
      for (const { Key = '', Size = 0, LastModified } of Contents)
        yield { path: Key.slice(this.#prefix.length), bytes: Size, writtenAt: LastModified?.getTime() ?? Number.NaN };
  }

  async read(path: string): Promise<S3Text | undefined> {
    try {
      const { Body, ETag = '', LastModified } = await this.#get(path);
      const nowMs = Date.now() + (this.#clockAheadMs ?? 0);
      const ageMs = LastModified === undefined ? undefined : Math.max(0, nowMs - LastModified.getTime());
      return { text: (await Body?.transformToString('utf8')) ?? '', tag: ETag, ageMs };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw this.#error(error);
    }
  }

  /** Writes a new object. @returns false if it exists already */
  create(path: string, text: string): Promise<boolean> {
    return this.replace(path, text, undefined);
  }

  /**
   * Replaces an object.
   * @param tag the version to replace; undefined if the object must not exist yet
   * @returns false if it is at another version
   */
  async replace(path: string, text: string, tag: string | undefined): Promise<boolean> {
    return (await this.exchange(path, text, tag)) !== undefined;
  }

  /** The same. @returns the new version; undefined if the object is at another one */
  async exchange(path: string, text: string, tag: string | undefined): Promise<string | undefined> {
    // Without conditional writes, a comparison before the write is the best that can be done.
    if (!this.#keepsConditions && (await this.read(path))?.tag !== tag) return undefined;
    const condition = tag === undefined ? { IfNoneMatch: '*' } : { IfMatch: tag };
    const written = await this.#write(path, text, this.#keepsConditions ? condition : {});
    if (written !== undefined) return written;
    // The refusal may be of a second try, after the response to a first and successful one was lost.
    const stored = await this.read(path);
    return stored?.text === text ? stored.tag : undefined;
  }

  /**
   * Writes a file.
   * @param sha256 what its content must have; otherwise nothing is written
   */
  async put(local: string, path: string, sha256?: string): Promise<void> {
    await this.putFile(local, path, { sha256, isNew: false, headers: {} });
  }

  async #upload(params: S3.PutObjectCommandInput): Promise<void> {
    const { Upload } = this.#library;
    const upload = new Upload({ client: this.#client, params, partSize: 8 * 1024 * 1024, queueSize: 4 });
    const { abortSignal } = this.#abort;
    const abort = () => void upload.abort();
    abortSignal.addEventListener('abort', abort);
    try {
      abortSignal.throwIfAborted();
      await upload.done();
    } finally {
      abortSignal.removeEventListener('abort', abort);
    }
  }

  /** The same. @param isNew only if there is no such object; else false @param headers more of the request, such as an ACL */
  async putFile(
    local: string,
    path: string,
    {
      sha256,
      isNew,
      headers,
    }: { sha256: string | undefined; isNew: boolean; headers: Readonly<Record<string, string>> },
  ): Promise<boolean> {
    const Body = sha256 === undefined ? createReadStream(local) : checkedStream(local, sha256);
    try {
      await this.#upload({ ...this.#object(path), ...headers, ...(isNew ? { IfNoneMatch: '*' } : {}), Body });
      return true;
    } catch (error) {
      if (isNew && isPreconditionFailure(error)) return false;
      throw this.#error(error);
    }
  }

  /** Writes an object of these bytes. */
  async putBytes(bytes: Uint8Array, path: string): Promise<void> {
    const input = { ...this.#object(path), Body: bytes };
    await this.#client.send(new this.#library.s3.PutObjectCommand(input), this.#abort).catch((error: unknown) => {
      throw this.#error(error);
    });
  }

  /** Copies an object of at most 5 GB to another path, within the store. */
  async copy(from: string, to: string): Promise<void> {
    const source = `${this.#bucket}/${this.#prefix}${from}`.split('/').map(encodeURIComponent).join('/');
    const input = { ...this.#object(to), CopySource: source };
    await this.#client.send(new this.#library.s3.CopyObjectCommand(input), this.#abort).catch((error: unknown) => {
      throw this.#error(error);
    });
  }

  /** The bytes of an object as they come; undefined if there is none. */
  async stream(path: string): Promise<Readable | undefined> {
    try {
      return (await this.#get(path)).Body as Readable;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw this.#error(error);
    }
  }

  /** A failure of {@link stream} while its bytes come, as an error of cdsync. */
  streamError(error: unknown): unknown {
    return this.#error(error);
  }

  async head(path: string): Promise<{ bytes: number; changedMs: number; md5?: undefined } | undefined> {
    try {
      const { ContentLength = 0, LastModified } = await this.#client.send(
        new this.#library.s3.HeadObjectCommand(this.#object(path)),
        this.#abort,
      );
      return { bytes: ContentLength, changedMs: LastModified?.getTime() ?? Number.POSITIVE_INFINITY };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw this.#error(error);
    }
  }

  async fetch(path: string, folder: string): Promise<string> {
    // Names of keys may be longer than those of files.
    const local = join(folder, createHash('sha256').update(path).digest('hex'));
    try {
      await mkdir(dirname(local), { recursive: true, mode: 0o700 });
      const { Body } = await this.#get(path);
      await pipeline(Body as Readable, createWriteStream(local, { mode: 0o600 }));
      return local;
    } catch (error) {
      throw this.#error(error);
    }
  }

  async remove(paths: readonly string[]): Promise<void> {
    for (let from = 0; from < paths.length; from += removedAtOnce) {
      const Objects = paths.slice(from, from + removedAtOnce).map((path) => ({ Key: `${this.#prefix}${path}` }));
      const command = new this.#library.s3.DeleteObjectsCommand({
        Bucket: this.#bucket,
        Delete: { Objects, Quiet: true },
      });
      const { Errors = [] } = await this.#client.send(command, this.#abort).catch((error: unknown) => {
        throw this.#error(error);
      });
      const [first] = Errors;
      if (first !== undefined)
        throw this.#error({
          name: first.Code,
          $metadata: { httpStatusCode: first.Code === 'AccessDenied' ? 403 : 503 },
        });
    }
  }

  close(): void {
    this.#stop.abort();
    this.#client.destroy();
  }

  /** Each response, a refusal too, has the store's time. A request to a store that has never responded is not repeated for long. */
  #watchResponses(): void {
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        this.#began ??= performance.now();
        const began = this.#began;
        const result = await next(args).catch((error: { readonly name?: string }) => {
          if (this.#hasResponded || performance.now() - began < reachingMs) throw error;
          // The SDK would repeat a time-out.
          throw unavailable(`${this.place} is unavailable: no response (${error.name})`);
        });
        this.#hasResponded = true;
        const { headers } = (result.response ?? {}) as { headers?: Readonly<Record<string, string>> };
        const storeTime = Date.parse(headers?.date ?? '');
        if (!Number.isNaN(storeTime)) this.#clockAheadMs = storeTime - Date.now();
        return result;
      },
      { step: 'deserialize', name: 'cdsyncResponses', priority: 'low' },
    );
  }

  async #findOutConditions(): Promise<void> {
    const text = 'cdsync finds out by this object whether the store has conditional writes.\n';
    try {
      // If the object is missing, the first request writes it; the second must then be refused. The third names a version that
      // never was.
      const isWritten = async (condition: { IfMatch?: string; IfNoneMatch?: string }) =>
        (await this.#write(probe, text, condition)) !== undefined;
      const createsOnce = !(await isWritten({ IfNoneMatch: '*' })) || !(await isWritten({ IfNoneMatch: '*' }));
      this.#keepsConditions = createsOnce && !(await isWritten({ IfMatch: noVersion }));
    } catch (error) {
      if (!/NotImplemented|InvalidArgument/.test(String((error as { cause?: { name?: unknown } }).cause?.name)))
        throw error;
      this.#keepsConditions = false;
    }
  }

  /** @returns the new version; undefined if the condition does not hold */
  async #write(
    path: string,
    text: string,
    condition: { IfMatch?: string; IfNoneMatch?: string },
  ): Promise<string | undefined> {
    const input = { ...this.#object(path), ...condition, Body: text };
    try {
      const { ETag = '' } = await this.#client.send(new this.#library.s3.PutObjectCommand(input), this.#abort);
      return ETag;
    } catch (error) {
      // A condition on a version of an object that is gone is answered 404.
      if (isPreconditionFailure(error) || (condition.IfMatch !== undefined && isMissing(error))) return undefined;
      throw this.#error(error);
    }
  }

  async *#pages(what: { Prefix: string; Delimiter?: string }): AsyncGenerator<S3.ListObjectsV2CommandOutput> {
    const { paginateListObjectsV2 } = this.#library.s3;
    try {
      yield* paginateListObjectsV2({ client: this.#client }, { Bucket: this.#bucket, ...what }, this.#abort);
    } catch (error) {
      throw this.#error(error);
    }
  }

  #get(path: string): Promise<S3.GetObjectCommandOutput> {
    return this.#client.send(new this.#library.s3.GetObjectCommand(this.#object(path)), this.#abort);
  }

  #object(path: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${path}` };
  }

  #error(error: unknown): unknown {
    return s3Error(error, { place: this.place, bucket: this.#bucket });
  }
}

import type { Socket } from 'node:net';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { printable } from '../core/printable.js';
import { byProxy, proxyFor } from '../core/proxy.js';
import type { ServiceOptions } from '../core/service-options.js';
import { buildConnector, Pool } from '../core/undici.js';
import { maxConcurrency } from '../rate-limit/concurrency.js';
import type { BodyAllocation, BodyMemory } from './body-memory.js';
import { maxHeaderBytes, maxSentHeaderBytes, ResponseBody } from './response-body.js';
import { type ExchangeObserver, type RawResponse, ResponseReader, type ServiceResponse } from './response-reader.js';
import { TransportError } from './transport-error.js';

const inflate = promisify(gunzip);
/** Zlib needs at least this much in one go. */
const minChunk = 64 * 1024;

/**
 * Inflates a gzip body in its place. Memory is taken first: for the size that the end of the body states (RFC 1952, section
 * 2.3.1), or, if that is not true, for the largest body there may be. So a bomb never takes more than the memory.
 * @throws {TransportError} `too_large`, `torn`
 * @throws {CdsyncError} `interrupted` while it waits for memory
 */
async function inflateBody(body: Buffer, place: BodyAllocation, signal: AbortSignal): Promise<Buffer> {
  const most = place.most - body.length;
  const stated = Math.max(1, body.length < 4 ? 0 : body.readUInt32LE(body.length - 4));
  if (stated < most) {
    await place.reserve(body.length + stated, signal);
    const whole = await inflatedWithin(body, stated, stated + 1);
    if (whole !== undefined) return whole;
  }
  await place.reserve(place.most, signal);
  const whole = await inflatedWithin(body, most, minChunk);
  if (whole === undefined) throw new TransportError('too_large', undefined, place.most);
  return whole;
}

/** Undefined if the body has more than `most` bytes. */
async function inflatedWithin(body: Buffer, most: number, chunk: number): Promise<Buffer | undefined> {
  try {
    return await inflate(body, { maxOutputLength: most, chunkSize: Math.max(minChunk, chunk) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw new TransportError('torn', error);
  }
}

const byteOrderMark = Buffer.from('\ufeff');

/** The codings of a body, the one applied last first. Names have no case, and may come in lists and several headers. */
function codings(header: string | string[] | undefined): string[] {
  const names = (Array.isArray(header) ? header.join(',') : (header ?? '')).toLowerCase().split(',');
  return names
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
    .reverse();
}

/**
 * The body of a response as the service meant it: decompressed, without a byte order mark at its head.
 * @throws {TransportError} `torn`, `encoded`, `too_large`
 * @throws {CdsyncError} `interrupted` as soon as the signal aborts while it waits for memory
 */
async function decodeBody({ headers, body: received, place }: RawResponse, signal: AbortSignal): Promise<Buffer> {
  let body = received;
  for (const coding of body.length === 0 ? [] : codings(headers['content-encoding'])) {
    if (coding !== 'gzip' && coding !== 'x-gzip') {
      throw new TransportError('encoded', new Error(`compressed as ${printable(coding)}`));
    }
    body = await inflateBody(body, place, signal);
  }
  return body.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? body.subarray(byteOrderMark.length) : body;
}

const start = Buffer.from('HTTP/1.1 100');
const blankLine = '\r\n\r\n';
/** A head longer than this is no `100 Continue`. */
const maxHeadBytes = 16_384;

/** Position after all whole `100 Continue` at the head of a response; undefined if more bytes must come to decide. */
function afterContinues(bytes: Buffer): number | undefined {
  let from = 0;
  for (;;) {
    const length = Math.min(start.length, bytes.length - from);
    if (bytes.compare(start, 0, length, from, from + length) !== 0) return from;
    const end = length < start.length ? -1 : bytes.indexOf(blankLine, from);
    if (end < 0) return bytes.length - from > maxHeadBytes ? from : undefined;
    from = end + blankLine.length;
  }
}

/**
 * Takes `100 Continue` away from the head of each response on a connection. A server may send it unasked (RFC 9110, section
 * 15.2), but undici takes it for a bad response and ends the connection. Other 1xx responses undici handles itself.
 * The connection must send one request at a time.
 */
function stripContinueResponses(socket: Socket): Socket {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  const write = socket.write.bind(socket) as (...words: unknown[]) => boolean;
  let isHead = true;
  let held: Buffer | undefined;
  // A response begins after the request; from then on, the same bytes may be part of a body.
  socket.write = ((...words: unknown[]) => {
    isHead = true;
    return write(...words);
  }) as Socket['write'];
  socket.read = (size?: number) => {
    // Node itself reads nothing in this way, to fill its buffer: bytes that are there must stay.
    if (size === 0) return read(0);
    for (;;) {
      const chunk = read();
      if (chunk === null || !isHead) return chunk;
      const bytes = held === undefined ? chunk : Buffer.concat([held, chunk]);
      const from = afterContinues(bytes);
      held = from === undefined ? bytes : undefined;
      if (from === undefined || from === bytes.length) continue;
      isHead = false;
      return bytes.subarray(from);
    }
  };
  return socket;
}

/** A request as it is sent. */
export interface WireRequest {
  readonly method: 'GET' | 'POST';
  /** The path from the root of the base URL, with the query, encoded. */
  readonly target: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string | null;
}

/**
 * The connections to one base URL: sends a request once and returns its whole response. Follows no redirects, retries
 * nothing, checks no status.
 *
 * Timeouts: `connect` for a connection with its TLS handshake; `firstByte` from the end of the request to the response's
 * headers; `body` for any pause within the body; `total` for the whole response, however steadily its bytes come. undici
 * measures `firstByte` and `body` with a coarse timer: they may fire up to a second late.
 */
export class Transport {
  /** `host:port` of the base URL, for messages. */
  readonly host: string;
  readonly #pool: Pool;
  readonly #basePath: string;
  readonly #memory: BodyMemory;
  readonly #totalMs: number;

  /**
   * @param memory where bodies are collected
   * @throws {CdsyncError} `proxy_invalid`
   */
  constructor(
    { baseUrl, timeoutsMs, concurrency }: Pick<ServiceOptions, 'baseUrl' | 'timeoutsMs' | 'concurrency'>,
    memory: BodyMemory,
  ) {
    this.#memory = memory;
    this.#totalMs = timeoutsMs.total;
    const url = new URL(baseUrl);
    this.host = url.host;
    this.#basePath = url.pathname.replace(/(?<!\/)\/+$/, '');
    const usual = buildConnector({ timeout: timeoutsMs.connect });
    const proxy = proxyFor(url, process.env);
    const connect = proxy === undefined ? usual : byProxy(proxy, timeoutsMs.connect, usual);
    this.#pool = new Pool(url.origin, {
      connections: maxConcurrency({ concurrency }),
      connect: (options, done) =>
        connect(options, (...[error, socket]) =>
          error === null ? done(null, stripContinueResponses(socket)) : done(error, null),
        ),
      headersTimeout: timeoutsMs.firstByte,
      bodyTimeout: timeoutsMs.body,
      maxHeaderSize: maxHeaderBytes,
    });
  }

  /**
   * @throws {TransportError}
   * @throws {WithheldError} if the observer does not let it be sent any more
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  async exchange(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<ServiceResponse> {
    const raw = await this.#dispatch(request, signal, observer);
    const { place, ...response } = raw;
    try {
      const body = await decodeBody(raw, signal);
      place.settle(body.length);
      return { ...response, body: this.#owned(body, place) };
    } catch (error) {
      place.release();
      throw error;
    }
  }

  #owned(body: Buffer, place: BodyAllocation): ResponseBody {
    return new ResponseBody(body, (isReusable) => {
      place.release();
      if (isReusable) this.#memory.pool.giveBack(body);
    });
  }

  /** Ends all connections; requests that are under way fail as `closed`. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #dispatch(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<RawResponse> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) throw interrupted(signal.reason);
      const collector = new ResponseReader({
        observer,
        memory: this.#memory,
        totalMs: this.#totalMs,
        resolve: (response) => {
          release();
          resolve(response);
        },
        reject: (error) => {
          release();
          reject(error);
        },
      });
      const release = onAbort(signal, () => collector.abort(interrupted(signal.reason)));
      const { method, target, headers, body } = request;
      if (headers.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) > maxSentHeaderBytes)
        return collector.abort(new TransportError('large_request', undefined));
      // undici declares the list as writable, but only reads it.
      this.#pool.dispatch(
        { method, path: this.#basePath + target, headers: headers as string[], body, idempotent: true },
        collector,
      );
    });
  }
}

/** The transport to the token endpoint, which may be on its own host. */
export function oauthTransport(service: ServiceOptions, usual: Transport, memory: BodyMemory): Transport {
  const { oauthTokenUrl } = service;
  if (oauthTokenUrl === undefined) return usual;
  return new Transport({ ...service, baseUrl: new URL(oauthTokenUrl).origin, concurrency: 1 }, memory);
}

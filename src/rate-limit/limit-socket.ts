import { createHash, randomUUID } from 'node:crypto';
import { statSync, utimesSync } from 'node:fs';
import { link, lstat, mkdir, readdir, rename, stat, unlink } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceOptions } from '../core/service-options.js';
import { type Account, accountKey, accountOf, type LimitShare } from './budget.js';

/** Processes with another version of the protocol do not find each other. */
const protocolVersion = 3;
/** The longest path of a socket on every system. */
const longestPath = 103;
const attempts = 50;
const retryMs = 20;
/** How long a process that only reads the shares waits for them. */
const readSharesMs = 500;
/** A file that is unchanged for this long belongs to a process that ended. */
const forgottenMs = 86_400_000;
/** How many files each new owner checks: all of them in time, at a constant cost. */
const checkedFiles = 8;

/** A folder on this machine that only this user can enter, for sockets. */
export async function runtimeFolder(preferred = process.env.XDG_RUNTIME_DIR): Promise<string> {
  if (process.getuid === undefined) throw new Error('this system has no user ids');
  const uid = process.getuid();
  // Cron and login sessions of one user must find each other, and only the latter have the variable.
  const places = [preferred, `/run/user/${uid}`].filter((place) => place !== undefined && place !== '') as string[];
  for (const place of places) {
    if (await isPrivate(place, uid)) return privateFolder(join(place, 'cdsync'), uid);
  }
  return privateFolder(join(tmpdir(), `cdsync-${uid}`), uid);
}

/** Makes the folder if it is missing. @throws {Error} if it is a link, another user's, or open to others */
async function privateFolder(path: string, uid: number): Promise<string> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  if (!(await isPrivate(path, uid))) throw new Error(`${path} is not a folder of mode 0700 that belongs to this user`);
  return path;
}

async function isPrivate(path: string, uid: number): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isDirectory() === true && found.uid === uid && (found.mode & 0o077) === 0;
}

/** Longer lines do not belong to the protocol. */
const longestLine = 4_096;

/** A line between a member and the owner. Both may pass on that the service asked to wait. */
export interface Message {
  readonly report: {
    readonly pid: number;
    readonly limit: number;
    readonly part: number;
    readonly held: number;
    readonly used: number;
    readonly waiting: boolean;
    /** Responses since the last report, and how many of them were 429s. */
    readonly answered: number;
    readonly refused: number;
  };
  readonly part: {
    readonly permits: number;
    /** The permits that are divided at present. */
    readonly total: number;
    /** Processes that share it, this one included. */
    readonly participants: number;
  };
  readonly pauseMs: number;
  /** A process that takes no part asks for the shares of all. */
  readonly look: true;
  readonly shares: readonly Share[];
}

/** The part of one process. */
export interface Share {
  readonly pid: number;
  readonly permits: number;
}

/** Calls `onMessage` for each line of JSON; a peer that sends anything else is disconnected. */
export function readMessages(socket: Socket, onMessage: (message: Partial<Message>) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() as string;
    if (rest.length > longestLine) socket.destroy();
    for (const line of lines) {
      if (socket.destroyed) return;
      const message = parsed(line);
      if (message === undefined) socket.destroy();
      else onMessage(message);
    }
  });
}

export function sendMessage(socket: Socket, message: Partial<Message>): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(message)}\n`);
}

function parsed(line: string): Partial<Message> | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === 'object' && message !== null ? message : undefined;
  } catch {
    return undefined;
  }
}

/** Milliseconds of the machine's monotonic clock: the same for all processes. */
function machineTime(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

/** A connection to the owner, or, if there is none, the ownership. */
type JoinResult =
  | { readonly role: 'member'; readonly socket: Socket; readonly generation: number }
  | { readonly role: 'owner'; readonly ownership: SocketOwnership };

/** Permits of a former owner that may still be in use. */
export interface FormerPermits {
  readonly permits: number;
  /** Negative if that time is over. */
  readonly forMs: number;
}

/**
 * The Unix socket of one account, in a private folder. One process of the user owns it, the others connect. If the owner dies, its
 * socket refuses connections, and a process that notices this takes the next generation of the socket.
 *
 * - `link` makes a socket that is listening already appear under its name, and fails if the name is taken. So one process wins.
 * - Then the winner renames the former socket. From then on the former owner, which may have been suspended, can see that it is no
 *   longer the owner ({@link SocketOwnership.confirm}).
 * - Before that, each owner has noted on its socket how many permits may be in use (as the time of access) and until when they may be used
 *   (as the time of modification). So a successor knows how long it must wait for which permits, even after a crash.
 */
export class LimitSocket {
  readonly #folder: string;
  readonly #name: string;

  /** @param folder that only this user can enter */
  constructor(folder: string, account: Account) {
    this.#folder = folder;
    // Neither the tenant nor the address shows in a file name.
    this.#name = createHash('sha256')
      .update(`${protocolVersion} ${accountKey(account)}`)
      .digest('hex')
      .slice(0, 24);
    if (this.#temporary().length > longestPath) throw new Error(`${folder} is too long for the path of a socket`);
  }

  /**
   * Connects to the owner, or becomes the owner.
   * @param silent the generation of an owner that does not respond: it is replaced
   * @param longestUseMs the longest time for which permits of an owner may be used
   */
  async join(longestUseMs: number, silent?: number): Promise<JoinResult> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const generations = await this.#generations();
      const last = generations.at(-1);
      const socket = last === undefined || last === silent ? 'refused' : await this.#connect(last);
      if (typeof socket === 'object') return { role: 'member', socket, generation: last as number };
      const ownership = socket === 'refused' ? await this.#ownership(generations, longestUseMs) : undefined;
      if (ownership !== undefined) return { role: 'owner', ownership };
      await sleep(Math.random() * retryMs);
    }
    throw new Error('the process that divides the limit cannot be reached');
  }

  /** Reads the shares of all processes from the owner, and takes none. Undefined without a response in time. */
  async readShares(): Promise<readonly Share[] | undefined> {
    const last = (await this.#generations()).at(-1);
    const socket = last === undefined ? undefined : await this.#connect(last);
    if (typeof socket !== 'object') return undefined;
    try {
      return await new Promise((resolve) => {
        setTimeout(resolve, readSharesMs, undefined).unref();
        socket.once('close', () => resolve(undefined));
        readMessages(socket, ({ shares }) => shares && resolve(shares));
        sendMessage(socket, { look: true });
      });
    } finally {
      socket.destroy();
    }
  }

  #path(generation: number): string {
    return join(this.#folder, `${this.#name}.${generation}`);
  }

  #temporary(): string {
    return join(this.#folder, `${this.#name}.${randomUUID().slice(0, 8)}.new`);
  }

  async #generations(): Promise<number[]> {
    const names = await readdir(this.#folder);
    const own = names.filter((name) => name.startsWith(`${this.#name}.`) && /\.\d+$/.test(name));
    return own.map((name) => Number(name.slice(this.#name.length + 1))).sort((a, b) => a - b);
  }

  #connect(generation: number): Promise<Socket | 'refused' | 'again'> {
    return new Promise((resolve) => {
      const socket = connect(this.#path(generation));
      socket.once('connect', () => {
        socket.removeAllListeners('error');
        // The event `close` follows.
        socket.on('error', () => undefined);
        resolve(socket);
      });
      socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED' ? 'refused' : 'again'));
    });
  }

  async #ownership(generations: readonly number[], longestUseMs: number): Promise<SocketOwnership | undefined> {
    const temporary = this.#temporary();
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ path: temporary, exclusive: true }, resolve);
    });
    server.unref();
    const path = this.#path((generations.at(-1) ?? 0) + 1);
    try {
      await link(temporary, path);
    } catch (error) {
      server.close();
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      return undefined;
    }
    await unlink(temporary);
    const ownership = new SocketOwnership(server, path);
    for (const each of generations) ownership.former.push(await this.#depose(each, longestUseMs));
    await this.#sweep();
    return ownership;
  }

  /** Ends the ownership of a former owner. @returns its permits that may still be used */
  async #depose(generation: number, longestUseMs: number): Promise<FormerPermits> {
    const aside = `${this.#temporary()}.old`;
    try {
      await rename(this.#path(generation), aside);
      const { atimeMs, mtimeMs } = await stat(aside);
      await unlink(aside);
      const forMs = mtimeMs - machineTime();
      if (forMs <= longestUseMs) return { permits: atimeMs / 1000, forMs };
      // It died before its first note, or the machine was started again since.
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    return { permits: Number.POSITIVE_INFINITY, forMs: longestUseMs };
  }

  /** Removes files of processes that ended, of all accounts. */
  async #sweep(): Promise<void> {
    const names = await readdir(this.#folder);
    const from = Math.floor(Math.random() * names.length);
    for (const name of names.slice(from, from + checkedFiles)) {
      const path = join(this.#folder, name);
      const found = await stat(path).catch(() => undefined);
      // An owner that is idle for a day loses its socket; it notices before its next request.
      if (found !== undefined && Date.now() - found.ctimeMs > forgottenMs) await unlink(path).catch(() => undefined);
    }
  }
}

/** The right to divide a limit: it belongs to the process whose socket has the highest generation. */
export class SocketOwnership {
  readonly former: FormerPermits[] = [];
  readonly #server: Server;
  readonly #path: string;
  readonly #inode: number;
  #early: Socket[] = [];

  constructor(server: Server, path: string) {
    this.#server = server;
    this.#path = path;
    this.#inode = statSync(path).ino;
    server.on('connection', (socket) => this.#early.push(socket));
  }

  /** Calls `listener` for each connection, those that exist already included. */
  onConnection(listener: (socket: Socket) => void): void {
    this.#server.removeAllListeners('connection');
    this.#server.on('connection', listener);
    for (const socket of this.#early) listener(socket);
    this.#early = [];
  }

  /** Notes which permits may be used from now on. @returns whether this process is still the owner */
  confirm({ permits, forMs }: FormerPermits): boolean {
    try {
      utimesSync(this.#path, Math.ceil(permits), (machineTime() + forMs) / 1000);
      return statSync(this.#path).ino === this.#inode;
    } catch {
      return false;
    }
  }

  /** Ends the ownership. @param unused whether no permit is in use: then a successor need not know of it */
  async close(unused: boolean): Promise<void> {
    this.#server.close();
    for (const socket of this.#early) socket.destroy();
    if (unused && this.confirm({ permits: 0, forMs: 0 })) await unlink(this.#path).catch(() => undefined);
  }
}

/** The share of the Profile API's limit that another process of this user has; undefined if that cannot be found out. */
export async function readLimitShare(service: ServiceOptions, pid: number): Promise<LimitShare | undefined> {
  try {
    const place = new LimitSocket(await runtimeFolder(), accountOf(service, 'profile'));
    const shares = await place.readShares();
    const own = shares?.find((share) => share.pid === pid);
    if (shares === undefined || own === undefined) return undefined;
    return { part: Math.min(1, own.permits / service.rateLimits.profile), otherProcesses: shares.length - 1 };
  } catch {
    // It is only shown.
    return undefined;
  }
}

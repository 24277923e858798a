import { createHash, randomUUID } from 'node:crypto';
import { statSync, utimesSync } from 'node:fs';
import { link, lstat, mkdir, readdir, rename, stat, unlink } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceOptions } from '../core/service-options.js';
import { type Account, accountKey, accountOf, type LimitShare } from './budget.js';

/** Processes that speak another language do not meet. */
const language = 2;
/** The longest path of a socket that every system takes. */
const longestPath = 103;
const attempts = 50;
const retryMs = 20;
/** How long somebody who only looks waits for an answer. */
const lookMs = 500;
/** A file that nobody has touched for so long is of a process that is gone. */
const forgottenMs = 86_400_000;
/** How many files each new owner looks at: all of them in time, without a cost that grows with them. */
const looksAtOnce = 8;

/** A folder on this machine that only this user can enter, for sockets. */
export async function runtimeFolder(given = process.env.XDG_RUNTIME_DIR): Promise<string> {
  if (process.getuid === undefined) throw new Error('this system has no user ids');
  const uid = process.getuid();
  // Cron and login sessions of one user must find each other, and only the latter have the variable.
  const places = [given, `/run/user/${uid}`].filter((place) => place !== undefined && place !== '') as string[];
  for (const place of places) {
    if (await isPrivate(place, uid)) return privateFolder(join(place, 'cdsync'), uid);
  }
  return privateFolder(join(tmpdir(), `cdsync-${uid}`), uid);
}

/** Makes the folder if it is missing. @throws {Error} if it is a link, somebody else's, or open to others */
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

/** Longer lines are from nobody who speaks this language. */
const longestLine = 4_096;

/** What a process says about itself, and what the owner answers; either may say that the service asked to wait. */
export interface Message {
  readonly report: {
    readonly pid: number;
    readonly limit: number;
    readonly part: number;
    readonly held: number;
    readonly used: number;
    readonly waiting: boolean;
    /** Answers since the last report, and how many of them were 429s. */
    readonly answered: number;
    readonly refused: number;
  };
  readonly part: {
    readonly permits: number;
    /** All that is divided at present. */
    readonly total: number;
    /** Processes that share it, this one included. */
    readonly sharers: number;
  };
  readonly pauseMs: number;
  /** Somebody who shares nothing asks who does. */
  readonly look: true;
  readonly shares: readonly Share[];
}

/** The part of one process. */
export interface Share {
  readonly pid: number;
  readonly permits: number;
}

/** Calls `onMessage` for each line of JSON that comes; a peer that sends anything else is cut off. */
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

/** Milliseconds of a clock that all processes of this machine share, and that never jumps. */
function machineTime(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

/** What a process finds: the owner's connection, or nobody, so that it is the owner itself. */
export type Found =
  | { readonly role: 'member'; readonly socket: Socket; readonly generation: number }
  | { readonly role: 'owner'; readonly claim: Claim };

/** What may still be used of the permits that a former owner has handed out. */
export interface FormerUse {
  readonly permits: number;
  /** Negative if it is over for so long. */
  readonly forMs: number;
}

/**
 * Where the processes of one user and machine that send to one account meet: a Unix socket in a folder of theirs. One of them owns
 * it. If the owner dies, its socket refuses connections; whoever notices claims the next generation of the socket.
 *
 * - `link` makes a socket that is listening already appear under its name, and fails if the name is taken: one process wins.
 * - Then the winner renames the former socket. From that moment the former owner, which may have been suspended, can see that it is not the
 *   owner any more ({@link Claim.confirm}).
 * - Before that, each owner has noted on its socket how many permits may be in use (as the time of access) and until when they may be used
 *   (as the time of modification). So a successor knows what it must wait for, even after a crash.
 */
export class MeetingPlace {
  readonly #folder: string;
  readonly #name: string;

  /** @param folder that only this user can enter */
  constructor(folder: string, account: Account) {
    this.#folder = folder;
    // Neither the tenant nor the address shows in a file name.
    this.#name = createHash('sha256')
      .update(`${language} ${accountKey(account)}`)
      .digest('hex')
      .slice(0, 24);
    if (this.#temporary().length > longestPath) throw new Error(`${folder} is too long for the path of a socket`);
  }

  /**
   * Finds the owner or becomes it.
   * @param silent the generation of an owner that does not answer: it is replaced
   * @param longestUseMs the longest time for which an owner lets permits be used
   */
  async enter(longestUseMs: number, silent?: number): Promise<Found> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const generations = await this.#generations();
      const last = generations.at(-1);
      const socket = last === undefined || last === silent ? 'refused' : await this.#connect(last);
      if (typeof socket === 'object') return { role: 'member', socket, generation: last as number };
      const claim = socket === 'refused' ? await this.#claim(generations, longestUseMs) : undefined;
      if (claim !== undefined) return { role: 'owner', claim };
      await sleep(Math.random() * retryMs);
    }
    throw new Error('the process that divides the limit cannot be reached');
  }

  /** Asks the owner who has which part, and takes none. Undefined if nobody answers soon. */
  async look(): Promise<readonly Share[] | undefined> {
    const last = (await this.#generations()).at(-1);
    const socket = last === undefined ? undefined : await this.#connect(last);
    if (typeof socket !== 'object') return undefined;
    try {
      return await new Promise((resolve) => {
        setTimeout(resolve, lookMs, undefined).unref();
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
        // The end of the connection says it all.
        socket.on('error', () => undefined);
        resolve(socket);
      });
      socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED' ? 'refused' : 'again'));
    });
  }

  async #claim(generations: readonly number[], longestUseMs: number): Promise<Claim | undefined> {
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
    const claim = new Claim(server, path);
    for (const each of generations) claim.former.push(await this.#depose(each, longestUseMs));
    await this.#sweep();
    return claim;
  }

  /** Ends the right of a former owner. @returns the permits that may still be used under it */
  async #depose(generation: number, longestUseMs: number): Promise<FormerUse> {
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

  /** Removes what processes have left behind that have met about another account, or have died in between. */
  async #sweep(): Promise<void> {
    const names = await readdir(this.#folder);
    const from = Math.floor(Math.random() * names.length);
    for (const name of names.slice(from, from + looksAtOnce)) {
      const path = join(this.#folder, name);
      const found = await stat(path).catch(() => undefined);
      // An owner that is idle for a day loses its socket; it notices before its next request.
      if (found !== undefined && Date.now() - found.ctimeMs > forgottenMs) await unlink(path).catch(() => undefined);
    }
  }
}

/** The ownership of a meeting place. */
export class Claim {
  readonly former: FormerUse[] = [];
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

  /** From now on, gets each process that connects, and at once those that already have. */
  onConnection(listener: (socket: Socket) => void): void {
    this.#server.removeAllListeners('connection');
    this.#server.on('connection', listener);
    for (const socket of this.#early) listener(socket);
    this.#early = [];
  }

  /** Notes what may be used from now on. @returns whether this process is still the owner */
  confirm({ permits, forMs }: FormerUse): boolean {
    try {
      utimesSync(this.#path, Math.ceil(permits), (machineTime() + forMs) / 1000);
      return statSync(this.#path).ino === this.#inode;
    } catch {
      return false;
    }
  }

  /** Gives the place up. @param unused whether no permit is in use: then nobody needs to know that it had an owner */
  async close(unused: boolean): Promise<void> {
    this.#server.close();
    for (const socket of this.#early) socket.destroy();
    if (unused && this.confirm({ permits: 0, forMs: 0 })) await unlink(this.#path).catch(() => undefined);
  }
}

/** The share of the Profile API's limit that another process of this user has; undefined if that cannot be found out. */
export async function readLimitShare(service: ServiceOptions, pid: number): Promise<LimitShare | undefined> {
  try {
    const place = new MeetingPlace(await runtimeFolder(), accountOf(service, 'profile'));
    const shares = await place.look();
    const own = shares?.find((share) => share.pid === pid);
    if (shares === undefined || own === undefined) return undefined;
    return { part: Math.min(1, own.permits / service.rateLimits.profile), otherProcesses: shares.length - 1 };
  } catch {
    // It is only shown.
    return undefined;
  }
}

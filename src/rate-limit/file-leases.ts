import { createHash, randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceOptions } from '../core/service-options.js';
import { accountKey, accountOf, type LimitShare } from './budget.js';
import { activeLeases, type LeaseRequest, type LeaseResponse, type LeaseStore, nextLeases } from './leases.js';

/** Processes with another version of the format do not find each other. */
const formatVersion = 4;
/** Tries of one report; another process is quicker in few of them. */
const attempts = 200;
/** Generations that stay, for processes that are about to read them. */
const generationsKept = 8;
/** A folder that is unchanged for this long belongs to processes that ended. */
const forgottenMs = 86_400_000;
/** How many folders each process checks. */
const checkedFolders = 8;

/** A folder on this machine that only this user can enter. */
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
  const stats = await lstat(path).catch(() => undefined);
  return stats?.isDirectory() === true && stats.uid === uid && (stats.mode & 0o077) === 0;
}

function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code;
}

/** An account's folder: a file for each generation, with the leases of all processes. */
class Generations {
  readonly #folder: string;

  /** @param folder of all accounts, which only this user can enter */
  constructor(folder: string, account: string) {
    // Neither the tenant nor the address shows in a name.
    const name = createHash('sha256').update(`${formatVersion} ${account}`).digest('hex').slice(0, 24);
    this.#folder = join(folder, name);
  }

  #path(generation: number): string {
    return join(this.#folder, String(generation));
  }

  /** In ascending order; none before the first report. */
  all(): number[] {
    try {
      const generations = readdirSync(this.#folder).filter((name) => /^\d+$/.test(name));
      return generations.map(Number).sort((a, b) => a - b);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    }
  }

  /** The leases of a generation; undefined if others have removed it. After a restart of the machine, none counts. */
  read(generation: number | undefined): LeaseResponse | undefined {
    // The machine's monotonic clock: the same for all processes.
    const nowMs = Math.floor(Number(process.hrtime.bigint() / 1_000_000n));
    const empty = { now: nowMs, answered: 0, refused: 0, pause_until: 0, members: {} };
    if (generation === undefined) return empty;
    try {
      const leases = JSON.parse(readFileSync(this.#path(generation), 'utf8')) as LeaseResponse;
      return leases.now > nowMs ? empty : { ...leases, now: nowMs };
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      // A file appears when it is complete: only a loss of power leaves another one, and then no process is left.
      if (error instanceof SyntaxError) return empty;
      throw error;
    }
  }

  /** Writes the generation, unless another process has. @returns whether it has been written */
  write(generation: number, leases: LeaseResponse): boolean {
    const temporary = join(this.#folder, `.${randomUUID()}`);
    try {
      if (generation === 1) mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(temporary, JSON.stringify(leases), { mode: 0o600 });
      linkSync(temporary, this.#path(generation));
      return true;
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
      return false;
    } finally {
      rmSync(temporary, { force: true });
    }
  }

  removeUntil(generation: number, all: readonly number[]): void {
    for (const other of all) if (other <= generation) rmSync(this.#path(other), { force: true });
  }
}

/** Removes folders of accounts that no process has used for long, and files of earlier versions: all in time, at a constant cost. */
function removeForgotten(folder: string): void {
  const names = readdirSync(folder);
  const from = Math.floor(Math.random() * names.length);
  for (const path of names.slice(from, from + checkedFolders).map((name) => join(folder, name))) {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats !== undefined && Date.now() - stats.ctimeMs > forgottenMs) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * Leases in files, for the processes of one user on one machine. Each report writes the next generation of the account's file. `link`
 * makes it appear complete, and fails if another process was quicker: then the report begins again. So a process that is killed or
 * suspended at any moment leaves a state from which the others continue. All times are of the machine's monotonic clock.
 */
export class FileLeases implements LeaseStore {
  readonly reportsPerSecond = 200;
  readonly #folder: () => Promise<string>;
  readonly notice: (line: string) => void;
  #opened: Promise<string> | undefined;

  constructor(notice: (line: string) => void, folder: () => Promise<string> = runtimeFolder) {
    this.notice = notice;
    this.#folder = folder;
  }

  async report(request: LeaseRequest): Promise<LeaseResponse> {
    this.#opened ??= this.#open();
    const generations = new Generations(await this.#opened, request.account);
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const all = generations.all();
      const last = all.at(-1);
      const leases = generations.read(last);
      if (leases === undefined) continue;
      // Written in an attempt before, from which others have continued.
      if (leases.members[request.member]?.number === request.number) return leases;
      const next = nextLeases(leases, request);
      const generation = (last ?? 0) + 1;
      if (!generations.write(generation, next)) continue;
      // Of a process that leaves one file is enough: a process that is about to read an earlier one begins again.
      generations.removeUntil(generation - (request.leaseMs === 0 ? 1 : generationsKept), all);
      // A process that was suspended may have written a generation that the others had already removed.
      if (generations.all().at(-1) === generation) return next;
    }
    throw new Error('other processes write the shared state without end');
  }

  async close(): Promise<void> {}

  async #open(): Promise<string> {
    const folder = await this.#folder();
    removeForgotten(folder);
    return folder;
  }
}

/** The share of the Profile API's limit that another process of this user has; undefined if that cannot be found out. */
export async function readLimitShare(
  service: Pick<ServiceOptions, 'baseUrl' | 'tenantId' | 'rateLimits'>,
  pid: number,
  folder = runtimeFolder,
): Promise<LimitShare | undefined> {
  try {
    const generations = new Generations(await folder(), accountKey(accountOf(service, 'profile')));
    const leases = generations.read(generations.all().at(-1));
    const active = Object.entries(leases === undefined ? {} : activeLeases(leases));
    const [, lease] = active.find(([member]) => member.startsWith(`${pid}.`)) ?? [];
    if (lease === undefined) return undefined;
    return { part: Math.min(1, lease.part / service.rateLimits.profile), otherProcesses: active.length - 1 };
  } catch {
    // It is only shown.
    return undefined;
  }
}

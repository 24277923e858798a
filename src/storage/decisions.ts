import { createHmac, randomBytes } from 'node:crypto';
import { open, readFile, rm, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { sleep } from '../core/clock.js';
import { openFlags, readStateFile, type StateFile, syncFolder, writeStateFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { lineContent, sealedLine } from '../core/sealed-json.js';
import { z } from '../core/zod.js';
import { readErasures } from './erasures.js';
import type { JobLayout } from './layout.js';
import { namesIn } from './storage.js';

const placeSchema = z.object({
  destination: z.string(),
  stream: z.string(),
  /** Whether the configuration had the destination, so that a delivery will erase the rows. */
  configured: z.boolean(),
  /** It gets no deletes, so that the person must be erased there by hand. */
  untold: z.literal(true).optional(),
});

/** A stream at a destination that had rows of erased people. */
export type ErasurePlace = z.infer<typeof placeSchema>;

const decisionSchema = z.object({
  /** ISO 8601, UTC. */
  at: z.string(),
  /** The user of the operating system. */
  user: z.string(),
  /**
   * `forget`: an erasure begins, and the keys are left out from now on; `erased`: it is done in the storage folder; `delivered`: at a
   * destination; `removed`: a stream or destination was taken out; `allow`: the keys may come back; the others are decisions about runs
   * and tables.
   */
  action: z.enum(['forget', 'erased', 'delivered', 'removed', 'allow', 'approve', 'discard', 'adopt']),
  reason: z.string().optional(),
  /** The number of the erasure that it is about. */
  erasure: z.number().optional(),
  /** Keyed hashes of each key: as the user wrote it, and as rows have it. */
  keys: z.array(z.array(z.string())).optional(),
  /** Whether the keys are left out of every stream, of later ones too. */
  everywhere: z.boolean().optional(),
  streams: z
    .array(z.object({ name: z.string(), rows: z.number().optional(), history: z.number().optional() }))
    .optional(),
  places: z.array(placeSchema).optional(),
  run_id: z.string().optional(),
});

/** One line of the log of decisions. It has no key and no value of a row. */
export type Decision = z.infer<typeof decisionSchema>;

const lineSchema = decisionSchema.extend({ mac: z.string() });

const headSchema = z.object({
  version: z.literal(1),
  /** Of the keyed hashes and of the chain, in hex. It never leaves this file. */
  key: z.string().regex(/^[0-9a-f]{64}$/),
  /** Lines of the log, or fewer if the last append was cut short. */
  lines: z.number(),
  mac: z.string(),
});

const hint =
  'restore both from a backup; without one, move them away and forget each person again with --even-if-absent: a new log begins';

const headFile: StateFile<z.infer<typeof headSchema>> = {
  schema: headSchema,
  what: 'key of the log of decisions',
  hint,
};

const lockPatienceMs = 10_000;
const lockPauseMs = 20;

/**
 * The log of a job's decisions about people and runs: `.cdsync/decisions.jsonl`, one line each, only ever appended to. Each line has a
 * MAC over itself and the line before, with the key in `.cdsync/decisions.json`, which also counts the lines: one that is lost, altered or
 * moved is reported. It also says which keys are left out when the service returns them.
 */
export class DecisionLog {
  readonly decisions: readonly Decision[];
  readonly #key: Buffer | undefined;

  private constructor(decisions: readonly Decision[], key: Buffer | undefined) {
    this.decisions = decisions;
    this.#key = key;
  }

  /**
   * Reads the log; an empty one if nothing was ever decided.
   * @param expected whether the store says that rows were erased: then there must be a log, and not one that another decision has begun since
   * @throws {CdsyncError} `state_unreadable` if it was altered, or is lost
   */
  static async read(layout: JobLayout, { expected = false }: { expected?: boolean } = {}): Promise<DecisionLog> {
    const { head, lines } = await readLines(layout);
    if (!lines.some(({ action }) => action === 'forget') && (expected || (await hasErasures(layout))))
      throw unreadable(layout, 'is lost, although people were forgotten here');
    return new DecisionLog(
      lines.map(({ mac: _, ...decision }) => decision),
      head && Buffer.from(head.key, 'hex'),
    );
  }

  /** The key of the hashes, for the database; undefined if there is no log. */
  get hashKey(): Buffer | undefined {
    return this.#key;
  }

  /** The hashes of keys that are left out of a stream. */
  forgotten(stream: string): string[] {
    const left = new Set<string>();
    for (const { action, keys = [], everywhere, streams = [] } of this.decisions) {
      const all = keys.flat();
      if (action === 'allow') for (const hash of all) left.delete(hash);
      if (action === 'forget' && (everywhere || streams.some(({ name }) => name === stream)))
        for (const hash of all) left.add(hash);
    }
    return [...left];
  }

  /** The hashes of all forms of the people whose keys include one of these texts. */
  formsOf(texts: readonly string[]): string[][] {
    const wanted = new Set(texts.map((text) => this.hash(text)));
    const groups = this.decisions.flatMap(({ action, keys = [] }) => (action === 'forget' ? keys : []));
    return groups.filter((forms) => forms.some((form) => wanted.has(form)));
  }

  hash(text: string): string {
    return hashOf(this.#key ?? Buffer.alloc(0), text);
  }

  /** Whether an erasure of one of these texts has begun here and was cut short. */
  isUnfinished(texts: readonly string[]): boolean {
    const done = new Set(this.decisions.flatMap(({ action, erasure }) => (action === 'erased' ? [erasure] : [])));
    const wanted = new Set(texts.map((text) => this.hash(text)));
    return this.decisions.some(
      ({ action, erasure, keys = [] }) =>
        action === 'forget' && !done.has(erasure) && keys.flat().some((hash) => wanted.has(hash)),
    );
  }
}

function hashOf(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

function macOf(key: Buffer, before: string, decision: Decision): string {
  return hashOf(key, `${before}\n${JSON.stringify(decisionSchema.parse(decision))}`);
}

function unreadable(layout: JobLayout, what: string): CdsyncError {
  return new CdsyncError(`the log of decisions (${layout.decisions}, ${layout.decisionsHead}) ${what}`, {
    code: 'state_unreadable',
    hint,
  });
}

async function hasErasures(layout: JobLayout): Promise<boolean> {
  for (const stream of await namesIn(layout.erasuresFolder))
    if ((await readErasures(layout, stream)).length > 0) return true;
  return false;
}

type Line = z.infer<typeof lineSchema>;
type Head = z.infer<typeof headSchema>;

async function readLines(layout: JobLayout): Promise<{ head: Head | undefined; lines: readonly Line[] }> {
  const head = await readStateFile(layout.decisionsHead, headFile);
  const text = await readFile(layout.decisions, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (head === undefined && text === undefined) return { head, lines: [] };
  if (head === undefined) throw unreadable(layout, 'has lost its key');
  // A last line without an end is one that a crash has torn.
  const texts = (text ?? '').split('\n').slice(0, -1);
  const key = Buffer.from(head.key, 'hex');
  const lines: Line[] = [];
  for (const [index, text] of texts.entries())
    lines.push(checkedLine(layout, key, lines.at(-1)?.mac ?? '', text, index));
  const counted = head.lines === 0 ? '' : lines[head.lines - 1]?.mac;
  if (counted !== head.mac) throw unreadable(layout, `has ${lines.length} lines, and ${head.lines} were written`);
  return { head, lines };
}

function checkedLine(layout: JobLayout, key: Buffer, before: string, text: string, index: number): Line {
  try {
    const { mac, ...decision } = lineSchema.parse(lineContent(text, index + 1));
    if (mac === macOf(key, before, decision)) return { ...decision, mac };
  } catch {
    // The same as a MAC that differs.
  }
  throw unreadable(layout, `was altered in line ${index + 1}`);
}

/** The user that the operating system names. */
function currentUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/**
 * Appends decisions, which may name keys: only their hashes are written. Beside another process it waits for its turn.
 * @param make gets the hash of a text
 * @throws {CdsyncError} `state_unreadable` if the log was altered: it is not continued
 */
export async function recordDecisions(
  layout: JobLayout,
  nowMs: number,
  make: (hash: (text: string) => string) => readonly Omit<Decision, 'at' | 'user'>[],
): Promise<void> {
  await withLogLock(layout, async () => {
    const { head: sealedHead, lines } = await readLines(layout);
    const head = sealedHead ?? { version: 1 as const, key: randomBytes(32).toString('hex'), lines: 0, mac: '' };
    const key = Buffer.from(head.key, 'hex');
    if (sealedHead === undefined) await writeStateFile(layout.decisionsHead, head);
    const about = { at: new Date(nowMs).toISOString(), user: currentUser() };
    let mac = lines.at(-1)?.mac ?? '';
    const texts = make((text) => hashOf(key, text)).map((rest, index) => {
      const decision = decisionSchema.parse({ ...about, ...rest });
      mac = macOf(key, mac, decision);
      return `${sealedLine({ ...decision, mac }, lines.length + index + 1)}\n`;
    });
    if (texts.length === 0) return;
    const handle = await open(layout.decisions, openFlags.append, 0o600);
    try {
      // Of a line that a crash tore, nothing stays.
      const whole = await readFile(layout.decisions);
      await handle.truncate(whole.lastIndexOf(0x0a) + 1);
      await handle.writeFile(texts.join(''));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await syncFolder(layout.private);
    await writeStateFile(layout.decisionsHead, { ...head, lines: lines.length + texts.length, mac });
  });
}

/** A delivery may append beside a run: both hold the log for some milliseconds. */
async function withLogLock<T>(layout: JobLayout, work: () => Promise<T>): Promise<T> {
  const path = layout.decisionsLock;
  let seen: { readonly lock: string; readonly since: number } | undefined;
  for (;;) {
    const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
      return undefined;
    });
    if (handle !== undefined) {
      try {
        return await work();
      } finally {
        await handle.close();
        await rm(path, { force: true });
      }
    }
    const found = await stat(path).catch(() => undefined);
    const now = performance.now();
    const lock = `${found?.ino} ${found?.mtimeMs}`;
    if (lock !== seen?.lock) seen = { lock, since: now };
    // If the clock was set back, the lock is of the future: then it is as old as this process has seen it.
    const age = found === undefined ? 0 : Math.max(Date.now() - found.mtimeMs, now - seen.since);
    // Its process was killed.
    if (age > lockPatienceMs) await rm(path, { force: true });
    else await sleep(lockPauseMs);
  }
}

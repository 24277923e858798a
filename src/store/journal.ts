import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { type PartRecord, partRecordSchema } from '../rows/part.js';
import { columnsSchema } from '../rows/stored-columns.js';
import { syncFolder } from './durable.js';

export const cursorSchema = z.object({
  /** Asks for the next page; null before the first page and after the last. */
  token: z.string().nullable(),
  /** When the service gave the token: ISO 8601, our clock. */
  issued_at: z.string().nullable(),
  /** Pages read by this attempt. */
  pages: z.number(),
  /** Counts from 1; a partition whose token died starts again as its next attempt. */
  attempt: z.number(),
  /** The last page said that it was the last. */
  done: z.boolean(),
});

/** How far one partition has been read, durably. */
export type PartitionCursor = z.infer<typeof cursorSchema>;

/** Before the first page. */
export const firstCursor: PartitionCursor = { token: null, issued_at: null, pages: 0, attempt: 1, done: false };

export const countersSchema = z.object({
  requests: z.number(),
  retries: z.number(),
  throttled: z.number(),
  bytes: z.number(),
  pages: z.number(),
  read: z.number(),
  kept: z.number(),
  rejected: z.number(),
  replaced: z.number(),
  /** Asked for by key, and not there. */
  missing: z.number().default(0),
  milliseconds: z.number(),
});

/** What a stream's extraction has done so far, earlier processes included. */
export type Counters = z.infer<typeof countersSchema>;

/** A part as a line names it: its columns are left out where they are those of the part before. */
const journaledPart = partRecordSchema.extend({ columns: columnsSchema.optional() });

const startSchema = z.object({
  type: z.literal('start'),
  version: z.literal(1),
  stream: z.string(),
  /** Of the request and of everything that shapes the parts; a journal of another one is of no use. */
  fingerprint: z.string(),
  started_at: z.string(),
  /** Total before the read, where it was asked for. */
  total: z.number().nullable(),
  /** Names of the partitions, in order; one unnamed partition is the whole. */
  partitions: z.array(z.string()),
});
const checkpointSchema = z.object({
  type: z.literal('checkpoint'),
  part: journaledPart.nullable(),
  cursors: z.record(z.string(), cursorSchema),
  counters: countersSchema,
});
/** The rows that earlier attempts of the partition have left in parts no longer count. */
const attemptSchema = z.object({ type: z.literal('attempt'), partition: z.string(), attempt: z.number() });
/** The reading failed by what it read; it is not to be continued. */
const failedSchema = z.object({ type: z.literal('failed'), code: z.string() });

const entrySchema = z.discriminatedUnion('type', [startSchema, checkpointSchema, attemptSchema, failedSchema]);
export type JournalEntry = z.infer<typeof entrySchema>;
type JournalStart = z.infer<typeof startSchema>;

/** What a journal says, its entries put together. */
export interface JournalState {
  readonly start: JournalStart;
  readonly parts: PartRecord[];
  readonly cursors: Map<string, PartitionCursor>;
  readonly counters: Counters;
  readonly failed: string | undefined;
  /** Bytes of whole lines; what follows is a line that a crash tore. */
  readonly length: number;
}

export const noCounters: Counters = {
  requests: 0,
  retries: 0,
  throttled: 0,
  bytes: 0,
  pages: 0,
  read: 0,
  kept: 0,
  rejected: 0,
  replaced: 0,
  missing: 0,
  milliseconds: 0,
};

function foreign(path: string, line: number, cause: unknown): CdsyncError {
  return new CdsyncError(`${path}:${line}: not a line of a cdsync journal`, {
    code: 'state_unreadable',
    hint: 'the file was changed or damaged; remove the folder it lies in to start this stream anew',
    cause,
  });
}

function parseEntry(path: string, number: number, line: string): JournalEntry {
  try {
    return entrySchema.parse(JSON.parse(line));
  } catch (error) {
    throw foreign(path, number, error);
  }
}

function replay(path: string, entries: JournalEntry[], length: number): JournalState | undefined {
  const [start] = entries;
  if (start === undefined) return undefined;
  if (start.type !== 'start') throw foreign(path, 1, undefined);
  const parts: JournalState['parts'] = [];
  const cursors = new Map<string, PartitionCursor>();
  let counters = noCounters;
  let failed: string | undefined;
  for (const entry of entries) {
    if (entry.type === 'checkpoint') {
      counters = entry.counters;
      for (const [partition, cursor] of Object.entries(entry.cursors)) cursors.set(partition, cursor);
      if (entry.part !== null) {
        const columns = entry.part.columns ?? parts.at(-1)?.columns;
        if (columns === undefined) throw foreign(path, 1, undefined);
        parts.push({ ...entry.part, columns });
      }
    } else if (entry.type === 'attempt') {
      cursors.set(entry.partition, { ...firstCursor, attempt: entry.attempt });
    } else if (entry.type === 'failed') {
      failed = entry.code;
    }
  }
  return { start, parts, cursors, counters, failed, length };
}

/**
 * The checkpoints of one stream in one run: a file of JSON lines, each synced before anything relies on it. A part is
 * named in it only after the part itself is safe, so whatever the journal names exists.
 */
export class Journal {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  static path(streamFolder: string): string {
    return join(streamFolder, 'journal.jsonl');
  }

  /**
   * What the journal in a folder says; undefined where there is none, or none with a first line. A last line without
   * its newline was torn by a crash and does not count.
   * @throws {CdsyncError} `state_unreadable` where a whole line is not a journal's.
   */
  static async read(streamFolder: string): Promise<JournalState | undefined> {
    const path = Journal.path(streamFolder);
    const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (bytes === undefined) return undefined;
    const length = bytes.lastIndexOf(0x0a) + 1;
    const lines = bytes.subarray(0, length).toString('utf8').split('\n').slice(0, -1);
    return replay(
      path,
      lines.map((line, index) => parseEntry(path, index + 1, line)),
      length,
    );
  }

  /** The same, where a damaged one is of no more use than none. */
  static async readUsable(
    streamFolder: string,
    damaged: (error: CdsyncError) => void = () => undefined,
  ): Promise<JournalState | undefined> {
    try {
      return await Journal.read(streamFolder);
    } catch (error) {
      if (!(error instanceof CdsyncError) || error.code !== 'state_unreadable') throw error;
      damaged(error);
      return undefined;
    }
  }

  /** Opens the journal for appending, cut to its `length` whole bytes first. */
  static async open(streamFolder: string, length: number): Promise<Journal> {
    const handle = await open(Journal.path(streamFolder), 'a', 0o600);
    await handle.truncate(length);
    await handle.sync();
    await syncFolder(streamFolder);
    return new Journal(handle);
  }

  /** Appends one entry; on return it is durable. Entries must be appended one at a time. */
  async append(entry: JournalEntry): Promise<void> {
    await this.#handle.appendFile(`${JSON.stringify(entry)}\n`);
    await this.#handle.datasync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { columnsSchema } from '../columns/columns.js';
import { openFlags, syncFolder } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { lineContent, sealedLine } from '../core/sealed-json.js';
import { storedName } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import { type PartRecord, partRecordSchema } from './part.js';

export const cursorSchema = z.object({
  /** Asks for the next page; null before the first page and after the last. */
  token: z.string().nullable(),
  /** When the service gave the token: ISO 8601, our clock. */
  issued_at: z.string().nullable(),
  /** Pages read by this attempt. */
  pages: z.number(),
  /** Counts from 1; if a token expires, the partition starts again as its next attempt. */
  attempt: z.number(),
  /** Whether the service has said that the last page read is the last. */
  done: z.boolean(),
  /** Pages in a row without a record, just before the last page read; left out: none. */
  empty_pages: z.number().optional(),
  /** In a pass over the whole list after partitions: the number of different keys that the partitions returned. */
  partition_keys: z.number().optional(),
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
  /** Records that were looked up by key and that the service does not have. */
  missing: z.number(),
  /** Cache hits: records that were not converted. */
  cached: z.number(),
  milliseconds: z.number(),
});

/** The counters of a stream's extraction so far, earlier processes included. */
export type Counters = z.infer<typeof countersSchema>;

/** A part in a line of the journal; its columns are left out if they equal those of the part before. */
const journaledPart = partRecordSchema.extend({ columns: columnsSchema.optional() });

export const journalVersion = 3;

const startSchema = z.object({
  type: z.literal('start'),
  /** Rises with each change of the entries: a journal of another version is not resumed. */
  version: z.literal(journalVersion),
  stream: z.string(),
  /** Hash of the request and of everything that shapes the parts; a journal with another one cannot be resumed. */
  fingerprint: z.string(),
  started_at: z.string(),
  /** Total before the read, if it was asked for. */
  total: z.number().nullable(),
  /** Names of the partitions, in order; a single partition with an empty name is the whole stream. */
  partitions: z.array(z.string()),
  /** Given if records are hashed. */
  recognition: z
    .object({
      /** Id of the cache file in the stream's folder; null if none could be used. */
      base: storedName.nullable(),
      /** Of the hash, in hex. */
      secret: z.string(),
    })
    .optional(),
});
const checkpointSchema = z.object({
  type: z.literal('checkpoint'),
  part: journaledPart.nullable(),
  cursors: z.record(z.string(), cursorSchema),
  counters: countersSchema,
  /** Length of the log of cache hits; left out if there is none. */
  seen: z.number().optional(),
});
/** A new attempt at a partition: rows that earlier attempts left in parts no longer count. */
const attemptSchema = z.object({ type: z.literal('attempt'), partition: z.string(), attempt: z.number() });
/** Counts of all requests, those after the last checkpoint too. */
const spentSchema = z.object({
  type: z.literal('spent'),
  counters: countersSchema.pick({ requests: true, retries: true, throttled: true, bytes: true, milliseconds: true }),
});
/** The extraction failed because of the data that it read; it must not be resumed. */
const failedSchema = z.object({ type: z.literal('failed'), code: z.string() });

const entrySchema = z.discriminatedUnion('type', [
  startSchema,
  checkpointSchema,
  attemptSchema,
  spentSchema,
  failedSchema,
]);
export type JournalEntry = z.infer<typeof entrySchema>;
type JournalStart = z.infer<typeof startSchema>;

/** The state that a journal's entries add up to. */
export interface JournalState {
  readonly start: JournalStart;
  readonly parts: PartRecord[];
  readonly cursors: Map<string, PartitionCursor>;
  readonly counters: Counters;
  readonly failed: string | undefined;
  /** Length of the log of cache hits, up to the last checkpoint. */
  readonly seen: number;
  /** Bytes of whole lines; any further bytes are a line that a crash has torn. */
  readonly length: number;
  /** Number of whole lines. */
  readonly lines: number;
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
  cached: 0,
  milliseconds: 0,
};

function foreign(path: string, line: number, cause: unknown): CdsyncError {
  return new CdsyncError(`${path}:${line}: not a line of a cdsync journal`, {
    code: 'state_unreadable',
    hint: 'the file was changed or damaged; remove its folder to read this stream from the start',
    cause,
  });
}

function parseEntry(path: string, number: number, line: string): JournalEntry {
  try {
    return entrySchema.parse(lineContent(line, number));
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
  let seen = 0;
  for (const entry of entries) {
    if (entry.type === 'checkpoint') {
      counters = entry.counters;
      seen = entry.seen ?? seen;
      for (const [partition, cursor] of Object.entries(entry.cursors)) cursors.set(partition, cursor);
      if (entry.part !== null) {
        const columns = entry.part.columns ?? parts.at(-1)?.columns;
        if (columns === undefined) throw foreign(path, 1, undefined);
        parts.push({ ...entry.part, columns });
      }
    } else if (entry.type === 'attempt') {
      cursors.set(entry.partition, { ...firstCursor, attempt: entry.attempt });
    } else if (entry.type === 'spent') {
      counters = { ...counters, ...entry.counters };
    } else if (entry.type === 'failed') {
      failed = entry.code;
    }
  }
  return { start, parts, cursors, counters, failed, seen, length, lines: entries.length };
}

/**
 * The checkpoints of one stream in one run: a file of JSON lines, each synced before anything relies on it. A line names a
 * part only after the part itself is durable, so every part that the journal names exists.
 */
export class Journal {
  readonly #handle: FileHandle;
  #lines: number;

  private constructor(handle: FileHandle, lines: number) {
    this.#handle = handle;
    this.#lines = lines;
  }

  static path(streamFolder: string): string {
    return join(streamFolder, 'journal.jsonl');
  }

  /**
   * The state of the journal in a folder; undefined if there is no journal, or none with a whole line. A last line without a
   * newline was torn by a crash and does not count.
   * @throws {CdsyncError} `state_unreadable` if a whole line is not the one that was written there.
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

  /** The same, but a damaged journal counts as none; `damaged` is called with the error. */
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

  /** Cuts the journal to its whole lines, and opens it for appending. */
  static async open(
    streamFolder: string,
    { length, lines }: Pick<JournalState, 'length' | 'lines'> = { length: 0, lines: 0 },
  ): Promise<Journal> {
    const handle = await open(Journal.path(streamFolder), openFlags.append, 0o600);
    await handle.truncate(length);
    await handle.sync();
    await syncFolder(streamFolder);
    return new Journal(handle, lines);
  }

  /** Appends one entry; on return it is durable. Entries must be appended one at a time. */
  async append(entry: JournalEntry): Promise<void> {
    this.#lines += 1;
    await this.#handle.appendFile(`${sealedLine(entry, this.#lines)}\n`);
    await this.#handle.datasync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

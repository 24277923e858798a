import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { columnFieldsSchema, columnsSchema } from '../columns/columns.js';
import { readStateIfUsable, sha256OfFile, statOrUndefined, writeStateFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { storedName } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import { countersSchema } from './journal.js';
import type { JobLayout } from './layout.js';
import { partSchema } from './part.js';
import { runFolders } from './storage.js';
import { noUnchangedRows, unchangedRowsSchema } from './unchanged-rows.js';

const finding = z.object({
  guard: z.string(),
  message: z.string(),
  figures: z.string().optional(),
  of: z.string().optional(),
  measure: z.number().optional(),
});
const span = z.object({ from: z.string(), to: z.string() });

const nextCache = z.object({
  fingerprint: z.string(),
  secret: z.string(),
  separator: z.object({ bytes: z.string(), before: z.number(), next: z.number() }).nullable(),
  verifiedAt: z.string().nullable(),
});

/** Some names differ from those in code: earlier builds wrote them, and their held results must stay readable. */
const heldSchema = z.object({
  version: z.literal(1),
  stream: storedName,
  run_id: storedName,
  started_at: z.string(),
  findings: z.array(finding),
  /** The snapshot that the guards compared it with; null if there was none. */
  previous: z.object({ run_id: z.string(), sequence: z.number() }).nullable(),
  definition: z.record(z.string(), z.string()),
  /** A digest of the stream's configuration; results that an earlier build held have none, and count as held under another one. */
  configured: z.string().optional(),
  key: z.array(z.string()),
  brings: z.enum(['everything', 'additions']),
  covered: z.array(span).optional(),
  /** What its query read; left out if it has none. */
  reading: z.object({ fingerprint: z.string(), inputs: z.record(z.string(), z.string()) }).optional(),
  read: z.object({
    parts: z.array(partSchema),
    columns: columnsSchema,
    leftOut: columnFieldsSchema.default([]),
    counters: countersSchema,
    dropped: z.array(z.object({ part: z.number(), from: z.number(), to: z.number() })),
    rejects: z.array(z.string()),
    standing: unchangedRowsSchema.default(noUnchangedRows),
  }),
  passes: z
    .array(z.object({ reason: z.enum(['parts', 'total', 'deletes', 'types']), records: z.number(), added: z.number() }))
    .default([]),
  /** The record cache of the next run, after an approval; left out if there is none. */
  next_known: nextCache.optional(),
  /** SHA-256 of the Parquet files beside it; parts have their own. */
  files: z.record(storedName, z.string()).default({}),
});

/** A stream that a guard has held: everything that its commit needs, except the parts in the same folder. */
export type HeldStream = z.infer<typeof heldSchema>;

function heldPath(layout: JobLayout, runId: string, stream: string): string {
  return join(layout.streamRun(runId, stream), 'held.json');
}

/** The rejects of a held stream as `cdsync.rejects` would show them; there is none without rejects. */
export function heldRejectsPath(layout: JobLayout, runId: string, stream: string): string {
  return join(layout.streamRun(runId, stream), 'held.rejects.jsonl');
}

/** @param held with the checksums of its files if it was written before: all but those of its changes still hold */
export async function writeHeld(
  layout: JobLayout,
  held: Omit<HeldStream, 'files'> & Partial<Pick<HeldStream, 'files'>>,
): Promise<void> {
  const folder = layout.streamRun(held.run_id, held.stream);
  const names = (await readdir(folder)).filter((name) => /\.(parquet|keys)$/.test(name));
  const sumOf = async (name: string) =>
    (isHeldChanges(name) ? undefined : held.files?.[name]) ?? sha256OfFile(join(folder, name));
  const files = await Promise.all(names.map(async (name) => [name, await sumOf(name)]));
  await writeStateFile(heldPath(layout, held.run_id, held.stream), { ...held, files: Object.fromEntries(files) });
}

/** A stream that a run has held; undefined if the run has not held it, or if the file cannot be read: see {@link damagedHeld}. */
export function readHeld(layout: JobLayout, runId: string, stream: string): Promise<HeldStream | undefined> {
  return readStateIfUsable(heldPath(layout, runId, stream), heldSchema);
}

/** The held data of these streams, the oldest first. */
export async function heldStreams(layout: JobLayout, streams: readonly string[]): Promise<HeldStream[]> {
  const listed: HeldStream[] = [];
  for (const runId of await runFolders(layout)) {
    for (const stream of streams) {
      const held = await readHeld(layout, runId, stream);
      if (held !== undefined) listed.push(held);
    }
  }
  return listed;
}

/** A stream that a run has held, but whose file cannot be read. */
export interface DamagedHeld {
  readonly stream: string;
  readonly run_id: string;
  readonly path: string;
}

/** The held data of these streams that cannot be read, the oldest first. The next run reads such a stream to its end again. */
export async function damagedHeld(layout: JobLayout, streams: readonly string[]): Promise<DamagedHeld[]> {
  const damaged: DamagedHeld[] = [];
  for (const runId of await runFolders(layout)) {
    for (const stream of streams) {
      const path = heldPath(layout, runId, stream);
      if ((await statOrUndefined(path)) !== undefined && (await readHeld(layout, runId, stream)) === undefined)
        damaged.push({ stream, run_id: runId, path });
    }
  }
  return damaged;
}

/** Whether a file beside `held.json` has changes. */
export function isHeldChanges(name: string): boolean {
  return /^changes(-\d+)?\.parquet$/.test(name);
}

/**
 * The rows of a damaged file would count as read.
 * @param isRead whether the caller reads a file of this name
 * @throws {CdsyncError} `state_unreadable`
 */
export async function assertHeldFiles(
  layout: JobLayout,
  { stream, run_id, files }: HeldStream,
  isRead: (name: string) => boolean,
): Promise<void> {
  for (const [name, sha256] of Object.entries(files).filter(([file]) => isRead(file))) {
    const path = join(layout.streamRun(run_id, stream), name);
    if ((await sha256OfFile(path).catch(() => undefined)) !== sha256) throw heldUnreadable({ stream, run_id, path });
  }
}

export function heldUnreadable({ stream, run_id: runId, path }: DamagedHeld): CdsyncError {
  return new CdsyncError(`the held result of run ${runId} is damaged: ${path} cannot be read`, {
    code: 'state_unreadable',
    stream,
    hint: `discard it and run again: cdsync discard ${runId}`,
  });
}

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readStateFile, type StateFile, writeStateFile } from '../../core/durable.js';
import { storedName, storedPath } from '../../core/stored-texts.js';
import { z } from '../../core/zod.js';
import { contentSchema, snapshotSchema } from '../records/position.js';

const knownSchema = z.object({ name: storedPath, bytes: z.number(), sha256: z.string() });

/** A file of a try: the place may have it, and files beside it. */
export const triedSchema = knownSchema.extend({ companions: z.array(storedPath).default([]) });

const madeSchema = triedSchema.extend({
  /** The name of its bytes in the storage folder. */
  local: storedName,
  rows: z.number(),
  clear_sha256: z.string(),
  /** Whether a try to hand it over has begun: the place may have it. */
  is_tried: z.boolean(),
  /** Where all bytes were under a temporary name; null if they were not. */
  uploaded_to: z.object({ name: storedPath, place: z.string() }).nullable().default(null),
  is_sent: z.boolean(),
});
export type PlannedFile = z.infer<typeof madeSchema>;
export const notTried = { companions: [], is_tried: false, uploaded_to: null, is_sent: false };

/** The plan of the next files: written before the first byte is made, and the same in each try. */
const planSchema = z.object({
  ...contentSchema.shape,
  /** Which hand-over of the stream it is, from 1, and which of the day. */
  number: z.number(),
  day_number: z.number(),
  /** When it was planned: milliseconds since 1970. */
  at: z.number(),
  /** The old name that is written again, if one was asked for. */
  name: storedPath.optional(),
  /** Null until all of them are made. */
  files: z.array(madeSchema).nullable(),
  /** What earlier tries of other bytes may have left under these names. */
  former: z.array(triedSchema),
  /** The snapshot of the first of these tries: the receiver may have its rows. */
  tried: snapshotSchema.optional(),
});
export type FilePlan = z.infer<typeof planSchema>;

const handedSchema = knownSchema.extend({
  /** Of its hand-over. */
  number: z.number(),
  rows: z.number(),
  /** When it was planned, and when it was handed over. */
  at: z.number(),
  handed_at: z.number().optional(),
  companions: z.array(storedPath),
  /** Whether it may have rows of people who were forgotten since, and could not be removed yet. */
  is_owed: z.boolean().optional(),
});
export type HandedFile = z.infer<typeof handedSchema>;

const stateSchema = z.object({
  version: z.literal(1),
  /** Of the last hand-over, and on its day. */
  number: z.number(),
  day: z.string(),
  day_number: z.number(),
  /** The snapshot that was handed over, and the rules of it. */
  last: z.object(contentSchema.shape).nullable(),
  plan: planSchema.nullable(),
  /** The files that were handed over, and that cdsync did not remove. */
  files: z.array(handedSchema),
  /** Number of the last erasure after which files were removed. */
  removed_for: z.number(),
});
export type ExportState = z.infer<typeof stateSchema>;

const exportStateHint =
  'restore it; or remove its folder, then start from here with cdsync push --adopt, or write everything with cdsync push --full';
const stateFile: StateFile<ExportState> = { schema: stateSchema, hint: exportStateHint };

const empty: ExportState = {
  ...{ version: 1, number: 0, day: '', day_number: 0, last: null, plan: null, files: [], removed_for: 0 },
};

/** The state of a stream's files, by its folder. @throws {CdsyncError} `state_unreadable` */
export async function readExportState(folder: string): Promise<ExportState> {
  return (await readStateFile(join(folder, 'export.json'), stateFile)) ?? empty;
}

export async function writeExportState(folder: string, state: ExportState): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeStateFile(join(folder, 'export.json'), state);
}

/** The folder of the bytes that wait to be handed over. */
export function plannedFolder(folder: string): string {
  return join(folder, 'planned');
}

/** The content of a plan's files. */
export function contentOf(plan: FilePlan): NonNullable<ExportState['last']> {
  const { store_id, sequence, run_id, key, columns, erased, base, is_whole } = plan;
  return { store_id, sequence, run_id, key, columns, erased, base, is_whole };
}

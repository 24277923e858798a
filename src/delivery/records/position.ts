import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readStateFile, type StateFile, writeStateFile } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { z } from '../../core/zod.js';
import type { Feed } from '../../snapshot/feed.js';
import { lineageGap } from '../table/decide.js';

/** A snapshot of a stream. The run distinguishes it from another one with the same number, of a restored storage folder. */
export const snapshotSchema = z.object({ store_id: z.string(), sequence: z.number(), run_id: z.string() });
export type SnapshotId = z.infer<typeof snapshotSchema>;

/** The rules and the key by which records were made. */
const madeBySchema = z.object({
  /** The stream's key columns. */
  key: z.array(z.string()),
  /** The columns of a record: path in the stream, fingerprint of name and rules. */
  columns: z.array(z.tuple([z.string(), z.string()])),
  /** Number of the last erasure. */
  erased: z.number(),
});
export type MadeBy = z.infer<typeof madeBySchema>;

const positionSchema = z.object({ version: z.literal(1), ...snapshotSchema.shape, ...madeBySchema.shape });

/** How far a stream was delivered to a destination of records, and how its records were made. */
export type Position = z.infer<typeof positionSchema>;

/** The content of an outbox: the state of the destination once it is empty. */
export const contentSchema = z.object({
  ...snapshotSchema.shape,
  ...madeBySchema.shape,
  /** The snapshot after which its changes come; null: nothing was sent before. */
  base: snapshotSchema.nullable(),
  /** Whether it has all rows of the snapshot. */
  is_whole: z.boolean(),
  /** The columns that its records have, if the destination uses these alone. */
  members: z.array(z.string()).optional(),
});
type OutboxContent = z.infer<typeof contentSchema>;

export const recordStateHint =
  'restore it; or remove its folder, then start from here with cdsync push --adopt, or send everything with cdsync push --full';
const positionFile: StateFile<Position> = { schema: positionSchema, hint: recordStateHint };

/** The position in a folder; undefined if nothing was delivered yet. @throws {CdsyncError} `state_unreadable` */
export function readPosition(folder: string): Promise<Position | undefined> {
  return readStateFile(join(folder, 'position.json'), positionFile);
}

/** Moves the position. The outbox is no longer needed then. */
export async function movePosition(folder: string, position: Position): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeStateFile(join(folder, 'position.json'), position);
}

/** Whether a rule was added, changed or removed. */
export function hasOtherRules({ columns }: MadeBy, current: MadeBy): boolean {
  const present = new Map(current.columns);
  return columns.some(([path, fingerprint]) => present.get(path) !== fingerprint);
}

/**
 * The use of an outbox that is left:
 * - `send`: it is sent as it is.
 * - `drop`: it does not count.
 * - `again`: made again, of the present rows of the keys that were not sent and the changes after a snapshot: its own, or if this storage
 *   folder no longer has that, its base, or none: then all rows.
 */
type OutboxPlan =
  | { readonly type: 'send' | 'drop' }
  | {
      readonly type: 'again';
      readonly why: string;
      readonly since: number | undefined;
      /** Whether its sent records are of another storage folder. */
      readonly isForeign: boolean;
    };
export type OutboxAgain = Extract<OutboxPlan, { type: 'again' }>;

interface Asked {
  readonly feed: Feed;
  readonly now: MadeBy;
  readonly full: boolean;
  readonly adopt: boolean;
  /** The columns that the destination uses; undefined: all. */
  readonly members?: readonly string[] | undefined;
}

/** @throws {CdsyncError} `store_unknown`, `changes_gone`, `key_changed` */
export function planOutbox(outbox: OutboxContent, asked: Asked): OutboxPlan {
  const { feed, now, full, adopt } = asked;
  const drop = { type: 'drop' } as const;
  if (full) return drop;
  if (!sameKey(outbox, now)) return adopt ? drop : failForKey(outbox, asked);
  const gap = lineageGap(feed, outbox);
  if (gap === undefined) {
    const why = differences(outbox, now) || lacking(outbox, asked);
    return why === '' ? { type: 'send' } : { type: 'again', why, since: outbox.sequence, isForeign: false };
  }
  const base = outbox.is_whole ? null : outbox.base;
  if (base === null || lineageGap(feed, base) === undefined)
    return { type: 'again', why: gap, since: base?.sequence, isForeign: true };
  return adopt ? drop : refuse(feed, outbox, gap);
}

/**
 * The records of a delivery:
 * - `nothing`: the destination has everything.
 * - `changes`: those after the position.
 * - `everything`: all rows of the snapshot.
 * - `adopt`: nothing; only the position moves.
 */
interface RecordPlan {
  readonly type: 'nothing' | 'changes' | 'everything' | 'adopt';
  readonly why: string;
}

/** @throws {CdsyncError} `store_unknown`, `changes_gone`, `key_changed` */
export function planRecords(position: Position | undefined, asked: Asked): RecordPlan {
  const { feed, now, full, adopt } = asked;
  if (full) return { type: 'everything', why: 'asked (--full)' };
  if (position === undefined)
    return adopt ? { type: 'adopt', why: 'asked (--adopt)' } : { type: 'everything', why: 'nothing was sent yet' };
  const gap = lineageGap(feed, position);
  if (adopt && (gap !== undefined || !sameKey(position, now))) return { type: 'adopt', why: 'asked (--adopt)' };
  if (!sameKey(position, now)) return failForKey(position, asked);
  if (gap !== undefined) return refuse(feed, position, gap);
  const isSame = position.sequence === feed.sequence && position.erased === now.erased;
  return isSame ? { type: 'nothing', why: '' } : { type: 'changes', why: differences(position, now) };
}

function lacking({ members }: OutboxContent, asked: Asked): string {
  const isWhole = members === undefined || asked.members?.every((name) => members.includes(name)) === true;
  return isWhole ? '' : 'templates use other columns';
}

/** The reasons why records would be others today; empty if there are none. */
function differences(before: MadeBy, current: MadeBy): string {
  const reasons: string[] = [];
  if (hasOtherRules(before, current))
    reasons.push('rules have changed; records sent before stay as they were (cdsync push --full sends all again)');
  if (before.erased !== current.erased) reasons.push('rows were erased (cdsync forget)');
  return reasons.join('; ');
}

function sameKey(before: MadeBy, current: MadeBy): boolean {
  return JSON.stringify(before.key) === JSON.stringify(current.key);
}

function failForKey(before: MadeBy, { feed, now }: Asked): never {
  throw new CdsyncError(`records were sent with the key ${before.key.join(', ')}, and now have ${now.key.join(', ')}`, {
    code: 'key_changed',
    stream: feed.stream,
    hint: 'cdsync push --full sends all rows with the new key; --adopt continues from here and sends nothing older',
  });
}

function refuse(feed: Feed, { store_id, sequence }: SnapshotId, gap: string): never {
  const isGone = store_id === feed.store_id && sequence < feed.complete_since;
  throw new CdsyncError(`the changes no longer lead from the last delivery to this snapshot: ${gap}`, {
    code: isGone ? 'changes_gone' : 'store_unknown',
    stream: feed.stream,
    hint: 'cdsync push --adopt continues from here and sends nothing older; cdsync push --full sends all rows again',
  });
}

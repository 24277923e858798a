import { CdsyncError } from '../../core/errors.js';
import type { Mode } from '../../sdk/capabilities.js';
import type { Watermark } from '../../sdk/former/watermark.js';
import type { Feed } from '../../snapshot/feed.js';

/**
 * What a delivery of a stream does:
 * - `nothing`: send nothing, since the destination has everything.
 * - `changes`: send the changes of the commits after `since`.
 * - `everything`: send the whole snapshot; `reason` says why.
 * - `adopt`: move the watermark, send nothing.
 */
export type DeliveryPlan =
  | { readonly type: 'nothing' }
  | { readonly type: 'changes'; readonly since: number }
  | { readonly type: 'everything'; readonly reason: FullReason }
  | { readonly type: 'adopt' };

type FullReason =
  | 'first'
  | 'asked'
  | 'replace'
  | 'other_store'
  | 'went_back'
  | 'definition'
  | 'too_far_behind'
  | 'table_missing'
  | 'variant';

export interface PlanTask {
  readonly mode: Mode;
  readonly feed: Pick<Feed, 'stream' | 'store_id' | 'sequence' | 'complete_since'>;
  readonly definition: string;
  readonly watermark: Watermark | undefined;
  /** The table in the destination; undefined if it does not exist. */
  readonly table: { readonly name: string; readonly isEmpty: boolean } | undefined;
  readonly full: boolean;
  readonly adopt: boolean;
  /** Whether rows that the destination refused earlier wait for another try. */
  readonly hasRejects: boolean;
}

const words: Partial<Record<FullReason, string>> = {
  other_store: 'was loaded from another storage folder',
  went_back: 'has a later snapshot than this storage folder, perhaps because the folder was restored from a backup',
  too_far_behind: 'is further behind than `keep.changes` reaches',
};

function refuseAppend({ feed }: PlanTask, reason: FullReason): CdsyncError {
  const code = reason === 'too_far_behind' ? 'changes_gone' : 'store_unknown';
  return new CdsyncError(`the destination ${words[reason]}: in mode append, rows would arrive twice or never`, {
    code,
    stream: feed.stream,
    hint: 'cdsync push --adopt starts from here and sends nothing older; cdsync push --full appends all rows again',
  });
}

/** The error for a table with rows but without a watermark. */
function notOurs({ feed, table }: PlanTask): CdsyncError {
  return new CdsyncError(`table "${table?.name}" has rows that cdsync has not loaded`, {
    code: 'table_not_ours',
    stream: feed.stream,
    hint: 'give the stream another table with `table:`, or take this one over: cdsync push --adopt',
  });
}

/** The watermark, if it is of this table: of one that the stream got with a new `table:` it says nothing. */
function watermarkOf({ watermark, table }: PlanTask): Watermark | undefined {
  return table === undefined || watermark?.table === table.name ? watermark : undefined;
}

/** Why the whole snapshot must be sent; undefined if the changes are enough. */
function reasonForAll({ feed, watermark, table, definition, mode }: PlanTask): FullReason | undefined {
  if (watermark === undefined) return 'first';
  if (table === undefined) return 'table_missing';
  if (watermark.storeId !== feed.store_id) return 'other_store';
  if (watermark.sequence > feed.sequence) return 'went_back';
  // Rows that append has written stay as they are; a new definition applies only to later rows.
  if (watermark.definition !== definition && mode !== 'append') return 'definition';
  return watermark.sequence < feed.complete_since ? 'too_far_behind' : undefined;
}

/**
 * The plan for a table that gets variant columns. Unchanged rows lack values in these columns, so that changes alone are not
 * enough and everything is sent.
 */
export function planWithVariants(
  plan: DeliveryPlan,
  newVariants: readonly string[],
  key: readonly string[],
): DeliveryPlan {
  const lacks = newVariants.length > 0 && plan.type === 'changes' && key.length > 0;
  return lacks ? { type: 'everything', reason: 'variant' } : plan;
}

/**
 * Decides what a delivery must do.
 * @throws {CdsyncError} `store_unknown`, `changes_gone`, `table_not_ours`
 */
export function planDelivery(given: PlanTask): DeliveryPlan {
  const task = { ...given, watermark: watermarkOf(given) };
  const { mode, feed, watermark, table, full, adopt, hasRejects } = task;
  const reason = reasonForAll(task);
  if (reason === 'first' && table?.isEmpty === false && !adopt) throw notOurs(task);
  if (mode === 'append' && reason !== undefined && (reason in words || (reason === 'first' && adopt))) {
    if (full) return { type: 'everything', reason: 'asked' };
    if (adopt) return { type: 'adopt' };
    throw refuseAppend(task, reason);
  }
  if (full) return { type: 'everything', reason: reason ?? 'asked' };
  if (reason !== undefined) return { type: 'everything', reason };
  const since = watermark?.sequence ?? 0;
  if (since === feed.sequence && !hasRejects) return { type: 'nothing' };
  return mode === 'replace' ? { type: 'everything', reason: 'replace' } : { type: 'changes', since };
}

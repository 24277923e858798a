import type { ErrorCode } from '../../core/error-codes.js';
import { CdsyncError } from '../../core/errors.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import type { Mode } from '../../sdk/destination.js';
import type { FoundTable } from '../../sdk/load.js';
import { type Feed, runOfSnapshot } from '../../snapshot/feed.js';
import type { Erasure } from '../../storage/erasures.js';
import { beginAgain, type NextMap } from './column-map.js';
import type { TableRecord } from './record.js';

export interface Situation {
  readonly table: string;
  readonly mode: Mode;
  readonly deletes: 'hard' | 'soft';
  readonly job: string;
  readonly feed: Feed;
  /** Paths of the key's columns. */
  readonly key: readonly string[];
  readonly erasures: readonly Erasure[];
  readonly flags: { readonly full: boolean; readonly adopt: boolean; readonly recreate: boolean };
  /** How a new storage folder deals with a table that has rows of an older one. */
  readonly newStorage?: 'hold' | 'warn' | undefined;
  readonly record: TableRecord | undefined;
  /** How many values the job's folder lists that the table cannot hold. */
  readonly listed: number;
  /** Another stream, or another destination of the configuration, whose table it is. */
  readonly owner: string | undefined;
  /** The table as it is; undefined if there is none. */
  readonly found: FoundTable | undefined;
  /** Why all rows must be loaded whatever the record says: a look at the whole table. */
  readonly again?: string | undefined;
}

/**
 * The work of a delivery on a table:
 * - `nothing`: it is as recorded, and there is nothing to send.
 * - `increment`: the changes after the recorded snapshot; in mode `append`, as rows of their own.
 * - `reload`: all rows, merged in place; in mode `append`, all rows once more.
 * - `create`: a reload into a table that is new; with `isRecreated`, the present one is dropped before.
 * - `adopt`: only a record is written.
 */
export interface Decision {
  readonly action: 'nothing' | 'increment' | 'reload' | 'create' | 'adopt';
  readonly why: string;
  /** Whether the present table is dropped first. */
  readonly drops: boolean;
  /** Recorded columns that the table lacks. */
  readonly lacking: readonly string[];
  /** If the table is an old copy, its generation by its stamp (-1: it has none); else undefined. */
  readonly copyOf: number | undefined;
  /** Keys that must go from the table. */
  readonly erase: readonly string[];
  /** The matter that the user should look at, although the delivery continues. */
  readonly warning?: string;
}

/** A table that begins, or begins again. */
const created = { action: 'create', lacking: [], erase: [], copyOf: undefined } as const;
const appendHint =
  'cdsync push --adopt continues from here and sends nothing older; cdsync push --full appends all rows again';

function refusal({ feed }: Situation, code: ErrorCode, message: string, hint: string): CdsyncError {
  return new CdsyncError(message, { code, hint, stream: feed.stream });
}

/** The generation in a stamp; -1 if there is no stamp, or another text. */
function generationOf(stamp: string | null | undefined): number {
  return Number(/^(\d+):/.exec(stamp ?? '')?.[1] ?? -1);
}

/** Why no changes connect a delivered snapshot with the present one; undefined if they do. */
export function lineageGap(
  feed: Feed,
  { store_id, sequence, run_id }: Pick<TableRecord, 'store_id' | 'sequence' | 'run_id'>,
): string | undefined {
  if (store_id !== feed.store_id) return 'it was loaded from another storage folder';
  if (sequence > feed.sequence)
    return 'it has a later snapshot than this storage folder, which was perhaps restored from a backup';
  if (sequence < feed.complete_since) return 'it is further behind than `keep.changes` reaches';
  if (runOfSnapshot(feed, sequence) === run_id) return undefined;
  return 'its snapshot has the number of another one of this storage folder, which was perhaps restored from a backup';
}

/** Whether rows that the snapshot lacks stay in the table. */
export function keepsAbsent({ mode, deletes }: Pick<Situation, 'mode' | 'deletes'>): boolean {
  return mode === 'append' || mode === 'upsert' || (mode === 'mirror' && deletes === 'soft');
}

function assertOwner(situation: Situation): void {
  const { owner, record, flags, table, job, feed } = situation;
  const takeOver = 'give the stream another table with `table:`, or take it over: cdsync push --adopt';
  if (flags.adopt || flags.recreate) return;
  if (owner !== undefined) throw refusal(situation, 'table_taken', `table "${table}" belongs to ${owner}`, takeOver);
  if (record === undefined) return;
  if (record.tenant !== (feed.definition.tenant_id ?? ''))
    throw refusal(situation, 'table_taken', `table "${table}" has the profiles of another tenant`, takeOver);
  if (record.job !== job)
    throw refusal(situation, 'table_taken', `table "${table}" belongs to job "${record.job}"`, takeOver);
  const [newest, ...older] = [...record.stores].reverse();
  const here = older.find(({ id }) => id === feed.store_id);
  if (record.store_id === feed.store_id || here === undefined || flags.full) return;
  throw refusal(
    situation,
    'store_unknown',
    `two storage folders write table "${table}" by turns: ${feed.store_id} from ${here.since} on, then ${newest?.id} from ${newest?.since} on`,
    'keep one of them; cdsync push --adopt continues with this one',
  );
}

/**
 * The sign that the storage folder is new while the table has rows of an older one: the older one was perhaps lost. Undefined if the
 * folder has loaded the table before, or a person has said what to do.
 * @throws {CdsyncError} `storage_new` with `new_storage: hold`
 */
function newStorage(situation: Situation): string | undefined {
  const { record, found, feed, flags, table } = situation;
  if (record === undefined || found === undefined || found.rows === 0) return undefined;
  if ([record.store_id, ...record.stores.map(({ id }) => id)].includes(feed.store_id)) return undefined;
  if (flags.full || flags.adopt || flags.recreate) return undefined;
  const message =
    `this storage folder is new, and table "${table}" has ${formatCounted(found.rows, 'row')} of snapshot ${record.sequence} of another one; ` +
    `this one has ${formatCounted(feed.rows, 'row')} in snapshot ${feed.sequence}`;
  if (situation.newStorage !== 'hold') return message;
  const hint =
    'restore the other storage folder, if it was lost or moved; or load the table from this one: cdsync push --adopt';
  throw refusal(situation, 'storage_new', message, hint);
}

function assertShape(situation: Situation): void {
  const { record, mode, key, table } = situation;
  if (record === undefined) return;
  const shape = mode === 'append' ? 'append' : 'keyed';
  if (record.shape !== shape)
    throw refusal(
      situation,
      'mode_changed',
      `table "${table}" was loaded in mode ${record.mode}, and ${mode} needs another one`,
      beginAgain,
    );
  if (JSON.stringify(record.key) !== JSON.stringify(key))
    throw refusal(
      situation,
      'key_changed',
      `table "${table}" has the key ${record.key.join(', ')}, and the stream ${key.join(', ')}`,
      beginAgain,
    );
}

/**
 * Columns whose types a person has altered, in words; none if nothing differs.
 * @throws {CdsyncError} `table_altered` unless `--adopt` accepts them
 */
function alteredColumns(situation: Situation, record: TableRecord, existingTable: FoundTable): string[] {
  const types = new Map(existingTable.columns.map(({ name, type }) => [name, type]));
  const widened = new Set(record.pending?.widened.map(([name]) => name));
  const altered = [...record.columns].filter(
    ([name, type]) => types.has(name) && types.get(name) !== type && !widened.has(name),
  );
  const words = altered.map(([name, type]) => `"${name}" is ${types.get(name)}, and was ${type}`);
  if (altered.length === 0 || situation.flags.adopt) return words;
  throw refusal(
    situation,
    'table_altered',
    `another program has changed columns of table "${situation.table}": ${words.join('; ')}`,
    'change them back; or cdsync push --adopt takes them as they are, if they hold all values, --recreate drops the table and loads it',
  );
}

/** @throws {CdsyncError} `table_altered` if a person has renamed a key column: the rows would get a second one, beside one without values */
function assertKeyNames(situation: Situation, record: TableRecord, found: FoundTable): void {
  const { key, table, flags } = situation;
  if (record.shape !== 'keyed' || flags.adopt) return;
  const existingNames = new Set(found.columns.map(({ name }) => name));
  for (const path of key) {
    const name = record.map.get(path)?.target ?? path;
    const type = record.columns.get(name);
    if (existingNames.has(name) || type === undefined) continue;
    const other = found.columns.find((column) => column.type === type && !record.columns.has(column.name));
    if (other === undefined) continue;
    throw refusal(
      situation,
      'table_altered',
      `table "${table}" has no column "${name}", which is the key of its rows, and has "${other.name}" of the same type`,
      'if it was renamed, rename it back; or cdsync push --adopt adds it again, --recreate drops the table and loads it',
    );
  }
}

/** The keys that must go: those of erasures that the table has not seen, unless the snapshot has them again. */
function erasuresOf(situation: Situation, seen: number): string[] {
  const due = erasuresAfter(situation, seen);
  // In other modes, rows that the snapshot lacks go anyway.
  if (due.some(({ keys }) => keys === null) && keepsAbsent(situation) && !situation.flags.adopt)
    throw refusal(
      situation,
      'erasures_gone',
      `table "${situation.table}" is older than an erasure whose keys are no longer kept`,
      'cdsync push --recreate drops the table and loads it without the erased rows; --adopt continues if they are not in it',
    );
  return due.flatMap(({ keys }) => keys ?? []);
}

function begin(situation: Situation): Decision {
  const { found, flags, table, mode } = situation;
  const all = { lacking: [], erase: situation.erasures.flatMap(({ keys }) => keys ?? []), copyOf: -1 };
  if (found === undefined) return { ...created, why: 'the table is new', drops: false };
  if (flags.recreate) return { ...created, why: 'asked (--recreate)', drops: true };
  if (!flags.adopt) {
    throw refusal(
      situation,
      'table_not_ours',
      `table "${table}" already exists, and cdsync has not loaded it`,
      'give the stream another table with `table:`, or take this one over: cdsync push --adopt loads all rows into it',
    );
  }
  const action = mode === 'append' && !flags.full ? 'adopt' : 'reload';
  return { ...all, action, why: 'asked (--adopt)', drops: false };
}

/** The reasons for a reload that record, feed and table give; the column map adds its own. */
function reasons(
  situation: Situation,
  record: TableRecord,
  existingTable: FoundTable,
  lacking: readonly string[],
): string[] {
  const { mode, deletes, feed, flags, again } = situation;
  const why: string[] = again === undefined ? [] : [again];
  if (record.pending !== null) why.push(`a delivery was cut short (pending since ${record.pending.since})`);
  if (lacking.length > 0) why.push(`the table lacks ${lacking.map((name) => `"${name}"`).join(', ')}`);
  if (record.pending === null && existingTable.rows !== record.rows)
    why.push(`the table has ${formatCounted(existingTable.rows, 'row')}, recorded ${formatCount(record.rows)}`);
  else if (isOldCopy(record, existingTable))
    why.push('the table is not the one that was recorded: its stamp is another');
  // An erasure takes keys from the list before the table carries it out.
  if (record.refused !== situation.listed && erasuresAfter(situation, record.erased).length === 0)
    why.push('the list of values that it cannot hold was lost');
  if (record.mode !== mode) why.push(`mode ${record.mode} to ${mode}`);
  if (record.deletes !== deletes && mode === 'mirror') why.push(`deletes ${record.deletes} to ${deletes}`);
  if (mode === 'replace' && (record.sequence !== feed.sequence || record.run_id !== feed.run_id))
    why.push('mode replace');
  if (flags.full && mode !== 'append') why.push('asked (--full)');
  return why;
}

/** Whether the table is not the one that its record speaks of: one of the two was put back. */
export function isOldCopy(record: TableRecord, { stamp }: FoundTable): boolean {
  return record.pending === null && record.stamp !== null && stamp !== undefined && stamp !== record.stamp;
}

/** The parts that every decision about a table with a record has. */
type Common = Omit<Decision, 'action' | 'why'>;

/** A log whose snapshot no changes connect with the present one. @throws {CdsyncError} `store_unknown`, `changes_gone` */
function appendedAcross(gap: string, situation: Situation, record: TableRecord, common: Common): Decision {
  const { feed, flags, table } = situation;
  if (flags.full) return { ...common, action: 'reload', why: `asked (--full): ${gap}` };
  if (flags.adopt) return { ...common, action: 'adopt', why: `asked (--adopt): ${gap}` };
  const isBehind = record.store_id === feed.store_id && record.sequence < feed.complete_since;
  const message = `table "${table}": ${gap}. In mode append, rows would arrive twice or never`;
  throw refusal(situation, isBehind ? 'changes_gone' : 'store_unknown', message, appendHint);
}

/**
 * The decision about a log. Its rows cannot be compared with a snapshot, so an unclear state does not load it again: a person decides.
 * @throws {CdsyncError} `store_unknown`, `changes_gone`, `table_changed`
 */
function appended(
  situation: Situation,
  record: TableRecord,
  existingTable: FoundTable,
  { altered, ...common }: Common & { readonly altered: readonly string[] },
): Decision {
  const { feed, flags, table } = situation;
  const gap = lineageGap(feed, record);
  if (gap !== undefined) return appendedAcross(gap, situation, record, common);
  const isCutShort = record.pending !== null;
  const isChanged = !isCutShort && (existingTable.rows !== record.rows || isOldCopy(record, existingTable));
  // The same order twice is carried out once: a kill right after the commit must not append all rows again.
  const isOrdered = flags.full && (record.full_of !== feed.run_id || isChanged);
  if (isOrdered) return { ...common, action: 'reload', why: 'asked (--full)' };
  if (isChanged && !flags.adopt) {
    const message = `table "${table}" has ${formatCounted(existingTable.rows, 'row')}, recorded ${formatCount(record.rows)}`;
    throw refusal(situation, 'table_changed', message, appendHint);
  }
  const isAccepted = isChanged || altered.length > 0;
  const why = isAccepted ? 'asked (--adopt)' : isCutShort ? 'a delivery was cut short' : '';
  return { ...common, action: 'increment', why };
}

/**
 * Decides from record, definition, feed and table, before the column map is known. The table's looks may only cause that it is as
 * recorded, that it is loaded whole again, or that the delivery is refused.
 * @throws {CdsyncError} `table_not_ours`, `table_taken`, `table_altered`, `table_changed`, `mode_changed`, `key_changed`,
 *   `store_unknown`, `storage_new`, `changes_gone`, `erasures_gone`
 */
export function decide(situation: Situation): Decision {
  const { record, found, flags, mode } = situation;
  assertOwner(situation);
  if (record === undefined || (record.pending?.fresh === true && found === undefined)) return begin(situation);
  if (record.pending?.fresh === true) return { ...created, why: 'the table was being made', drops: true };
  if (flags.recreate) return { ...created, why: 'asked (--recreate)', drops: found !== undefined };
  assertShape(situation);
  if (found === undefined) return { ...created, why: 'the table is missing', drops: false };
  const altered = alteredColumns(situation, record, found);
  assertKeyNames(situation, record, found);
  const existingNames = new Set(found.columns.map(({ name }) => name));
  const lacking = [...record.columns.keys()].filter((name) => !existingNames.has(name));
  const copyOf = isOldCopy(record, found) ? generationOf(found.stamp) : undefined;
  const erase = erasuresOf(situation, copyOf === undefined ? record.erased : -1);
  const common = { drops: false, lacking, copyOf, erase };
  if (mode === 'append') return appended(situation, record, found, { ...common, altered });
  const warning = newStorage(situation);
  const why = reasons(situation, record, found, lacking);
  if (altered.length > 0) why.push(`asked (--adopt): ${altered.join('; ')}`);
  const gap = lineageGap(situation.feed, record);
  if (gap !== undefined) why.push(warning ?? gap);
  const lacksKeys = erasuresAfter(situation, record.erased).some(({ keys }) => keys === null);
  if (why.length > 0 || lacksKeys)
    return {
      ...common,
      action: 'reload',
      why: why.join('; ') || 'an erasure whose keys are no longer kept',
      ...(warning !== undefined && { warning }),
    };
  return { ...common, action: 'increment', why: '' };
}

function erasuresAfter({ erasures }: Pick<Situation, 'erasures'>, last: number): Erasure[] {
  return erasures.filter(({ number }) => number > last);
}

/** The decision once the column map is known, which may ask for a reload, or leave nothing to do. */
export function withMap(decision: Decision, situation: Situation, next: NextMap): Decision {
  const { record, feed, mode } = situation;
  if (decision.action !== 'increment') return decision;
  const asked = [decision.why, ...next.why].filter((text) => text !== '').join('; ');
  if (next.why.length > 0 && mode !== 'append') return { ...decision, action: 'reload', why: asked };
  const isSame = record?.sequence === feed.sequence && record.run_id === feed.run_id && record.pending === null;
  const isQuiet =
    isSame &&
    decision.why === '' &&
    next.why.length === 0 &&
    next.add.length === 0 &&
    decision.lacking.length === 0 &&
    erasuresAfter(situation, record?.erased ?? 0).length === 0;
  if (isQuiet) return { ...decision, action: 'nothing', why: 'nothing has changed' };
  return { ...decision, why: asked || (next.add.length > 0 ? 'a new column' : 'changes') };
}

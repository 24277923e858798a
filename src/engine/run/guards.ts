import type { StreamConfig } from '../../config/config.js';
import type { Limit } from '../../config/guard-options.js';
import { formatCount } from '../../core/quantities.js';
import { quoteIdentifier } from '../../core/sql.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import { absentKeys } from '../../snapshot/diff.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { queryError, withoutLiterals } from '../../store/duckdb-errors.js';
import type { Counters } from '../../store/journal.js';
import type { GuardFinding } from '../report-job.js';
import { showStream } from './stream-views.js';

export interface GuardTask {
  readonly config: StreamConfig;
  readonly commit: StreamCommit;
  readonly counters: Counters;
  readonly store: SnapshotStore;
  /** False if the stream is a new baseline. */
  readonly judgesChanges: boolean;
}

/** The most keys that a message names. */
const shownKeys = 3;

function exceeds(found: number, limit: Limit, whole: number): boolean {
  return 'count' in limit ? found > limit.count : found > Math.max(limit.atLeast, limit.share * whole);
}

function shown(limit: Limit): string {
  return 'count' in limit ? formatCount(limit.count) : `${Number((limit.share * 100).toFixed(4))}%`;
}

function ofWhole(found: number, whole: number): string {
  const share = whole === 0 ? '' : ` (${((found / whole) * 100).toFixed(1)}%)`;
  return `${formatCount(found)} of ${formatCount(whole)}${share}`;
}

function rowGuards({ config, commit }: GuardTask): GuardFinding[] {
  const { minRows } = config.guards;
  const { task } = commit;
  const before = task.previous?.rows ?? 0;
  if (task.rows === 0 && before > 0 && minRows === undefined) {
    const message = `nothing came back, where the last snapshot has ${formatCount(before)} rows; \`min_rows: 0\` allows it`;
    return [{ guard: 'empty_answer', message }];
  }
  if (minRows === undefined || task.rows >= minRows) return [];
  return [{ guard: 'min_rows', message: `${formatCount(task.rows)} rows are fewer than ${formatCount(minRows)}` }];
}

/** Judges changes; none if there is no earlier snapshot to compare with. */
async function changeGuards({ config, commit, store, judgesChanges }: GuardTask): Promise<GuardFinding[]> {
  const { previous, difference, brings } = commit.task;
  if (!judgesChanges || previous === undefined || previous.rows === 0) return [];
  const { maxDeleted, maxChanged } = config.guards;
  const findings: GuardFinding[] = [];
  const { deleted, updated, inserted } = difference;
  if (exceeds(deleted, maxDeleted, previous.rows)) {
    const keys = await absentKeys(store.session, commit.tables, shownKeys);
    const figures = `${ofWhole(deleted, previous.rows)} rows would be deleted, ${shown(maxDeleted)} may be`;
    const message = `${figures}: ${keys.join(', ')}${deleted > keys.length ? ', …' : ''}`;
    findings.push({ guard: 'max_deleted', message, figures });
  }
  const changed = deleted + updated + (brings === 'everything' ? inserted : 0);
  if (exceeds(changed, maxChanged, previous.rows)) {
    const message = `${formatCount(inserted)} inserts, ${formatCount(updated)} updates and ${formatCount(deleted)} deletes on ${formatCount(previous.rows)} rows, where ${shown(maxChanged)} may change`;
    findings.push({ guard: 'max_changed', message });
  }
  return findings;
}

function rejectGuard({ config, counters }: GuardTask): GuardFinding[] {
  const { maxRejected } = config.guards;
  if (!exceeds(counters.rejected, maxRejected, counters.read)) return [];
  const message = `${ofWhole(counters.rejected, counters.read)} records could not be kept, ${shown(maxRejected)} may be`;
  return [{ guard: 'max_rejected', message }];
}

async function columnGuards({ config, commit, store }: GuardTask): Promise<GuardFinding[]> {
  const { maxNull, unique } = config.guards;
  const { task } = commit;
  const names = new Set(task.columns.map(({ name }) => name));
  const findings: GuardFinding[] = [];
  const view = quoteIdentifier(task.stream);
  for (const [column, limit] of Object.entries(maxNull)) {
    const missing = names.has(column)
      ? await store.session.number(`SELECT count(*) FROM ${view} WHERE ${quoteIdentifier(column)} IS NULL`)
      : task.rows;
    if (!exceeds(missing, limit, task.rows)) continue;
    const message = `${ofWhole(missing, task.rows)} rows have no ${column}, ${shown(limit)} may have none`;
    findings.push({ guard: 'max_null', message });
  }
  for (const column of unique.filter((each) => names.has(each))) {
    const value = quoteIdentifier(column);
    const twice = await store.session.number(`SELECT count(${value}) - count(DISTINCT ${value}) FROM ${view}`);
    if (twice === 0) continue;
    findings.push({ guard: 'unique', message: `${formatCount(twice)} rows have the ${column} of another row` });
  }
  return findings;
}

async function expectGuards({ config, store }: GuardTask): Promise<GuardFinding[]> {
  const findings: GuardFinding[] = [];
  for (const [index, query] of config.guards.expect.entries()) {
    let rows: number;
    try {
      rows = await store.session.number(`SELECT count(*) FROM (${query.trim().replace(/;\s*$/, '')})`);
    } catch (error) {
      throw queryError(
        error,
        `guards.expect[${index}] can read the streams that were compared before it, by their names`,
      );
    }
    if (rows === 0) continue;
    const shown = withoutLiterals(query);
    const shownQuery = shown.length > 80 ? `${shown.slice(0, 77)}…` : shown;
    findings.push({
      guard: 'expect',
      message: `${formatCount(rows)} rows came of a query that must give none: ${shownQuery}`,
    });
  }
  return findings;
}

/** Judges what a commit would do to a stream; an empty list lets it through. */
export async function judge(task: GuardTask): Promise<GuardFinding[]> {
  const { maxNull, unique, expect } = task.config.guards;
  const ofRows = rowGuards(task);
  // If nothing came back, the other guards would only repeat that.
  if (ofRows.some(({ guard }) => guard === 'empty_answer')) return ofRows;
  const looksAtRows = Object.keys(maxNull).length + unique.length + expect.length > 0;
  if (looksAtRows) await showStream(task.store, task.commit);
  return [
    ...ofRows,
    ...(await changeGuards(task)),
    ...rejectGuard(task),
    ...(await columnGuards(task)),
    ...(await expectGuards(task)),
  ];
}

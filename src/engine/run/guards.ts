import type { StreamConfig } from '../../config/config.js';
import type { Limit } from '../../config/guard-options.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import { quoteIdentifier } from '../../core/sql.js';
import { queryError, withoutLiterals } from '../../sdk/duckdb/errors.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import { absentKeys } from '../../snapshot/diff.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { type Accepted, isAccepted } from '../../storage/approvals.js';
import type { Counters } from '../../storage/journal.js';
import type { GuardFinding } from '../report-job.js';
import { showStream } from './stream-views.js';

interface GuardTask {
  readonly config: StreamConfig;
  readonly commit: StreamCommit;
  readonly counters: Counters;
  readonly store: SnapshotStore;
  /** Whether the stream is a new baseline. */
  readonly isBaseline: boolean;
  /** Whether its changes follow from a snapshot that was approved. */
  readonly follows: boolean;
  /** What its approved snapshot breaks. */
  readonly accepted: readonly Accepted[];
}

/** The most keys that a message names. */
const shownKeys = 3;

function exceeds(count: number, limit: Limit, whole: number): boolean {
  if ('off' in limit) return false;
  return 'count' in limit ? count > limit.count : count > Math.max(limit.atLeast, limit.share * whole);
}

/** @param unit of a limit that is a number */
function shownLimit(limit: Limit, unit: string): string {
  if ('off' in limit) return 'off';
  return 'count' in limit ? formatCounted(limit.count, unit) : `${Number((limit.share * 100).toFixed(4))}%`;
}

/** A share of a whole in percent. It has more digits if it would otherwise look like the limit that it exceeds. */
function shownShare(count: number, whole: number, limit: Limit): string {
  const percent = (count / whole) * 100;
  const short = `${Number(percent.toFixed(1))}%`;
  return short === shownLimit(limit, '') ? `${Number(percent.toPrecision(6))}%` : short;
}

/** `5 of 100 rows deleted (5%); the limit is 3 rows`. */
function overLimit(
  what: string,
  { found, whole, limit, unit }: { found: number; whole: number; limit: Limit; unit: string },
): string {
  const share = whole === 0 ? '' : ` (${shownShare(found, whole, limit)})`;
  return `${what}${share}; the limit is ${shownLimit(limit, unit)}`;
}

function rowGuards({ config, commit, follows }: GuardTask): GuardFinding[] {
  const { minRows } = config.guards;
  const { task } = commit;
  const before = task.previous?.rows ?? 0;
  if (task.rows === 0 && before > 0 && minRows === undefined && !follows) {
    const message = `the service returned 0 rows; the last snapshot has ${formatCount(before)}; \`min_rows: 0\` allows it`;
    return [{ guard: 'empty_answer', message }];
  }
  if (minRows === undefined || task.rows >= minRows) return [];
  const message = `${formatCounted(task.rows, 'row')}; the minimum is ${formatCount(minRows)}`;
  return [{ guard: 'min_rows', message, of: '', measure: -task.rows }];
}

/** Limits on changes; they pass if there is no earlier snapshot. */
async function changeGuards({ config, commit, store, isBaseline, follows }: GuardTask): Promise<GuardFinding[]> {
  const { previous, difference, coverage } = commit.task;
  if (isBaseline || follows || previous === undefined || previous.rows === 0) return [];
  const { maxDeleted, maxChanged } = config.guards;
  const findings: GuardFinding[] = [];
  const { deleted, updated, inserted } = difference;
  if (exceeds(deleted, maxDeleted, previous.rows)) {
    const keys = await absentKeys(store.session, commit.tables, shownKeys);
    const figures = overLimit(`${formatCount(deleted)} of ${formatCounted(previous.rows, 'row')} deleted`, {
      found: deleted,
      whole: previous.rows,
      limit: maxDeleted,
      unit: 'row',
    });
    const message = `${figures}: ${keys.join(', ')}${deleted > keys.length ? ', …' : ''}`;
    findings.push({ guard: 'max_deleted', message, figures });
  }
  const changed = deleted + updated + (coverage === 'everything' ? inserted : 0);
  if (exceeds(changed, maxChanged, previous.rows)) {
    const counts = `${formatCounted(changed, 'change')} on ${formatCounted(previous.rows, 'row')}`;
    const message = overLimit(counts, { found: changed, whole: previous.rows, limit: maxChanged, unit: 'change' });
    findings.push({ guard: 'max_changed', message });
  }
  return findings;
}

function rejectGuard({ config, counters }: GuardTask): GuardFinding[] {
  const { maxRejected } = config.guards;
  if (!exceeds(counters.rejected, maxRejected, counters.read)) return [];
  const { rejected, read: whole } = counters;
  const what = `${formatCount(rejected)} of ${formatCounted(whole, 'record')} could not be kept`;
  const message = overLimit(what, { found: rejected, whole, limit: maxRejected, unit: 'record' });
  return [{ guard: 'max_rejected', message, of: '', measure: rejected }];
}

async function columnGuards({ config, commit, store }: GuardTask): Promise<GuardFinding[]> {
  const { maxNull, unique } = config.guards;
  const { task } = commit;
  const names = new Set(task.columns.map(({ name }) => name));
  const findings: GuardFinding[] = [];
  const view = quoteIdentifier(task.stream);
  for (const [column, limit] of Object.entries(maxNull)) {
    // `unknownColumns` warns of a name that no column has.
    if (!names.has(column)) continue;
    const missing = await store.session.number(`SELECT count(*) FROM ${view} WHERE ${quoteIdentifier(column)} IS NULL`);
    if (!exceeds(missing, limit, task.rows)) continue;
    const message = `${column} is empty in ${shownShare(missing, task.rows, limit)} of ${formatCounted(task.rows, 'row')}; the limit is ${shownLimit(limit, 'row')}`;
    findings.push({ guard: 'max_null', message, of: column, measure: missing / task.rows });
  }
  for (const column of unique.filter((name) => names.has(name))) {
    const value = quoteIdentifier(column);
    const twice = await store.session.number(`SELECT count(${value}) - count(DISTINCT ${value}) FROM ${view}`);
    if (twice === 0) continue;
    findings.push({
      guard: 'unique',
      message: `${formatCounted(twice, 'row')} with the ${column} of another row; expected 0`,
      of: column,
      measure: twice,
    });
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
    const message = `the check query returned ${formatCounted(rows, 'row')}, expected 0: ${shownQuery}`;
    findings.push({ guard: 'expect', message, of: shown, measure: rows });
  }
  return findings;
}

/** The findings of a stream's guards. */
interface Findings {
  readonly holds: readonly GuardFinding[];
  /** Findings that hold nothing: by `action: warn`, or because a person has approved as much. */
  readonly remarks: readonly GuardFinding[];
}

/** Checks a commit by the stream's guards. */
export async function evaluateGuards(task: GuardTask): Promise<Findings> {
  const { guards } = task.config;
  const findings = await allFindings(task);
  const isRemark = (finding: GuardFinding) => guards.action === 'warn' || isAccepted(finding, task.accepted);
  return { holds: findings.filter((finding) => !isRemark(finding)), remarks: findings.filter(isRemark) };
}

async function allFindings(task: GuardTask): Promise<GuardFinding[]> {
  const { maxNull, unique, expect } = task.config.guards;
  const ofRows = rowGuards(task);
  // If there are no records, the other guards would only repeat that.
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

import type { DestinationReport, JobReport } from '../core/run-report.js';
import type { ComparedRow } from './harness.js';

/** A query for rows of people. Their numbers run from `from`, included, to `to`, excluded. */
export function people(from: number, to: number, name = "'name ' || i"): string {
  return `SELECT 'p' || i AS id, ${name} AS name, i AS visits, i * 0.5::DOUBLE AS score, i % 2 = 0 AS active,
    TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_microseconds(i * 1000001) AS seen_at, [i, i + 1] AS marks,
    {'city': 'c' || i % 7, 'zip': lpad(i::VARCHAR, 5, '0')} AS address FROM range(${from}, ${to}) t(i)`;
}

/** A first snapshot, and a second one: in that, p0 to p4 are new, p5 to p9 have changed, p95 to p99 are gone. */
export const before = people(5, 100);
export const after = `${people(0, 5)} UNION ALL ${people(5, 10, "'another ' || i")} UNION ALL ${people(10, 95)}`;

/** The keys that the second snapshot lacks. */
export const gone = ['p95', 'p96', 'p97', 'p98', 'p99'];

/** The report of the one destination. @throws unless its delivery succeeded */
export function delivered(report: JobReport): DestinationReport {
  const [target] = report.destinations;
  if (target === undefined) throw new Error(`nothing was delivered: ${JSON.stringify(report)}`);
  if (target.status !== 'ok')
    throw new Error(`the delivery ended as ${target.status}: ${JSON.stringify(target.error)}`);
  return target;
}

/** The status and error of the one destination. @throws unless its delivery failed, or left rows out */
export function undelivered(report: JobReport): { status: string; code: string; message: string; hint: string | null } {
  const [target] = report.destinations;
  if (target?.error == null) throw new Error(`the delivery did not fail: ${JSON.stringify(report.destinations)}`);
  const { code, message, hint } = target.error;
  return { status: target.status, code, message, hint };
}

/** Rows without cdsync's own columns. */
export function ownless(rows: readonly ComparedRow[]): ComparedRow[] {
  const helperColumns = new Set(['_op', '_run_id', '_synced_at', '_deleted_at']);
  return rows.map((row) => new Map([...row].filter(([name]) => !helperColumns.has(name))));
}

/** The values of one column, sorted. */
export function column(rows: readonly ComparedRow[], name: string): (string | null)[] {
  return rows.map((row) => row.get(name) ?? null).sort();
}

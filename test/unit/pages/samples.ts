import type { JobReport, StreamReport } from '../../../src/core/run-report.js';
import type { ColumnFigures } from '../../../src/pages/column-figures.js';

export function stream(name: string, more: Partial<StreamReport> = {}): StreamReport {
  const counts = {
    rows: 100,
    inserted: 3,
    updated: 2,
    deleted: 1,
    unchanged: 95,
    duplicates: 0,
    rejected: 0,
    replaced: 0,
  };
  const sent = {
    discarded_values: 0,
    schema_changes: [],
    missing: 0,
    recognised: 0,
    requests: 10,
    retries: 0,
    throttled: 0,
    pages: 10,
    bytes: 5000,
    seconds: 1,
  };
  const limit = { group: 'profile', per_second: 20 } as const;
  return {
    name,
    status: 'ok',
    ...counts,
    ...sent,
    unrecognised: null,
    partitions: null,
    limit,
    findings: [],
    warnings: [],
    unmatched_rules: [],
    error: null,
    ...more,
  };
}

export function report(runId: string, streams: StreamReport[], more: Partial<JobReport> = {}): JobReport {
  const job = { job: 'nightly', run_id: runId, sequence: 4, resumed: false, status: 'ok' } as const;
  return { ...job, streams, destinations: [], seconds: 12, ...more };
}

export const id = (day: number) => `202611${String(day).padStart(2, '0')}T021500Z-abcde${day % 10}`;
export const figures = (streams: readonly string[], names: readonly string[]): ColumnFigures => ({
  version: 1,
  streams: Object.fromEntries(
    streams.map((each) => [
      each,
      {
        run_id: id(30),
        synced_at: '2026-11-30T02:15:00.000Z',
        rows: 100,
        columns: names.map((name, index) => ({ name, type: 'VARCHAR', nulls: index === 0 ? null : 25, changed: 1 })),
        updated: { rows: 2, compared: 2 },
        counted: null,
        covered_to: null,
      },
    ]),
  ),
});

import { expect, it } from 'vitest';
import type { DestinationReport, JobReport } from '../../../src/core/run.js';
import { summarize } from '../../../src/report/summary.js';

const destination: DestinationReport = {
  name: 'crm',
  stream: 'members',
  status: 'ok',
  rows: 3,
  waiting: 0,
  seconds: 1,
  error: null,
};

function lines(waiting: number): string[] {
  const report: JobReport = {
    job: 'nightly',
    run_id: '20260101T000000Z-000000',
    sequence: 1,
    resumed: false,
    status: 'ok',
    streams: [],
    destinations: [{ ...destination, waiting }],
    seconds: 1,
  };
  return summarize(report).map((line) => line.trim());
}

it('a summary says how many rows wait, and nothing where none does', () => {
  expect(lines(1)).toContain('crm: 1 row of members waits, as told before');
  expect(lines(1200)).toContain('crm: 1,200 rows of members wait, as told before');
  expect(lines(0).join('\n')).not.toContain('wait');
});

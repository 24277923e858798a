import { expect, it } from 'vitest';
import type { DestinationReport, JobReport } from '../../../src/core/run-report.js';
import { summarize } from '../../../src/output/summary.js';

const destination: DestinationReport = {
  name: 'crm',
  stream: 'members',
  status: 'ok',
  action: 'increment',
  why: '',
  rows: 3,
  refused: 0,
  seconds: 1,
  error: null,
};

function lines(fields: Partial<DestinationReport>): string[] {
  const report: JobReport = {
    job: 'nightly',
    run_id: '20260101T000000Z-000000',
    sequence: 1,
    resumed: false,
    status: 'ok',
    streams: [],
    destinations: [{ ...destination, ...fields }],
    seconds: 1,
  };
  return summarize(report).map((line) => line.trim());
}

it('a summary counts the rejects, be they values or records, and says why a table was loaded whole', () => {
  expect(lines({ refused: 1 })).toContain('crm: members has 1 reject: cdsync rejects');
  expect(lines({ refused: 1200 })).toContain('crm: members has 1,200 rejects: cdsync rejects');
  expect(lines({ action: 'reload', why: 'rule of "email"' })).toContain(
    'crm: members: reload, because rule of "email"',
  );
  expect(lines({}).join('\n')).not.toMatch(/reject|because/);
});

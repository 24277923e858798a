import { describe, expect, it } from 'vitest';
import type { JobReport } from '../../../src/core/run-report.js';
import { markdownSummary } from '../../../src/output/summary.js';

const error = { code: 'guard_max_deleted', message: 'a | b\n<b>20 %</b>', hint: 'look at it', request_id: null };
const report = {
  job: 'nightly',
  run_id: '20261103T021500Z-9f3a1c',
  sequence: 2,
  resumed: false,
  status: 'partial',
  seconds: 5.8,
  streams: [
    {
      name: 'members',
      status: 'ok',
      rows: 100098,
      inserted: 200,
      updated: 978,
      deleted: 102,
      rejected: 0,
      requests: 300,
      error: null,
    },
    {
      name: 'gold_members',
      status: 'held',
      rows: 3,
      inserted: 0,
      updated: 0,
      deleted: 0,
      rejected: 0,
      requests: 1,
      error,
    },
  ],
  destinations: [
    {
      name: 'crm',
      stream: 'members',
      status: 'ok',
      action: 'increment',
      why: '',
      rows: 1280,
      refused: 0,
      seconds: 1,
      error: null,
    },
  ],
} as unknown as JobReport;

describe('the summary in Markdown', () => {
  it('has the results of streams and deliveries as tables', () => {
    const lines = markdownSummary(report).split('\n');
    expect(lines[0]).toBe('### cdsync: nightly: partial');
    expect(lines[2]).toBe('Run `20261103T021500Z-9f3a1c`, snapshot 2, 5.8 s, 301 requests.');
    expect(lines).toContain('| members | ok | 100,098 | 200 | 978 | 102 | 0 |');
    expect(lines).toContain('| crm | members | ok | increment | 1,280 | 0 |');
  });

  it('has the warnings of the run and of its streams', () => {
    const warning = { code: 'clock_off', message: 'the clock is off' };
    const [first] = report.streams;
    const streams = [{ ...first, warnings: [{ ...warning, message: 'no rows' }] }] as JobReport['streams'];
    const lines = markdownSummary({ ...report, streams, warnings: [warning] }).split('\n');
    expect(lines).toContain('- warning: **nightly**: the clock is off');
    expect(lines).toContain('- warning: **members**: no rows');
  });

  it('names no key of a record that a guard has found', () => {
    const findings = [{ guard: 'max_deleted', message: '3 of 9 rows deleted' }];
    const held = { ...error, message: '3 of 9 rows deleted: ann@example.com' };
    const streams = [{ ...report.streams[1], error: held, findings }] as JobReport['streams'];
    const text = markdownSummary({ ...report, streams });
    expect(text).toContain('3 of 9 rows deleted');
    expect(text).not.toContain('ann@');
  });

  it('lets no message break a table, or be Markdown or HTML', () => {
    const text = markdownSummary(report);
    expect(text).toContain('- **gold\\_members**: a \\| b \\<b\\>20 %\\</b\\> (guard_max_deleted). look at it');
  });
});

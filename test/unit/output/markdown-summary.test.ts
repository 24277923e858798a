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
  it('says what the run did, as tables', () => {
    const lines = markdownSummary(report).split('\n');
    expect(lines[0]).toBe('### cdsync: nightly: partial');
    expect(lines[2]).toBe('Run `20261103T021500Z-9f3a1c`, snapshot 2, 5.8 s, 301 requests.');
    expect(lines).toContain('| members | ok | 100,098 | 200 | 978 | 102 | 0 |');
    expect(lines).toContain('| crm | members | ok | increment | 1,280 | 0 |');
  });

  it('lets no message break a table, or be Markdown or HTML', () => {
    const text = markdownSummary(report);
    expect(text).toContain('- **gold\\_members**: a \\| b \\<b\\>20 %\\</b\\> (guard_max_deleted). look at it');
  });
});

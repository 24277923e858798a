import { expect, it } from 'vitest';
import { summarize } from '../../../src/output/summary.js';
import { destinationReport, pastReport, streamReport } from '../../fixtures/run-ends.js';

it('an empty line separates the table of destinations from the table of streams and its notes', () => {
  const destinations = [destinationReport()];
  for (const cached of [0, 900]) {
    const lines = summarize({ ...pastReport(1, [streamReport({ recognised: cached })]), destinations });
    const at = lines.findIndex((line) => line.trim().startsWith('destination'));
    expect([lines[at - 1], lines[at - 2]]).toEqual(['', expect.stringMatching(/\S/)]);
  }
});

it.each(['ok', 'held', 'partial', 'failed', 'interrupted'] as const)(
  'the first line has the status %s, as --json',
  (status) => {
    const [first = ''] = summarize({ ...pastReport(1, [streamReport()]), status });
    expect(first).toMatch(new RegExp(`^job nightly: ${status} in `));
  },
);

it('no line of the tables is wider than a narrow terminal, and no figure is left out', () => {
  const report = pastReport(1, [streamReport({ name: 'loyalty_members', rows: 100_098, unchanged: 98_920 })]);
  const destinations = [destinationReport({ name: 'warehouse', stream: 'loyalty_members', rows: 1_234_567 })];
  const [, ...lines] = summarize({ ...report, destinations }, { width: 40 });
  expect(lines.filter((line) => line.length > 40)).toEqual([]);
  for (const text of ['rows 100,098', 'unchanged 98,920', 'status ok', 'rows 1,234,567'])
    expect(lines.join()).toContain(text);
  expect(summarize({ ...report, destinations }, { width: 120 })).toEqual(summarize({ ...report, destinations }));
});

it('the reason of a load is shown once for all streams that have it', () => {
  const load = (name: string, stream: string, why: string) =>
    destinationReport({ name, stream, action: 'create', why });
  const lines = summarize({
    ...pastReport(1, [streamReport()]),
    destinations: [load('crm', 'a', 'it is new'), load('crm', 'b', 'it is new'), load('lake', 'a', 'it is new')],
  });
  expect(lines.filter((line) => line.includes('because'))).toEqual([
    '  crm: a, b: create, because it is new',
    '  lake: a: create, because it is new',
  ]);
});

it('the notes of a delivery of files are shown', () => {
  const gone = '1 file with forgotten people had been taken away';
  const load = { name: 'partner', action: 'export', files: ['members_1.csv'] } as const;
  const lines = summarize({
    ...pastReport(1, [streamReport()]),
    destinations: [
      destinationReport({ ...load, stream: 'a', why: gone }),
      destinationReport({ ...load, stream: 'b', why: '' }),
      destinationReport({ ...load, stream: 'c', action: 'nothing', files: [], why: 'rules have changed' }),
    ],
  });
  expect(lines.filter((line) => line.includes('partner: '))).toEqual([
    `  partner: a: export: ${gone}`,
    '  partner: c: nothing: rules have changed',
  ]);
});

it('one cause is shown once, however often each request was tried', () => {
  const error = (times: number) => ({
    ...{ code: 'unreachable', hint: 'is it right?', request_id: null },
    message: `POST /token could not reach example.com, tried ${times} times`,
  });
  const failed = [3, 4, 3].map((times, index) =>
    streamReport({ name: `s${index}`, status: 'failed', error: error(times) }),
  );
  const lines = summarize(pastReport(1, failed)).filter((line) => /example|right/.test(line));
  expect(lines).toEqual([
    '  s0, s1, s2: POST /token could not reach example.com, tried 3 times [unreachable]',
    '    is it right?',
  ]);
});

import { expect, it } from 'vitest';
import { summarize } from '../../../src/output/summary.js';
import { destinationReport, pastReport, streamReport } from '../../fixtures/run-ends.js';

it('the table of destinations stands apart from the table of streams, and from the notes below it', () => {
  const destinations = [destinationReport()];
  for (const recognised of [0, 900]) {
    const lines = summarize({ ...pastReport(1, [streamReport({ recognised })]), destinations });
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

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

import { expect, it } from 'vitest';
import { streamNotes } from '../../../src/core/run-report.js';
import { streamTable } from '../../../src/pages/streams.js';
import { streamReport } from '../../fixtures/run-ends.js';

it('the terminal and the page say the same of a stream, each count once', () => {
  const stream = streamReport({
    duplicates: 1,
    rejected: 2,
    discarded_values: 1_200,
    retries: 3,
    throttled: 1,
    partitions: { by: ['city'], chains: 4, missed: 0 },
  });
  const notes = streamNotes(stream);
  expect(notes).toEqual([
    '1 record came twice; the last copy counts',
    '2 records could not be kept; see cdsync.rejects',
    '1,200 values did not fit and became NULL; see cdsync.rejects',
    '3 requests sent again (1 for status 429)',
    'read in 4 parts by city; by the totals they left something out, and one more pass over the whole list brought nothing more',
  ]);
  expect(String(streamTable([stream], []).text)).toContain(notes.join('; '));
  expect(streamNotes(streamReport())).toEqual([]);
});

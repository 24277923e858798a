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
  const notes = streamNotes(stream, 'RUN');
  expect(notes).toEqual([
    '1 record came twice; the last copy counts',
    '2 records could not be kept; see cdsync.rejects',
    '1,200 values did not fit and became NULL; see cdsync.rejects',
    '3 requests sent again (1 for status 429)',
    'read in 4 parts by city; by the totals they left something out, and one more pass over the whole list brought nothing more',
  ]);
  expect(String(streamTable({ streams: [stream], run_id: 'RUN' }, []).text)).toContain(notes.join('; '));
  expect(streamNotes(streamReport(), 'RUN')).toEqual([]);
});

it('rejects are said to be where they are: of a held stream in its held run, of a failed one nowhere', () => {
  const error = { code: 'guard_max_rejected', message: 'too many', hint: null, request_id: null };
  const held = streamReport({ status: 'held', rejected: 2, discarded_values: 1, error });
  expect(streamNotes(held, 'RUN')).toEqual([
    '2 records could not be kept; see: cdsync diff --held RUN members',
    '1 value did not fit and became NULL; see: cdsync diff --held RUN members',
  ]);
  expect(streamNotes(streamReport({ status: 'failed', rejected: 2, error }), 'RUN')).toEqual([
    '2 records could not be kept',
  ]);
});

it('a list that cdsync has read once more says so, with the reason', () => {
  const passes = [
    { reason: 'types', records: 3378, added: 3378 } as const,
    { reason: 'parts', records: 9, added: 1 } as const,
  ];
  expect(streamNotes(streamReport({ passes }), 'RUN')).toEqual([
    'read once more (3,378 records), because a column got another type',
  ]);
});

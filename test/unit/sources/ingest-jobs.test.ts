import { expect, it } from 'vitest';
import { streamSource } from '../../../src/sources/declaration.js';
import { ingestJobs } from '../../../src/sources/ingest-jobs.js';

const dayMs = 86_400_000;
const { unfinished } = streamSource(ingestJobs, { since: '2026-01-01' });

it.each([
  ['without tables', { tables: [] }, true],
  ['whose tables are not there yet', {}, true],
  ['with a table that runs', { tables: [{ state: 'succeeded' }, { state: 'in progress' }] }, true],
  ['with a table of nothing', { tables: [null] }, true],
  ['whose tables have all ended', { tables: [{ state: 'succeeded' }, { state: 'failed' }] }, false],
])('a job %s is asked for by its id again, for seven days at most', (_, job, isOpen) => {
  expect(unfinished?.is(job, 0)).toBe(isOpen);
  expect(unfinished?.is(job, 7 * dayMs)).toBe(isOpen);
  // The service has forgotten it: its stored row stays, and no request asks for it.
  expect(unfinished?.is(job, 7 * dayMs + 1)).toBe(false);
});

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { findingsShown, jobStatus, statusLines } from '../../../src/output/status.js';
import { writeFeed } from '../../../src/snapshot/feed.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { destinationReport, pastReport, streamReport } from '../../fixtures/run-ends.js';

const error = (code: string, message: string) => ({ code, message, hint: null, request_id: null });

it('says why streams and deliveries failed in the last run; held results and places that are up to date have lines of their own', async () => {
  const layout = new JobLayout(await mkdtemp(join(tmpdir(), 'status-')), 'nightly');
  await mkdir(layout.reports, { recursive: true });
  const content = { rows: 1, key: ['id'], columns: [], definition: {}, snapshot: [], changes: [] };
  const commit = { run_id: 'r', sequence: 2, synced_at: '2026-01-02T00:00:00.000Z' };
  const since = { complete_since: 2, complete_since_run: null };
  await writeFeed(layout, { version: 1, stream: 'a', store_id: 's', ...commit, ...content, ...since });
  const refused = error('destination_unavailable', 'it refuses');
  const report = {
    ...pastReport(2, [
      streamReport({ name: 'a' }),
      streamReport({ name: 'b', status: 'failed', error: error('index_not_found', 'no index "x"\nit has "y"') }),
      streamReport({ name: 'c', status: 'held', error: error('guard_max_deleted', 'too many') }),
    ]),
    destinations: [
      destinationReport({ name: 'pg', stream: 'a', status: 'failed', error: refused }),
      destinationReport({ name: 'pg', stream: 'never', status: 'failed', error: refused }),
    ],
  };
  await writeFile(layout.report(report.run_id), JSON.stringify({ status: 'failed', jobs: [report], error: null }));
  const status = await jobStatus(layout, ['a', 'b', 'c'], [{ name: 'pg', streams: ['a', 'never'] }]);
  expect(status.failures).toEqual([
    { streams: ['b'], destination: null, code: 'index_not_found', message: 'no index "x"\nit has "y"' },
    { streams: ['a'], destination: 'pg', code: 'destination_unavailable', message: 'it refuses' },
  ]);
  const lines = statusLines(status, 0);
  const at = lines.indexOf('  b: failed in the last run: no index "x" [index_not_found]');
  expect(lines.slice(at, at + 4)).toEqual([
    '  b: failed in the last run: no index "x" [index_not_found]',
    '  it has "y"',
    '  pg: a: failed in the last run: it refuses [destination_unavailable]',
    '',
  ]);
});

it('names keys of held records to people, and not to a program that runs a model', () => {
  const figures = '2 of 4 rows deleted (50%); the limit is 10%';
  const findings = [
    { guard: 'max_deleted', message: `${figures}: ann@example.com, …`, figures },
    { guard: 'min_rows', message: '2 rows; the minimum is 3' },
  ];
  expect(findingsShown(findings, true)[0]?.message).toContain('ann@example.com');
  expect(findingsShown(findings, false)).toEqual([
    { guard: 'max_deleted', message: figures },
    { guard: 'min_rows', message: '2 rows; the minimum is 3' },
  ]);
});

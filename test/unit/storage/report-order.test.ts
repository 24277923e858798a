import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { newRunId } from '../../../src/core/run-report.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { recentReports } from '../../../src/storage/reports.js';

const hour = 3_600_000;

it('a run whose clock was two days ahead is not the last one', async () => {
  const storage = await mkdtemp(join(tmpdir(), 'cdsync-reports-'));
  try {
    const layout = new JobLayout(storage, 'job');
    await mkdir(layout.reports, { recursive: true });
    const ids: string[] = [];
    // Hours before now at which each run really ended, its clock's error, and the snapshot that it left.
    for (const [ago, aheadMs, sequence] of [
      [5, 0, 1],
      [4, 48 * hour, 2],
      [3, 0, 2],
      [2, 0, 3],
    ] as const) {
      const endedAt = Date.now() - ago * hour;
      const id = newRunId(endedAt + aheadMs);
      ids.unshift(id);
      await writeFile(layout.report(id), JSON.stringify({ jobs: [{ run_id: id, sequence, streams: [] }] }));
      await utimes(layout.report(id), endedAt / 1000, endedAt / 1000);
    }
    const order = async (most: number, until?: string) =>
      (await recentReports(layout, most, until)).map(({ jobs }) => jobs[0]?.run_id);
    expect(await order(10)).toEqual(ids);
    expect(await order(1)).toEqual(ids.slice(0, 1));
    expect(await order(10, ids[1])).toEqual(ids.slice(1));
    expect(await order(10, ids[2])).toEqual(ids.slice(2));
  } finally {
    await rm(storage, { recursive: true });
  }
});

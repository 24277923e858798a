import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import type { JobReport } from '../../../src/core/run-report.js';
import { type FinishedRun, finishRun } from '../../../src/engine/finish-run.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { pastRuns } from '../../../src/storage/reports.js';
import { members, parse, withStream } from '../config/sample.js';

describe('what follows from a run', () => {
  it('is the page and then the notifications; what fails becomes one notice, and the rest is still done', async () => {
    const notices: string[] = [];
    const reported: string[] = [];
    const run = (finished: (report: JobReport) => Promise<void>) =>
      ({
        config: parse(withStream(...members)),
        job: { name: 'a', destinations: ['lake'] },
        layout: new JobLayout('/dev/null', 'nightly'),
        report: { run_id: '20261101T020000Z-aaaaaa' },
        clock: { now: () => 0 },
        notice: (line: string) => notices.push(line),
        afterRun: { finished },
      }) as unknown as FinishedRun;
    await finishRun(run(async ({ run_id: id }) => void reported.push(id)));
    expect(reported).toEqual(['20261101T020000Z-aaaaaa']);
    expect(notices).toEqual([expect.stringMatching(/^warning: after the run, writing its page failed: /)]);
    notices.length = 0;
    await finishRun(run(() => Promise.reject(new CdsyncError('no response', { code: 'timeout' }))));
    expect(notices[1]).toBe('warning: after the run, notifying failed: no response');
    expect(notices).toHaveLength(2);
  });
});

describe('the past runs of a job', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-past-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('come newest first, without reports that cannot be read', async () => {
    const layout = new JobLayout(folder, 'nightly');
    expect(await pastRuns(layout, 30)).toEqual([]);
    await mkdir(layout.reports, { recursive: true });
    const keep = (
      id: string,
      text = JSON.stringify({ status: 'ok', jobs: [{ run_id: id, streams: [] }], error: null }),
    ) => writeFile(layout.report(id), text);
    await keep('20261101T020000Z-aaaaaa');
    await keep('20261103T020000Z-cccccc');
    await keep('20261102T020000Z-bbbbbb', '{"status": "ok", "jobs": [{');
    await keep('20261104T020000Z-dddddd', 'null');
    await keep('20261105T020000Z-eeeeee', '{"status": "failed", "jobs": []}');
    await writeFile(join(layout.reports, 'index.html'), '<!doctype html>');
    const found = await pastRuns(layout, 30);
    expect(found.map(({ report }) => report.run_id)).toEqual(['20261103T020000Z-cccccc', '20261101T020000Z-aaaaaa']);
    expect(found[0]?.startedAt).toBe(Date.parse('2026-11-03T02:00:00Z'));
    expect(await pastRuns(layout, 1)).toHaveLength(1);
  });
});

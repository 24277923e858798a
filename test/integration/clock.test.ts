import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const shim = fileURLToPath(new URL('../fixtures/shifted-clock.mjs', import.meta.url));
const tenYears = 10 * 365 * 86_400_000;

async function serve(n: number): Promise<void> {
  const records = ['a', 'b', 'c'].map((id) => JSON.stringify({ id, index_id: 'made', attributes: { n } }));
  await space.control('profiles', { index: 'made', records });
}

/** A run of a process whose clock is ahead. */
async function runAhead(name: string, aheadMs: number, more: Record<string, string> = {}): Promise<RunReport> {
  const env = { NODE_OPTIONS: `--import ${pathToFileURL(shim)}`, CLOCK_AHEAD_MS: String(aheadMs), ...more };
  const child = space.spawn(['run', `${name}.json`, '--json'], env);
  let text = '';
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) text += chunk;
  return JSON.parse(text) as RunReport;
}

it('a run whose clock is ten years ahead says so and removes nothing; the next ones continue as before', async () => {
  const job = { guards: { max_changed: 'off' } };
  await space.configure('jumped', [{ name: 'made', source: 'index_profiles', index: 'made' }], { job });
  for (const n of [1, 2, 3]) {
    await serve(n);
    await space.runWell('jumped');
  }
  const kept = async () => ({
    rows: (await space.query('jumped', 'select count(*)::int as n from made__changes where n in (2, 3)'))[0]?.n,
    files: (await readdir(join(space.jobFolder('jumped'), 'parquet', 'made', 'changes'))).length,
  });
  const before = await kept();
  expect(before.rows).toBe(6);
  await serve(4);
  const jumped = await runAhead('jumped', tenYears);
  expect([jumped.status, jumped.jobs[0]?.warnings]).toEqual([
    'ok',
    [
      {
        code: 'clock_off',
        message: expect.stringMatching(/clock of this machine is 3650 days ahead of the service's/),
      },
    ],
  ]);
  expect(await kept()).toEqual({ rows: 6, files: before.files + 1 });

  await serve(5);
  const next = await space.runWell('jumped');
  expect([next.sequence, next.warnings, next.streams[0]?.updated]).toEqual([5, [], 3]);
  expect((await kept()).rows).toBe(6);
  const { stdout } = await space.cdsync(['status', 'jumped.json']);
  expect(stdout).not.toMatch(/-\d+(\.\d+)? (s|min|h|days)/);
  const runs = stdout.split('\n').filter((line) => /^ {2}\d{8}T/.test(line));
  expect(runs[0]).toContain(next.run_id);
  expect(runs[1]).toContain('a clock was ahead');
  expect((await space.cdsync(['verify', 'jumped.json'])).code).toBe(0);
});

it('a clock that jumps a year ahead within a run removes nothing of history and changes', async () => {
  await space.configure('leap', [{ name: 'made', source: 'index_profiles', index: 'made' }], {
    job: { guards: { max_changed: 'off' } },
  });
  for (const n of [1, 2, 3]) {
    await serve(n);
    await space.runWell('leap');
  }
  const kept = async () => {
    const [row] = await space.query(
      'leap',
      `select (select count(*)::int from made__changes) as changes, (select count(*)::int from made__history) as spans,
         (select count(*)::int from made__changes where n in (2, 3)) as earlier`,
    );
    return { ...row, files: (await readdir(join(space.jobFolder('leap'), 'parquet', 'made', 'changes'))).length };
  };
  const before = await kept();
  expect(before).toMatchObject({ changes: 6, earlier: 6, spans: 9 });
  await serve(4);
  const runs = join(space.jobFolder('leap'), '.cdsync', 'runs');
  expect((await runAhead('leap', tenYears / 10, { CLOCK_JUMPS_IN: runs })).status).toBe('ok');
  expect(await kept()).toEqual({ changes: 9, earlier: 6, spans: 12, files: before.files + 1 });
  await serve(5);
  await space.runWell('leap');
  expect(await kept()).toMatchObject({ changes: 12, earlier: 6, spans: 15 });
});

it.each([
  ['right', 0, true],
  ['far ahead', tenYears, false],
])('a checkpoint of a run whose clock was %s: resumed after %i ms ahead: %j', async (_, aheadMs, resumed) => {
  const name = `stale_${String(resumed)}`;
  await space.configure(name, [{ name: 'made', source: 'index_profiles', index: 'made', page_size: 1 }]);
  await serve(1);
  await space.control('faults', { kind: 'status', status: 403, match: '/profiles', after: 2, count: 1 });
  expect((await runAhead(name, aheadMs)).status).not.toBe('ok');
  await space.clearFaults();
  expect(await space.runWell(name)).toMatchObject({ resumed });
});

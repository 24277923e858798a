import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobState } from '../../src/engine/admin/job-state.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 2000 });
});
afterAll(() => space.close());

async function state(job: string, words: readonly string[] = []): Promise<JobState> {
  const { stdout, stderr } = await space.cdsync(['state', 'show', `${job}.json`, '--json', ...words]);
  return JSON.parse(stdout || stderr) as JobState;
}

const reset = (job: string, ...words: string[]) => space.cdsync(['state', 'reset', `${job}.json`, '--json', ...words]);

/** Partitions in the journal of a running run. */
async function readSoFar(job: string): Promise<number> {
  const files = (await space.files(job).catch(() => [])).filter((file) => file.endsWith('journal.jsonl'));
  const names = new Set<string>();
  for (const file of files) {
    const lines = (await readFile(join(space.jobFolder(job), file), 'utf8').catch(() => '')).split('\n').slice(0, -1);
    for (const line of lines) for (const name of Object.keys(JSON.parse(line).cursors ?? {})) names.add(name);
  }
  return names.size;
}

/** Runs a job until its journal has two partitions, then kills it. */
async function cutShort(job: string): Promise<void> {
  await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 40, share: 1 });
  const run = space.spawn(['run', `${job}.json`, '--quiet']);
  const gone = new Promise((resolve) => run.once('close', resolve));
  while ((await readSoFar(job)) < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  run.kill('SIGKILL');
  await gone;
  await space.clearFaults();
}

const members = (partition: Record<string, unknown>) => [
  { name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 10, partition_by: partition },
];

describe('the checkpoint of an interrupted run', () => {
  it('is shown by partition, and forgotten by partition: a run resumes the others', async () => {
    await space.configure('cut', members({ attribute: 'country', values: ['US', 'DE'] }));
    await cutShort('cut');
    const { partitions } = await state('cut');
    expect(partitions.map(({ stream, name }) => [stream, name])).toEqual([
      ['members', 'US'],
      ['members', 'DE'],
    ]);
    const [us = { pages: 0 }, de = { pages: 0 }] = partitions;
    expect(Math.min(us.pages, de.pages)).toBeGreaterThan(0);
    expect(JSON.parse((await reset('cut', '--stream', 'members', '--partition', 'US')).stdout)).toMatchObject({
      streams: [{ name: 'members', checkpoints: [expect.stringMatching(/^\d{8}T/)], covered: false }],
    });
    expect((await state('cut')).partitions.map(({ pages }) => pages)).toEqual([0, de.pages]);
    const report = await space.runWell('cut');
    expect(report.resumed).toBe(true);
    const { rows, inserted, duplicates } = streamOf(report, 'members');
    expect([rows, inserted]).toEqual([2000, 2000]);
    // The forgotten partition is read again, and its records count once. Records that the pass over the whole list returned again are reported as its own.
    const [all] = await space.query('cut', "select count(*)::int as us from members where country = 'US'");
    expect(duplicates).toBe(Math.min(us.pages * 10, Number(all?.us)));
  });

  it('shows no value of a record that the configuration does not list, except on request', async () => {
    await space.configure('unlisted', members({ attribute: 'country' }));
    await space.runWell('unlisted');
    await cutShort('unlisted');
    const names = (await state('unlisted')).partitions.map(({ name }) => name);
    expect(names.length).toBeGreaterThan(1);
    expect(names.every((name) => /^value-\d+$/.test(name))).toBe(true);
    expect((await state('unlisted', ['--show-values'])).partitions.map(({ name }) => name)).toContain('US');
    const begun = (await state('unlisted')).partitions.find(({ pages }) => pages > 0)?.name;
    expect((await reset('unlisted', '--stream', 'members', '--partition', String(begun))).code).toBe(0);
    expect((await state('unlisted')).partitions.find(({ name }) => name === begun)?.pages).toBe(0);
  });

  it('is refused for an unknown name, and without its stream', async () => {
    const wrong = await reset('cut', '--stream', 'members', '--partition', 'FR');
    expect([wrong.code, JSON.parse(wrong.stdout).error.code]).toEqual([2, 'partition_not_found']);
    expect((await reset('cut', '--partition', 'US')).code).toBe(2);
  });
});

describe('a window of time', () => {
  it('that was read for good is read again once it is forgotten', async () => {
    const day = 86_400_000;
    const ago = (days: number) => new Date(Math.floor(Date.now() / day) * day - days * day).toISOString();
    await space.configure('windows', [{ name: 'audit', source: 'audit_events', lag_ms: 0 }]);
    const { rows } = streamOf(await space.runWell('windows'), 'audit');
    await space.control('audit', { events: [{ happened_at: ago(9.5) }, { happened_at: ago(19.5) }] });
    expect(streamOf(await space.runWell('windows'), 'audit').inserted).toBe(0);
    const window = `${ago(10)}/${ago(9)}`;
    expect((await reset('windows', '--stream', 'audit', '--partition', window)).code).toBe(0);
    expect((await state('windows')).streams[0]?.covered).toHaveLength(2);
    const { inserted, rows: after } = streamOf(await space.runWell('windows'), 'audit');
    expect([inserted, after]).toEqual([1, rows + 1]);
    expect((await state('windows')).streams[0]?.covered).toHaveLength(1);
    expect((await reset('windows', '--stream', 'audit', '--partition', '2001-01-01/2001-02-01')).code).toBe(2);
  });
});

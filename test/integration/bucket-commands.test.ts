import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import type { RunReport } from '../../src/core/run-report.js';
import { type FileKind, kindOf } from '../../src/object-store/required-files.js';
import { isLink, type Work } from '../../src/object-store/state.js';
import type { Machines } from '../fixtures/machines.js';
import { SharedBucket } from '../fixtures/shared-bucket.js';
import { ended, type Workspace } from '../fixtures/workspace.js';

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const open = { guards: { max_deleted: '100%', max_changed: '1000%' } };

let bucket: SharedBucket;
let space: Workspace;

beforeAll(async () => {
  bucket = await SharedBucket.open();
  ({ space } = bucket);
});
afterAll(() => bucket.close());
afterEach(() => space.clearFaults());

const machines = (job: Record<string, unknown> = {}) => bucket.machines({ streams: [members], ...open, ...job });

/** The kinds of the files that a machine has, but for small ones. */
async function kindsAt(all: Machines, machine: string): Promise<FileKind[]> {
  const found = await entriesBelow(all.cache(machine));
  const paths = found.flatMap((each) =>
    each.isFile() ? join(each.parentPath, each.name).slice(all.cache(machine).length + 1) : [],
  );
  return [...new Set(paths.map(kindOf))].filter((kind) => kind !== 'small').sort();
}

/** A command on a machine that has nothing yet: its document, and the kinds of files that it fetched. */
async function onNewMachine(all: Machines, words: readonly string[]) {
  await rm(all.cache('new'), { recursive: true, force: true });
  await rm(join(all.cache('new'), '..', '.bucket'), { recursive: true, force: true });
  await all.add('new');
  const ended = await space.cdsync([...words.slice(0, 1), 'new.json', ...words.slice(1)]);
  return { ...ended, fetched: await kindsAt(all, 'new') };
}

/** A run that a guard holds on machine `a`. @returns its run id */
async function heldDay(all: Machines): Promise<string> {
  for (let day = 0; day < 3; day += 1) await space.control('change', { days: 10 });
  const { code, report } = await all.run('a');
  expect(code).toBe(3);
  return report.jobs[0]?.run_id ?? '';
}

describe('commands that only look at a job in a bucket', () => {
  it('see the newest snapshot, and fetch only the kinds of files that they read', async () => {
    const { all } = await machines();
    await all.runWell('a');
    await space.control('change', { days: 1 });
    const { run_id: newest } = await all.runWell('a');
    const cases: readonly [words: string[], fetched: FileKind[], says: string][] = [
      [['status', '--json'], [], newest],
      [['report', '--json'], ['page'], newest],
      [['check', '--json'], [], '"ok"'],
      [['check', '--contract', '--json'], ['published'], '"ok"'],
      [['plan', '--json', '--quiet'], ['published'], '"sequence":2'],
      [['query', 'select run_id from cdsync.freshness', '--format', 'json'], ['published'], newest],
      [['diff', 'members', '--json'], ['published'], '"inserted"'],
      [['schema', '--dbt', '--json'], ['published'], 'members'],
      [['verify', '--json'], ['known', 'page', 'published', 'rows', 'store'], '"ok"'],
    ];
    for (const [words, fetched, says] of cases) {
      const result = await onNewMachine(all, words);
      expect([words, result.code, result.fetched, result.stderr]).toEqual([words, 0, fetched, expect.any(String)]);
      expect(result.stdout).toContain(says);
      JSON.parse(result.stdout);
    }
    const { code, stdout } = await space.cdsync(['state', 'show', 'new.json', '--json']);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { job: 'nightly' }]);
  });
});

describe('held changes', () => {
  it.each([
    ['Parquet', {}, ['held', 'rows']],
    ['the database alone', { parquet: { enabled: false } }, ['held', 'published']],
  ])('are compared on another machine with the snapshot in %s, and with nothing else', async (_, more, fetched) => {
    const { all, prefix } = await machines({ guards: { max_changed: '20%', max_deleted: '100%' }, ...more });
    await all.runWell('a');
    await space.control('change', { days: 1 });
    await all.runWell('a');
    const run = await heldDay(all);
    const shown = await onNewMachine(all, ['diff', 'members', '--held', run, '--json']);
    expect([shown.code, shown.fetched, shown.stderr]).toEqual([0, fetched, expect.any(String)]);
    const snapshots = await readdir(join(all.cache('new'), 'parquet', 'members', 'snapshot'), {
      recursive: true,
    }).catch(() => []);
    expect(snapshots.filter((path) => path.endsWith('.parquet')).length).toBe(fetched.includes('rows') ? 1 : 0);
    const { updated } = JSON.parse(shown.stdout) as { updated: number };
    const approved = await onNewMachine(all, ['approve', run, '--json']);
    expect([approved.code, JSON.parse(approved.stdout)]).toMatchObject([
      0,
      { jobs: [{ sequence: 3, streams: [{ updated }] }] },
    ]);
    expect(await all.query('b', "select count(*)::int as n from members__changes where _op = 'update'")).toEqual([
      { n: expect.any(Number) },
    ]);
    const { report } = await all.run('b');
    expect(report.jobs[0]).toMatchObject({ status: 'ok', sequence: 3 });
    expect((await bucket.state(prefix)).files.filter(({ path }) => path.includes('held.json'))).toEqual([]);
  });

  it('are discarded on another machine, for all machines', async () => {
    const { all } = await machines({ guards: { max_changed: '20%', max_deleted: '100%' } });
    await all.runWell('a');
    const run = await heldDay(all);
    const discarded = await onNewMachine(all, ['discard', run, '--json']);
    // The page of the run is written again: nothing of it is held any more.
    expect([discarded.code, discarded.fetched, JSON.parse(discarded.stdout)]).toEqual([
      0,
      ['page'],
      { run_id: run, discarded: ['members'] },
    ]);
    const again = await all.cdsync('a', 'discard', run, '--json');
    expect([again.code, JSON.parse(again.stdout)]).toMatchObject([2, { error: { code: 'not_held' } }]);
  });

  it('are approved by one machine while another runs: one works, one exits with 75, and nothing is lost', async () => {
    const { all } = await machines({ guards: { max_changed: '20%', max_deleted: '100%' } });
    await all.runWell('a');
    const run = await heldDay(all);
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 600 });
    const running = all.spawn('a');
    const done = ended(running);
    await expect
      .poll(async () => (await all.cdsync('b', 'status')).stderr, { timeout: 30_000 })
      .toContain('is being worked on by process');
    const refused = await all.cdsync('b', 'approve', run, '--json');
    expect([refused.code, JSON.parse(refused.stdout)]).toMatchObject([
      75,
      { status: 'locked', error: { code: 'locked' } },
    ]);
    const { code, stdout } = await done;
    expect(code).toBe(3);
    // The run read everything again, and its held changes replaced those of the earlier run.
    const again = (JSON.parse(stdout) as RunReport).jobs[0]?.run_id ?? '';
    const approved = await all.cdsync('b', 'approve', again, '--json');
    expect([approved.code, JSON.parse(approved.stdout)]).toMatchObject([0, { jobs: [{ sequence: 2 }] }]);
    expect((await all.runWell('a')).sequence).toBe(2);
  });
});

describe('a workflow that a killed run has started', () => {
  it('is followed by the run on another machine, not started again', async () => {
    const { all, prefix } = await machines({ before: [{ start_workflow: { config_id: 'cg-1' } }] });
    await space.control('stats/reset');
    const first = all.spawn('a');
    const done = ended(first);
    const left = async () => {
      const work = await bucket.document<Work>(prefix, 'work.json').catch(() => undefined);
      const file = work?.files.find(({ path }) => path === '.cdsync/workflows.json');
      if (file === undefined || isLink(file)) return [];
      return (await bucket.document<{ runs: unknown[] }>(prefix, `objects/${file.sha256}`)).runs;
    };
    await expect.poll(left, { timeout: 30_000, interval: 50 }).toHaveLength(1);
    first.kill('SIGKILL');
    await done;
    const { code, stderr } = await all.run('b');
    expect([code, stderr]).toEqual([0, expect.stringContaining('which an interrupted run has started')]);
    const started = Object.entries(await space.operations()).filter(([name]) => /^POST .*workflow/i.test(name));
    expect(started.map(([, count]) => count)).toEqual([1]);
    expect((await bucket.state(prefix)).files.some(({ path }) => path.includes('workflows.json'))).toBe(false);
  });
});

describe('a workflow whose start a killed run has asked for', () => {
  it('is looked for by the run on another machine, before that starts it again', async () => {
    const { all } = await machines({ before: [{ start_workflow: { config_id: 'cg-1' } }] });
    await space.control('stats/reset');
    await space.control('faults', { kind: 'slow', match: '/workflow/runs', delay_ms: 3_000 });
    const starts = async () =>
      Object.entries(await space.operations())
        .filter(([name]) => /^POST .*workflow/i.test(name))
        .reduce((sum, [, count]) => sum + count, 0);
    const first = all.spawn('a');
    const done = ended(first);
    await expect.poll(starts, { timeout: 60_000, interval: 50 }).toBe(1);
    first.kill('SIGKILL');
    await done;
    await space.clearFaults();
    const { stderr } = await all.run('b');
    expect(stderr).toContain('requested its start; looking whether it has started');
  }, 180_000);
});

describe('commands that change a job in a bucket', () => {
  it('push from a machine that has nothing: the rows or changes that a destination lacks, and no more', async () => {
    const warehouse = join(space.folder, 'warehouse.duckdb');
    const destinations = [{ name: 'wh', connector: 'duckdb', path: warehouse, mode: 'mirror' }];
    const { all, prefix } = await machines({ destinations });
    await all.runWell('a', '--no-push');
    const first = await onNewMachine(all, ['push', '--json']);
    expect([first.code, first.fetched, first.stderr]).toEqual([0, ['rows'], expect.any(String)]);
    for (const _ of [1, 2]) {
      await space.control('change', { days: 1 });
      await all.runWell('a', '--no-push');
    }
    const second = await onNewMachine(all, ['push', '--json']);
    expect([second.code, second.fetched]).toEqual([0, ['rows']]);
    const rows = await readdir(join(all.cache('new'), 'parquet', 'members', 'snapshot'), { recursive: true });
    expect(rows.filter((path) => path.endsWith('.parquet'))).toEqual([]);
    const status = await all.cdsync('b', 'status', '--json');
    expect(status.stdout).toContain('"wh"');
    const quiet = await onNewMachine(all, ['push', '--json']);
    expect([quiet.fetched, JSON.parse(quiet.stdout)]).toMatchObject([[], { jobs: [{ destinations: [{ rows: 0 }] }] }]);
    expect((await bucket.state(prefix)).files.some(({ path }) => path.includes('deliveries/wh/state.json'))).toBe(true);
  });

  it('erase and prune: the other machine has it so', async () => {
    const { all, prefix } = await machines({ keep: { snapshots: 1 } });
    for (const machine of ['a', 'b', 'a', 'b']) {
      await all.runWell(machine);
      await space.control('change', { days: 1 });
    }
    const rows = (await bucket.state(prefix)).files.filter(({ path }) => /\/snapshot\/.*\.parquet$/.test(path));
    expect(new Set(rows.map(({ path }) => path.split('/')[3])).size).toBeLessThanOrEqual(2);
    const [{ id }] = (await all.query('b', 'select id from members order by id limit 1')) as [{ id: string }];
    const erased = await all.cdsync('b', 'forget', 'members', id, '--json');
    expect([erased.code, JSON.parse(erased.stdout)]).toMatchObject([0, { status: 'ok' }]);
    expect(await all.query('a', `select count(*)::int as n from members where id = '${id}'`)).toEqual([{ n: 0 }]);
    const verified = await all.cdsync('a', 'verify', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ status: 'ok' });
    await bucket.put(prefix, 'state.json', '{}', 'left');
    const looked = await all.cdsync('a', 'forget', id, '--everywhere', '--even-if-absent', '--dry-run');
    expect([looked.code, looked.stdout]).toEqual([0, expect.stringContaining('not searched: left, a job')]);
  });

  it('reset how far a stream was read, on whatever machine', async () => {
    const audit = { name: 'audit', source: 'audit_events' };
    const { all } = await machines({ streams: [audit] });
    const { streams } = await all.runWell('a');
    expect((await all.runWell('b')).streams[0]?.rows).toBe(streams[0]?.rows);
    const reset = await space.cdsync(['state', 'reset', 'b.json', '--stream', 'audit', '--json']);
    expect([reset.code, JSON.parse(reset.stdout)]).toMatchObject([
      0,
      { job: 'nightly', streams: [{ name: 'audit', covered: true }] },
    ]);
    const again = await space.cdsync(['state', 'show', 'a.json', '--json']);
    expect(again.code).toBe(0);
    expect((await all.runWell('a')).streams[0]).toMatchObject({ rows: streams[0]?.rows, inserted: 0 });
  });

  it('run several jobs: each is taken and given back alone, in one document', async () => {
    const { all } = await machines();
    for (const machine of ['a', 'b']) {
      const path = join(space.folder, `${machine}.json`);
      const config = JSON.parse(await readFile(path, 'utf8')) as { jobs: Record<string, unknown> };
      config.jobs.gold = { streams: [{ ...members, name: 'gold', filter: { tier: 'gold' } }], ...open };
      await writeFile(path, JSON.stringify(config));
    }
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 600 });
    const done = ended(space.spawn(['run', 'a.json', '--all', '--json', '--quiet']));
    await expect
      .poll(async () => (await all.cdsync('b', 'status', '--job', 'nightly')).stderr, { timeout: 30_000 })
      .toContain('is being worked on by process');
    const { code, report } = await all.run('b', '--all');
    expect([code, report]).toMatchObject([75, { status: 'locked', error: { code: 'locked' } }]);
    const first = await done;
    expect([first.code, JSON.parse(first.stdout)]).toMatchObject([0, { jobs: [{ sequence: 1 }, { sequence: 1 }] }]);
    for (const command of ['status', 'verify', 'plan', 'check', 'report']) {
      const { code, stdout } = await all.cdsync('b', command, '--all', '--json');
      expect([command, code, JSON.parse(stdout)]).toMatchObject([command, 0, { status: 'ok', jobs: [{}, {}] }]);
    }
  });
});

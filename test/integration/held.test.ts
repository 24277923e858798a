import { execFileSync } from 'node:child_process';
import { readdir, readFile, readlink, rename, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

async function serve(count: number, attributes: (n: number) => Record<string, unknown>): Promise<void> {
  const records = Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `r${n}`, index_id: 'made', attributes: attributes(n) }),
  );
  await space.control('profiles', { index: 'made', records });
}

/** A job with 100 rows, then a held run with 90 of them: three have another `n`, and a value in a new column `note`. */
async function heldReport(job: string, more: Record<string, unknown> = {}): Promise<RunReport> {
  await serve(100, (n) => ({ n, tier: 'gold' }));
  await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made', guards: { max_deleted: 5 } }], {
    job: more,
  });
  await space.runWell(job);
  await serve(90, (n) => ({ n: n < 3 ? -n - 1 : n, tier: 'gold', note: n < 3 ? 'secret-note' : null }));
  const { code, report } = await space.run(job);
  expect(code).toBe(3);
  return report;
}

async function heldJob(job: string, more?: Record<string, unknown>): Promise<string> {
  return (await heldReport(job, more)).jobs[0]?.run_id ?? '';
}

describe('held changes', () => {
  it.each([
    ['parquet', {}],
    ['duckdb_alone', { parquet: { enabled: false } }],
  ])('is shown by diff --held, with keys and columns, and values only on request (%s)', async (job, more) => {
    const run = await heldJob(job, more);
    const shown = await space.cdsync(['diff', `${job}.json`, '--held', run, 'made', '--json']);
    expect(JSON.parse(shown.stdout)).toMatchObject({
      stream: 'made',
      inserted: 0,
      updated: 3,
      deleted: 10,
      columns: { n: 3, note: 3 },
    });
    const text = await space.cdsync(['diff', `${job}.json`, '--held', run, 'made']);
    expect(text.stdout).toMatch(/made: 0 inserted, 3 updated, 10 deleted/);
    expect(text.stdout).toMatch(/update +r1 +n, note/);
    expect(text.stdout).not.toContain('secret-note');
    const values = await space.cdsync(['diff', `${job}.json`, '--held', run, 'made', '--show-values']);
    expect(values.stdout).toMatch(/update +r1 .*secret-note/);
    const wrong = await space.cdsync(['diff', `${job}.json`, '--held', '20260101T000000Z-000000', 'made']);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining(`held: ${run} made`)]);
  });

  it('has the report beside the snapshots as it was printed, with commands that name the configuration', async () => {
    const report = await heldReport('kept');
    const run = report.jobs[0]?.run_id ?? '';
    const kept = await readFile(join(space.jobFolder('kept'), 'reports', `${run}.json`), 'utf8');
    expect(JSON.parse(kept)).toEqual(report);
    expect(report.jobs[0]?.streams[0]?.error?.hint).toContain(`cdsync approve kept.json ${run}`);
  });

  it('prints its three commands once: in the last line of the run', async () => {
    await heldJob('once');
    const { code, stdout, stderr } = await space.cdsync(['run', 'once.json']);
    const all = stdout + stderr;
    const times = ['diff', 'approve', 'discard'].map((name) => all.split(`cdsync ${name} once.json`).length - 1);
    expect([code, times]).toEqual([3, [1, 1, 1]]);
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(
      /^look at it: cdsync diff .* \(the last good snapshot(?: of \w+)? is /,
    );
  });

  it('is in status, and each command of its hints works when it is pasted into a shell', async () => {
    const run = await heldJob('spaced');
    await rename(join(space.folder, 'spaced.json'), join(space.folder, 'my spaced.json'));
    const { stdout } = await space.cdsync(['status', 'my spaced.json']);
    expect(stdout).toContain(`made is held, of run ${run}: 0 inserted, 3 updated, 10 deleted`);
    const commands = [...stdout.matchAll(/(?:look at it|approve|discard): +(cdsync .*)$/gm)].map(([, line]) => line);
    expect(commands).toEqual([
      `cdsync diff 'my spaced.json' --held ${run} made`,
      `cdsync approve 'my spaced.json' ${run}`,
      `cdsync discard 'my spaced.json' ${run}`,
    ]);
    const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
    const paste = (line = '') =>
      execFileSync('sh', ['-c', `cdsync() { "${process.execPath}" "${program}" "$@"; }; ${line}`], {
        cwd: space.folder,
        env: { ...process.env, ...space.env },
        encoding: 'utf8',
      });
    expect(paste(commands[0])).toContain('3 updated, 10 deleted');
    expect(paste(commands[1])).toContain(': ok in ');
  });
});

describe('an approved run', () => {
  it('has its rejects also in a copy of the folder, and its report keeps the figures of the reading', async () => {
    const contract = { columns: 'evolve', types: 'discard_value' };
    const stream = { name: 'made', source: 'index_profiles', index: 'made', guards: { max_deleted: 5 }, contract };
    await serve(100, (n) => ({ n }));
    await space.configure('moved', [stream]);
    await space.runWell('moved');
    await serve(90, (n) => ({ n: n < 3 ? 'text' : n }));
    const { code, report } = await space.run('moved', ['--show-values']);
    const [held] = report.jobs;
    expect([code, held?.streams[0]?.discarded_values]).toEqual([3, 3]);
    const [before, after] = ['data', 'data-moved'].map((name) => join(space.folder, name)) as [string, string];
    await rename(before, after);
    await space.configure('moved', [stream], { storage: './data-moved' });
    try {
      const approved = await space.cdsync(['approve', 'moved.json', held?.run_id ?? '', '--json']);
      expect([approved.code, approved.stderr]).toEqual([0, expect.any(String)]);
      const path = join(after, 'moved', 'reports', `${held?.run_id}.json`);
      const kept = JSON.parse(await readFile(path, 'utf8')) as RunReport;
      const { discarded_values, limit, seconds } = held?.streams[0] ?? {};
      expect(kept.jobs[0]?.streams[0]).toMatchObject({ status: 'ok', discarded_values, limit, seconds, deleted: 10 });
    } finally {
      await rename(after, before);
    }
    expect(await space.query('moved', 'select count(*)::int as n from cdsync.rejects')).toEqual([{ n: 3 }]);
  });

  it('is cached by the next run: nothing is converted again', async () => {
    const run = await heldJob('approved');
    expect((await space.cdsync(['approve', 'approved.json', run])).code).toBe(0);
    const report = await space.runWell('approved');
    expect(streamOf(report, 'made')).toMatchObject({ rows: 90, unchanged: 90, recognised: 90, unrecognised: null });
  });

  it('is compared by new hashes if another version of DuckDB has hashed the held rows', async () => {
    const run = await heldJob('rehashed');
    const folder = join(space.jobFolder('rehashed'), '.cdsync', 'runs', run, 'streams', 'made');
    const { crc: _, ...held } = JSON.parse(await readFile(join(folder, 'held.json'), 'utf8'));
    const versions = held.read.parts.map((part: { hash_version: string }) => part.hash_version);
    expect(versions).toEqual(versions.map(() => expect.stringMatching(/:v\d/)));
    for (const part of held.read.parts) part.hash_version = '3:v1.0.0';
    await writeFile(join(folder, 'held.json'), JSON.stringify(held));
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    for (const name of (await readdir(join(folder, 'parts'))).filter((each) => each.endsWith('.keys'))) {
      const path = join(folder, 'parts', name);
      await connection.run(
        `COPY (SELECT * REPLACE (hash(hash) AS hash) FROM read_parquet('${path}')) TO '${path}.new' (FORMAT parquet)`,
      );
      await rename(`${path}.new`, path);
    }
    connection.closeSync();
    instance.closeSync();
    const { code, stdout } = await space.cdsync(['approve', 'rehashed.json', run, '--json']);
    expect([code, JSON.parse(stdout).jobs[0].streams[0]]).toMatchObject([
      0,
      { updated: 3, deleted: 10, unchanged: 87 },
    ]);
  });
});

describe('cdsync.runs of the published file', () => {
  const runs = (job: string) =>
    space.query(job, 'select run_id, sequence::int as sequence, status from cdsync.runs order by started_at, run_id');

  it('has one row for a run whose streams are all held, and the approval replaces that row', async () => {
    const run = await heldJob('shown');
    const [first, held] = await runs('shown');
    expect([first, held]).toMatchObject([
      { sequence: 1, status: 'ok' },
      { run_id: run, sequence: null, status: 'held' },
    ]);
    const refused = await space.cdsync(['diff', 'shown.json', 'made', '--from', run]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(run)]);
    expect((await space.cdsync(['approve', 'shown.json', run])).code).toBe(0);
    expect(await runs('shown')).toEqual([first, { run_id: run, sequence: 2, status: 'ok' }]);
  });

  it('has a run that failed in part at once, and its report keeps what failed when the rest is approved', async () => {
    await serve(20, (n) => ({ n }));
    const made = (guards: object) => ({ name: 'made', source: 'index_profiles', index: 'made', guards });
    const whole = { name: 'whole', source: 'index_profiles', index: 'made' };
    await space.configure('mixed', [made({}), whole]);
    await space.runWell('mixed');
    await space.configure('mixed', [made({ min_rows: 50 }), whole, { ...whole, name: 'broken', index: 'nowhere' }]);
    const { code, report } = await space.run('mixed');
    const [run] = report.jobs;
    expect([code, run?.streams.map(({ status }) => status)]).toEqual([5, ['held', 'ok', 'failed']]);
    expect(await runs('mixed')).toMatchObject([
      { status: 'ok' },
      { run_id: run?.run_id, sequence: 1, status: 'partial' },
    ]);
    expect((await space.cdsync(['approve', 'mixed.json', run?.run_id ?? ''])).code).toBe(0);
    const kept = await readFile(join(space.jobFolder('mixed'), 'reports', `${run?.run_id}.json`), 'utf8');
    const [after] = JSON.parse(kept).jobs;
    const statuses = after.streams.map(({ name, status }: { name: string; status: string }) => [name, status]);
    expect([after.status, statuses]).toEqual([
      'partial',
      [
        ['made', 'ok'],
        ['whole', 'ok'],
        ['broken', 'failed'],
      ],
    ]);
  });

  it('has a quiet run if the file is half a day old, so that its freshness never lags for long', async () => {
    await serve(20, (n) => ({ n }));
    await space.configure('quiet', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    const first = await space.runWell('quiet');
    const link = join(space.jobFolder('quiet'), 'quiet.duckdb');
    await space.runWell('quiet');
    expect(await readlink(link)).toBe('published/1/quiet.duckdb');
    const old = Date.now() / 1000 - 13 * 3600;
    await utimes(join(space.jobFolder('quiet'), 'published', '1'), old, old);
    const third = await space.runWell('quiet');
    expect([third.sequence, await readlink(link)]).toEqual([1, expect.stringMatching(/^published\/1-[0-9a-f]{8}\//)]);
    const [fresh] = await space.query('quiet', 'select run_id, checked_at > changed_at as later from cdsync.freshness');
    expect(fresh).toEqual({ run_id: third.run_id, later: true });
    expect((await runs('quiet')).map(({ sequence }) => sequence)).toEqual([1, 1, 1]);
    expect(first.run_id).not.toBe(third.run_id);
    const again = await space.runWell('quiet');
    expect([again.sequence, await readlink(link)]).toEqual([1, expect.stringMatching(/^published\/1-/)]);
  });
});

it('a destination of a stream that was never published is not said to be up to date', async () => {
  const streams = [{ name: 'made', source: 'index_profiles', index: 'made' }];
  const destinations = [{ name: 'out', connector: 'files', path: './out', format: 'csv' }];
  await space.configure('never', streams, { job: { destinations } });
  const { stdout } = await space.cdsync(['status', 'never.json']);
  expect(stdout).toMatch(/out +made .*nothing published yet/);
  expect(stdout).not.toContain('up to date');
});

describe('the last line after a wrong word', () => {
  beforeAll(async () => {
    await serve(5, (n) => ({ n }));
    await space.configure('words', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    await space.runWell('words');
  });

  const toRuns = /see the runs, and what is held: cdsync status words\.json/;
  it.each([
    [
      'a query',
      ['query', 'words.json', 'selct 1'],
      /correct the SQL; the tables: cdsync query words\.json "show tables"/,
    ],
    ['a run to approve', ['approve', 'words.json', '20260101T000000Z-000000'], toRuns],
    ['a run to compare', ['diff', 'words.json', 'made', '--from', 'nonsense'], toRuns],
  ])('names what helps with %s', async (_, words, line) => {
    const { code, stderr } = await space.cdsync(words);
    expect([code, stderr.trimEnd().split('\n').at(-1)]).toEqual([2, expect.stringMatching(line)]);
  });
});

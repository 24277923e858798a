import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfFile } from '../fixtures/duckdb-rows.js';
import { filesHolding } from '../fixtures/files-holding.js';
import { folderContents } from '../fixtures/folder-contents.js';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

async function serve(records: Record<string, object>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

const made = { name: 'made', source: 'index_profiles', index: 'made', page_size: 2 };
const many = Object.fromEntries(
  Array.from({ length: 40 }, (_, n) => [`person-${n}`, { email: `someone-${n}@x.org`, n }]),
);
const canary = { email: 'canary-old@example.com', street: 'Canary Row 1' };

/** Two runs with the person, and a third that a guard holds. */
async function threeRuns(name: string, job: object = {}, streams: readonly object[] = [made]): Promise<void> {
  await space.configure(name, streams as never, { job: job as never });
  await serve({ ...many, 'canary-id': canary });
  await space.runWell(name);
  await serve({ ...many, 'canary-id': { ...canary, email: 'canary-new@example.com' } });
  await space.runWell(name);
}

describe('forget', () => {
  it('leaves nothing of a person in any file, and everybody else', async () => {
    await threeRuns('forget1');
    await serve({ 'person-1': {} });
    expect((await space.run('forget1')).code).toBe(3);
    expect((await filesHolding(space.jobFolder('forget1'), ['canary'])).length).toBeGreaterThan(4);
    const { code, stdout } = await space.cdsync(['forget', 'forget1.json', 'made', 'canary-id', '--json']);
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      { status: 'ok', rows: 1, history: 2, remains: [], searched: 3 },
    ]);
    expect(await filesHolding(space.jobFolder('forget1'), ['canary', 'Canary'])).toEqual([]);
    expect(await space.query('forget1', 'select count(*)::int as n from made')).toEqual([{ n: 40 }]);
    expect((await space.cdsync(['verify', 'forget1.json'])).code).toBe(0);
    expect(await readdir(join(space.jobFolder('forget1'), 'published'))).toHaveLength(1);
    await serve(many);
    expect((await space.runWell('forget1')).streams[0]).toMatchObject({ unchanged: 40, deleted: 0 });
  });

  it('that is killed after its commit has left nothing that only the next one would find', async () => {
    await threeRuns('killed');
    // A guard holds rows of the person, and the report of that run names the key.
    await serve({ 'person-1': {} });
    expect((await space.run('killed')).code).toBe(3);
    const strike = join(space.folder, 'strike.mjs');
    await writeFile(
      strike,
      `import fsp from 'node:fs/promises';
       import { syncBuiltinESMExports } from 'node:module';
       const { rename } = fsp;
       fsp.rename = async (from, to) => {
         // The store, written again without the person.
         if (String(to).endsWith('/store.duckdb')) process.kill(process.pid, 'SIGKILL');
         return rename(from, to);
       };
       syncBuiltinESMExports();`,
    );
    const words = ['forget', 'killed.json', 'made', 'person-0', '--yes'];
    const { code } = await ended(space.spawn(words, { NODE_OPTIONS: `--import=${strike}` }));
    expect(code).toBe(null);
    const folder = space.jobFolder('killed');
    expect(await readdir(join(folder, '.cdsync', 'runs'))).toHaveLength(1);
    for (const name of (await readdir(join(folder, 'reports'))).filter((each) => each.endsWith('.json')))
      expect(await readFile(join(folder, 'reports', name), 'utf8')).not.toMatch(/person-0\b/);
    await serve({ ...many, 'canary-id': canary });
    expect((await space.runWell('killed', ['--accept'])).status).toBe('ok');
  });

  it('whose record for destinations is damaged fails the delivery of its stream alone, and the run has a report', async () => {
    const destinations = [{ name: 'wh', connector: 'duckdb', path: join(space.folder, 'damaged.duckdb') }];
    await threeRuns('damaged', { destinations });
    expect((await space.cdsync(['forget', 'damaged.json', 'made', 'canary-id', '--yes'])).code).toBe(0);
    const erasures = join(space.jobFolder('damaged'), '.cdsync', 'erasures', 'made');
    for (const name of await readdir(erasures)) await writeFile(join(erasures, name), 'not JSON');
    const { report } = await space.run('damaged');
    expect(report.jobs[0]?.streams[0]).toMatchObject({ name: 'made', status: 'ok' });
    expect(report.jobs[0]?.destinations[0]).toMatchObject({ status: 'failed', error: { code: 'state_unreadable' } });
  });

  it('takes keys behind -- as they are', async () => {
    await space.configure('dashes', [made]);
    await serve({ '-x': { n: 1 }, '--all': { n: 2 }, p: { n: 3 } });
    await space.runWell('dashes');
    const words = ['forget', 'dashes.json', 'made', 'p', '--json', '--', '-x', '--all'];
    const { code, stdout } = await space.cdsync(words);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { keys: 3, rows: 3 }]);
    const sql = ['query', '--format', 'csv', '--', 'dashes.json', '-- how many\nselect count(*) as n from made'];
    expect(await space.cdsync(sql)).toMatchObject({ code: 0, stdout: 'n\n0\n' });
  });

  it('says which streams have the person too, searches all files after the last, and reaches destinations with the next push', async () => {
    const copy = { name: 'copy', source: 'sql', key: ['id'], query: 'select id, email from made' };
    const warehouse = { name: 'copy', connector: 'duckdb', path: './warehouse.duckdb', streams: ['made'] };
    await threeRuns('forget2', { destinations: [warehouse] }, [made, copy]);
    const path = join(space.folder, 'warehouse.duckdb');
    expect(await rowsOfFile(path, "select count(*)::int as n from made where id = 'canary-id'")).toEqual([{ n: 1 }]);
    const first = await space.cdsync(['forget', 'forget2.json', 'made', 'canary-id', '--json']);
    expect(JSON.parse(first.stdout)).toMatchObject({ rows: 1, also_in: ['copy'] });
    const second = await space.cdsync(['forget', 'forget2.json', 'copy', 'canary-id', '--json']);
    expect([second.code, JSON.parse(second.stdout)]).toMatchObject([0, { rows: 1, also_in: [], remains: [] }]);
    expect(JSON.parse(first.stdout)).toMatchObject({
      destinations: [{ name: 'copy', status: 'waiting', remains: expect.stringContaining('CHECKPOINT') }],
    });
    // The key alone, until the destination has erased the row too.
    const left = await filesHolding(space.jobFolder('forget2'), ['canary-id', 'canary-old']);
    expect(left).toEqual([expect.stringMatching(/^\.cdsync\/erasures\/made\/\d+\.json$/)]);
    expect((await space.cdsync(['push', 'forget2.json'])).code).toBe(0);
    expect(
      await rowsOfFile(path, "select count(*)::int as n, count(*) filter (id = 'canary-id')::int as c from made"),
    ).toEqual([{ n: 40, c: 0 }]);
  });

  it('of a text that is no key of a stream of several key columns leaves its deliveries as they were', async () => {
    const pairs = { name: 'pairs', source: 'sql', key: ['id', 'email'], query: 'select id, email from made' };
    const warehouse = { name: 'copy', connector: 'duckdb', path: './pairs.duckdb' };
    await threeRuns('pairs', { destinations: [warehouse] }, [made, pairs]);
    const named = await space.cdsync(['forget', 'pairs.json', 'pairs', 'p-none', '--even-if-absent', '--yes']);
    expect([named.code, named.stderr]).toEqual([1, expect.stringContaining(`'["id","email"]'`)]);
    const words = ['forget', 'pairs.json', 'p-none', '--everywhere', '--even-if-absent', '--yes'];
    expect(await space.cdsync(words)).toMatchObject({ code: 0 });
    expect(await space.cdsync(['push', 'pairs.json'])).toMatchObject({ code: 0 });
    expect(await space.cdsync(['forget', 'pairs.json', '--status'])).toMatchObject({ code: 0 });
  });

  it('refuses a key that nothing has, and changes nothing', async () => {
    await threeRuns('forget4');
    // The lock is taken and given back.
    const contents = async () =>
      (await folderContents(space.jobFolder('forget4'))).filter(
        (line) => !/^(\.cdsync\/locks|\.cdsync|\.) /.test(line),
      );
    const before = await contents();
    for (const [keys, said] of [
      [['canary-ix'], 'no row of made has this key; nothing was deleted [key_not_found]'],
      [['canary-id', 'person-99'], 'no row of made has key 2 of 2; nothing was deleted'],
      [['person-1,person-2'], 'separate keys by spaces'],
    ] as const) {
      const { code, stderr } = await space.cdsync(['forget', 'forget4.json', 'made', ...keys]);
      expect([code, stderr]).toEqual([1, expect.stringContaining(said)]);
      for (const key of keys) expect(stderr).not.toContain(key);
    }
    const { stderr: last } = await space.cdsync(['forget', 'forget4.json', 'made', 'canary-ix']);
    expect(last.trimEnd().split('\n').at(-1)).toMatch(
      /^compare with its keys: cdsync query forget4\.json "from made limit 5" \(the last good snapshot/,
    );
    expect(await contents()).toEqual(before);
    const words = ['forget', 'forget4.json', 'made', 'canary-ix', '--even-if-absent', '--json'];
    const { code, stdout } = await space.cdsync(words);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { rows: 0, history: 0 }]);
  });

  it('finds a key in history, in files of earlier runs, among rejects and in held changes', async () => {
    await threeRuns('forget5');
    await serve(many);
    await space.runWell('forget5');
    const deleted = await space.cdsync(['forget', 'forget5.json', 'made', 'canary-id', '--json']);
    expect([deleted.code, JSON.parse(deleted.stdout)]).toMatchObject([0, { rows: 0, remains: [] }]);
    await serve({ 'only-held': {} });
    expect((await space.run('forget5')).code).toBe(3);
    expect((await space.cdsync(['forget', 'forget5.json', 'made', 'only-held'])).code).toBe(0);
    expect((await space.cdsync(['forget', 'forget5.json', 'made', 'only-held'])).code).toBe(1);
  });

  it('names the files that still have the key, and refuses an unknown stream and a missing key', async () => {
    await threeRuns('forget3');
    await writeFile(join(space.jobFolder('forget3'), 'export.csv'), 'canary-id,1\n');
    const { code, stdout } = await space.cdsync(['forget', 'forget3.json', 'made', 'canary-id', '--json']);
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { remains: ['export.csv'] }]);
    expect((await space.cdsync(['forget', 'forget3.json', 'mde', 'canary-id'])).stderr).toContain(
      'did you mean "made"?',
    );
    expect((await space.cdsync(['forget', 'forget3.json', 'made'])).code).toBe(2);
  });

  it('that cannot search a file says that the rows are erased, and searches when it is repeated', async () => {
    await threeRuns('forget6');
    const stray = join(space.jobFolder('forget6'), 'stray.parquet');
    await writeFile(stray, 'no Parquet');
    const words = ['forget', 'forget6.json', 'made', 'canary-id', '--json'];
    const { code, stdout, stderr } = await space.cdsync(words);
    expect([code, stdout + stderr]).toEqual([1, expect.stringContaining('erased and published, but the search')]);
    const rows = "select count(*)::int as n from made where id = 'canary-id'";
    expect(await space.query('forget6', rows)).toEqual([{ n: 0 }]);
    await rm(stray);
    const again = await space.cdsync(words);
    expect([again.code, JSON.parse(again.stdout)]).toMatchObject([0, { status: 'ok', searched: 1, remains: [] }]);
    expect((await space.cdsync(['forget', 'forget6.json', '--status'])).code).toBe(0);
  });
});

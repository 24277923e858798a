import { realpathSync } from 'node:fs';
import { chmod, copyFile, open, readdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Verification } from '../../src/engine/inspect/verify-job.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1500 });
});
afterAll(() => space.close());

const streams = [
  { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
  {
    name: 'counted',
    source: 'sql',
    key: ['country', 'day'],
    query:
      "select country, date '2026-01-01' as day, count(*) as n from members where country is not null group by all",
  },
];

async function verify(job: string): Promise<{ code: number | null; found: Verification }> {
  const { code, stdout } = await space.cdsync(['verify', `${job}.json`, '--json'], { CDS_TOKEN: '' });
  return { code, found: JSON.parse(stdout) };
}

/** Makes a job with a snapshot. @returns the path of its first file of members */
async function prepared(job: string, compression = 'zstd'): Promise<string> {
  await space.configure(job, streams, { job: { parquet: { compression } } });
  await space.runWell(job);
  return firstFile(job);
}

async function firstFile(job: string): Promise<string> {
  const [file] = (await space.manifest(job, 'members')).files;
  return join(space.jobFolder(job), 'parquet', 'members', String(file?.path));
}

async function flip(path: string, at: (size: number) => number): Promise<void> {
  await chmod(path, 0o600);
  const file = await open(path, 'r+');
  const { size } = await file.stat();
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, at(size));
  byte[0] = (byte[0] as number) ^ 0x20;
  await file.write(byte, 0, 1, at(size));
  await file.close();
}

/** The blocks of a DuckDB file that its tables and its catalog use. */
async function blocksOf(path: string) {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  const rows = async (sql: string) => (await connection.runAndReadAll(sql)).getRows();
  const [size] = await rows('SELECT block_size FROM pragma_database_size()');
  const tables = (await rows('SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal')).map(
    ([schema, table]) => `"${schema}"."${table}"`,
  );
  const ids = new Set((await rows('SELECT block_id FROM pragma_metadata_info()')).map(([id]) => Number(id)));
  for (const table of tables)
    for (const [id] of await rows(`SELECT block_id FROM pragma_storage_info('${table}') WHERE block_id >= 0`))
      ids.add(Number(id));
  connection.closeSync();
  instance.closeSync();
  return { blockBytes: Number(size?.[0]), used: [...ids].sort((a, b) => a - b), tables };
}

let pasts = 0;

describe('cdsync verify', () => {
  it('finds nothing wrong, even after days of changes', async () => {
    await prepared('whole');
    await space.control('change', { days: 2 });
    await space.runWell('whole');
    const { code, found } = await verify('whole');
    expect(found.mismatches).toEqual([]);
    expect([code, found.status]).toEqual([0, 'ok']);
    expect(found.streams.map(({ name, files }) => [name, files])).toEqual([
      ['members', 1],
      ['counted', 1],
    ]);
  });

  it.each(['snappy', 'gzip', 'none'])('finds nothing wrong with %s files', async (compression) => {
    await prepared(compression, compression);
    const { code, found } = await verify(compression);
    expect([code, found.mismatches]).toEqual([0, []]);
  });

  it('finds a byte that was flipped, anywhere in a file', async () => {
    const path = await firstFile('whole');
    await copyFile(path, `${space.folder}/good`);
    for (const share of [0.001, 0.3, 0.6, 0.95]) {
      await flip(path, (size) => Math.floor(size * share));
      const { code, found } = await verify('whole');
      expect(code).toBe(1);
      expect(found.mismatches.map(({ problem }) => problem)).toContain('its checksum is not that of the manifest');
      await copyFile(`${space.folder}/good`, path);
    }
    expect((await verify('whole')).code).toBe(0);
  });

  it('shows people which stream is whole, and ends with the next command', async () => {
    const path = await firstFile('whole');
    await flip(path, (size) => size >> 1);
    const { code, stdout, stderr } = await space.cdsync(['verify', 'whole.json']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/failed {2}members: 1,5\d\d rows, 1 file, /);
    expect(stdout).toMatch(/ok {6}counted/);
    expect(stderr).toMatch(/next: cdsync run whole\.json/);
    await copyFile(`${space.folder}/good`, path);
  });

  it('finds a flipped bit in any block that the store or the published file uses, of history and internal tables too', async () => {
    await prepared('blocks');
    await space.control('change', { days: 1 });
    await space.runWell('blocks');
    const good = `${space.folder}/blocks`;
    for (const name of ['.cdsync/store.duckdb', 'blocks.duckdb']) {
      const path = realpathSync(join(space.jobFolder('blocks'), name));
      await copyFile(path, good);
      const { blockBytes, used, tables } = await blocksOf(good);
      expect(tables.filter((table) => /changes|keys_|before_|runs/.test(table)).length).toBeGreaterThan(4);
      for (const id of used.filter((_id, index) => index % 6 === 1 || index === used.length - 1)) {
        await flip(path, () => 3 * 4096 + id * blockBytes + 8 + ((id * 7919) % 2000));
        const { code, stdout, stderr } = await space.cdsync(['verify', 'blocks.json']);
        expect([name, id, code], stdout).toEqual([name, id, 1]);
        expect(stdout + stderr).toMatch(/block of \S+ is damaged|is damaged, or is not|cannot be read whole/);
        expect(stderr).toMatch(name === 'blocks.duckdb' ? /next: cdsync run blocks\.json/ : /backup|restore the store/);
        await copyFile(good, path);
      }
    }
    expect((await verify('blocks')).code).toBe(0);
  }, 180_000);

  it('finds a manifest that differs from the store, even if files agree with it', async () => {
    const path = join(space.jobFolder('whole'), 'parquet', 'members', 'manifest.json');
    const text = await readFile(path, 'utf8');
    const manifest = JSON.parse(text);
    await writeFile(path, JSON.stringify({ ...manifest, rows: manifest.rows - 1 }));
    expect((await verify('whole')).found.mismatches).toEqual([
      { stream: 'members', file: 'parquet/members/manifest.json', problem: 'it differs from the store' },
    ]);
    await writeFile(path, 'hello');
    expect((await verify('whole')).found.mismatches.at(-1)?.problem).toBe('no readable manifest');
    await writeFile(path, text);
  });

  it('finds a missing file, and a foreign one', async () => {
    const path = await firstFile('whole');
    const foreign = [join(path, '..', 'mine.parquet'), join(path, '..', '..', '..', 'notes.txt')];
    for (const each of foreign) await writeFile(each, 'x');
    await rm(path);
    const { found } = await verify('whole');
    const notices = found.mismatches.map(({ file, problem }) => [file?.split('/').at(-1), problem]);
    expect(notices.sort()).toEqual([
      ['00001.parquet', 'the file is missing'],
      ['mine.parquet', 'a file that cdsync did not put there'],
      ['notes.txt', 'a file that cdsync did not put there'],
    ]);
    for (const each of foreign) await rm(each);
    await copyFile(`${space.folder}/good`, path);
  });

  it('finds changes of a run that are lost, or not as the run wrote them, in the published file and in Parquet', async () => {
    await prepared('changed');
    for (let day = 0; day < 2; day += 1) {
      await space.control('change', { days: 1 });
      await space.runWell('changed');
    }
    expect((await verify('changed')).found.mismatches).toEqual([]);
    const folder = join(space.jobFolder('changed'), 'parquet', 'members', 'changes');
    const [second = '', third = ''] = (await readdir(folder)).sort();
    const [early, last] = [second, third].map((run) => join(folder, run, '00001.parquet')) as [string, string];
    await copyFile(early, `${space.folder}/early`);
    await copyFile(last, early);
    const other = await verify('changed');
    expect(other.found.mismatches).toEqual([
      {
        stream: 'members',
        file: `parquet/members/changes/${second}`,
        problem: expect.stringMatching(/the run counted/),
      },
    ]);
    const { stderr } = await space.cdsync(['verify', 'changed.json']);
    expect(stderr).toMatch(/^move the listed files away, then: cdsync verify/m);
    await flip(early, (size) => size - 6);
    expect((await verify('changed')).found.mismatches).toMatchObject([
      { problem: expect.stringMatching(/^it cannot be read as Parquet: /) },
    ]);
    await copyFile(`${space.folder}/early`, early);
    await rm(last);
    expect((await verify('changed')).found.mismatches).toMatchObject([{ problem: 'the file is missing' }]);
    await space.runWell('changed');
    expect((await verify('changed')).found.mismatches).toEqual([]);
    await written('changed', `delete from members__changes where _run_id = '${third}' and _op = 'update'`);
    const { mismatches } = (await verify('changed')).found;
    expect(mismatches.map(({ problem }) => problem)).toEqual([
      expect.stringMatching(
        /^members__changes has insert \d+, update 0, .* of run .*, which counted insert \d+, update [1-9]\d*/,
      ),
    ]);
  });

  it('takes an erased person for no loss', async () => {
    const [row] = await space.query('changed', 'select id from members order by id limit 1');
    await space.runWell('changed');
    expect((await space.cdsync(['forget', 'changed.json', 'members', String(row?.id)])).code).toBe(0);
    expect((await verify('changed')).found.mismatches).toEqual([]);
    await space.control('change', { days: 1 });
    await space.runWell('changed');
    expect((await verify('changed')).found.mismatches).toEqual([]);
  });

  it('finds rows that another process has changed in the published file', async () => {
    await written('whole', "update members set email = 'x' where id = (select min(id) from members)");
    const { code, found } = await verify('whole');
    expect([code, found.mismatches.map(({ problem }) => problem)]).toEqual([
      1,
      ['the published rows are not those of the store'],
    ]);
  });
});

/** Writes to the published file, as a program does that opens it without -readonly. */
async function written(job: string, sql: string, { keepsLog = false } = {}): Promise<void> {
  const path = join(space.jobFolder(job), `${job}.duckdb`);
  await chmod(path, 0o600);
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  if (keepsLog) await connection.run("SET checkpoint_threshold = '1GB'; PRAGMA disable_checkpoint_on_shutdown");
  await connection.run(sql);
  connection.closeSync();
  instance.closeSync();
}

async function edited(path: string, edit: (text: string) => string): Promise<void> {
  const text = await readFile(path, 'utf8');
  await chmod(path, 0o600);
  await writeFile(path, edit(text));
}

/** The command in the last line of standard error. */
function named(stderr: string): string[] {
  const words = /: cdsync (.*?) \(/.exec(stderr.trimEnd().split('\n').at(-1) ?? '')?.[1];
  if (words === undefined) throw new Error(`no command is named: ${stderr}`);
  return words.split(' ');
}

describe('the command that verify names', () => {
  const job = 'healed';
  const manifest = () => join(space.jobFolder(job), 'parquet', 'members', 'manifest.json');
  const link = () => join(space.jobFolder(job), `${job}.duckdb`);
  const current = () => join(space.jobFolder(job), 'parquet', 'members', 'current');
  const feed = () => join(space.jobFolder(job), '.cdsync', 'feeds', 'members.json');
  beforeAll(() => prepared(job));

  const damages: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['a changed row', () => written(job, "update members set email = 'x' where id = (select min(id) from members)")],
    ['a further row', () => written(job, 'insert into members (id) values (chr(120))')],
    ['a missing table', () => written(job, 'drop table counted cascade')],
    ['a write that is only in a log', () => written(job, 'delete from members', { keepsLog: true })],
    ['a log beside the version', () => writeFile(`${realpathSync(link())}.wal`, 'x')],
    ['a published file that is none', () => rm(link()).then(() => writeFile(link(), 'x'))],
    ['a missing link', () => rm(link())],
    ['a link to nothing', () => rm(realpathSync(link()))],
    ['a byte of a Parquet file', async () => flip(await firstFile(job), (size) => size >> 1)],
    ['a Parquet file that is cut', async () => truncate(await firstFile(job), 100)],
    ['a missing Parquet file', async () => rm(await firstFile(job))],
    ['a missing manifest', () => rm(manifest())],
    ['a manifest with other rows', () => edited(manifest(), (text) => text.replace(/"rows": \d+/, '"rows": 1'))],
    [
      'a manifest with another file',
      () => edited(manifest(), (text) => text.replaceAll('00001.parquet', '00002.parquet')),
    ],
    ['a manifest that is no JSON', () => edited(manifest(), (text) => text.slice(9))],
    ['a manifest with another type', () => edited(manifest(), (text) => text.replace('"VARCHAR"', '"BIGINT"'))],
    ['a manifest with another name', () => edited(manifest(), (text) => text.replace('"email"', '"e_mail"'))],
    ['a manifest of another run', () => edited(manifest(), (text) => text.replace(/"run_id": "2/, '"run_id": "3'))],
    ['a manifest of another stream', () => edited(manifest(), (text) => text.replace('"members"', '"memders"'))],
    ['a missing link to the last snapshot', () => rm(current())],
    ['another link to the last snapshot', () => rm(current()).then(() => symlink('snapshot', current()))],
    ['a missing list for deliveries', () => rm(feed())],
    ['a list for deliveries with other rows', () => edited(feed(), (text) => text.replace(/"rows":\d/, '"rows":7'))],
    [
      'a list for deliveries with another key',
      () => edited(feed(), (text) => text.replace('"key":["id"]', '"key":["no"]')),
    ],
    ['a list for deliveries that is no JSON', () => edited(feed(), (text) => text.slice(9))],
  ];

  it.each(damages)('repairs %s, although there is nothing new to read', async (_, damage) => {
    await damage();
    const { code, stderr } = await space.cdsync(['verify', `${job}.json`]);
    expect(code).toBe(1);
    const mended = await space.cdsync([...named(stderr), '--json']);
    expect([mended.code, mended.stderr]).toEqual([0, expect.any(String)]);
    expect((await verify(job)).found).toMatchObject({ status: 'ok', mismatches: [], sequence: 1 });
  });

  it('is what to write, if the file that says the format of the folder is changed', async () => {
    const path = join(space.jobFolder(job), '.cdsync', 'format.json');
    for (const text of ['{"format":0}', '{"format":7}', 'hello']) {
      await writeFile(path, text);
      expect((await verify(job)).found.mismatches).toEqual([
        { stream: null, file: '.cdsync/format.json', problem: 'it does not say {"format":1}' },
      ]);
      const { stderr } = await space.cdsync(['verify', `${job}.json`]);
      const [, content = '', file = ''] = /^write (.*) into (.*?), if/m.exec(stderr) ?? [];
      await writeFile(join(space.jobFolder(job), file), content);
      expect((await verify(job)).found.mismatches).toEqual([]);
    }
  });

  it('is any run, if another process has written to the published file', async () => {
    await written(job, 'insert into members (id) values (chr(121))');
    expect((await space.runWell(job)).sequence).toBe(1);
    expect((await verify(job)).code).toBe(0);
  });

  it('says which files to move away, because cdsync removes none that are not its own', async () => {
    const foreign = join(space.jobFolder(job), 'parquet', 'members', 'mine.parquet');
    await writeFile(foreign, 'x');
    const { stderr } = await space.cdsync(['verify', `${job}.json`]);
    expect(stderr).toMatch(/^move the listed files away, then: cdsync verify healed\.json/m);
    await rm(foreign);
    expect((await verify(job)).code).toBe(0);
  });

  it('keeps deliveries going from restored files', async () => {
    const destinations = [{ name: 'there', connector: 'duckdb', path: './data/there.duckdb', streams: ['members'] }];
    await space.configure(job, streams, { job: { destinations } });
    await flip(await firstFile(job), (size) => size >> 1);
    await space.runWell(job, ['--full']);
    expect((await space.cdsync(['push', `${job}.json`, '--full', '--json'])).code).toBe(0);
  });
});

describe('a full run', () => {
  it.each([
    ['a folder of changes is gone', (path: string) => rm(join(path, '..'), { recursive: true })],
    ['a file of changes is gone', (path: string) => rm(path)],
    ['a byte of changes is another', (path: string) => flip(path, (size) => size >> 1)],
  ])(
    'mends changes of earlier runs: %s, from the store or, if that has them no longer, by leaving them out',
    async (_, damage) => {
      const name = `past${++pasts}`;
      await prepared(name);
      for (let day = 0; day < 3; day += 1) {
        await space.control('change', { days: 1 });
        await space.runWell(name);
      }
      const folder = join(space.jobFolder(name), 'parquet', 'members', 'changes');
      const runs = (await readdir(folder)).sort();
      const ofRun = (run: number) => join(folder, String(runs[run]), '00001.parquet');
      const rowsOf = (path: string) => space.query(name, `select * exclude (_synced_at) from '${path}' order by id`);
      const before = await rowsOf(ofRun(1));
      await damage(ofRun(1));
      const found = (await verify(name)).found.mismatches;
      expect(found.map(({ stream, file }) => [stream, file])).toEqual([
        ['members', `parquet/members/changes/${runs[1]}/00001.parquet`],
      ]);
      await space.runWell(name, ['--full']);
      expect((await verify(name)).found.mismatches).toEqual([]);
      expect(await rowsOf(ofRun(1))).toEqual(before);
      await space.configure(name, streams, { job: { publish: { history: '1ms' } } });
      await space.control('change', { days: 1 });
      const { run_id: last } = await space.runWell(name);
      await damage(ofRun(0));
      expect((await verify(name)).code).toBe(1);
      await space.runWell(name, ['--full']);
      expect((await verify(name)).found.mismatches).toEqual([]);
      expect((await readdir(folder)).sort()).toEqual([...runs.slice(1), last]);
    },
  );

  it('writes everything of a stream again that another process has removed', async () => {
    const name = `past${++pasts}`;
    await prepared(name);
    const folder = join(space.jobFolder(name), 'parquet', 'members');
    for (let day = 0; day < 2; day += 1) {
      await rm(folder, { recursive: true });
      await space.runWell(name, ['--full']);
      expect((await verify(name)).found.mismatches).toEqual([]);
      await space.control('change', { days: 1 });
      await space.runWell(name);
    }
    // The last run changed nothing: only changes of earlier ones are missing.
    await space.runWell(name);
    await rm(folder, { recursive: true });
    await space.runWell(name, ['--full']);
    expect((await verify(name)).found.mismatches).toEqual([]);
  });
});

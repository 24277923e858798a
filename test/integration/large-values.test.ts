import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfFile } from '../fixtures/duckdb-rows.js';
import { PlainList } from '../fixtures/plain-list.js';
import { ended, Workspace } from '../fixtures/workspace.js';

const megabyte = 1 << 20;
let space: Workspace;
let list: PlainList;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  list = await PlainList.open();
  await writeFile(
    join(space.folder, 'usage.cjs'),
    "process.on('exit', () => require('node:fs').writeFileSync(process.env.USAGE, String(process.resourceUsage().maxRSS)));",
  );
});
afterAll(async () => {
  await space.close();
  await list.close();
});

/** Text that no compression makes small. */
function randomText(bytes: number, seed: number): string {
  const parts: string[] = [];
  for (let at = 0; at * 64 < bytes; at += 1) parts.push(createHash('sha256').update(`${seed} ${at}`).digest('hex'));
  return parts.join('').slice(0, bytes);
}

function record(at: number, attributes: Record<string, unknown>): string {
  return JSON.stringify({ id: `p${at}`, index_id: 'made', attributes: { name: `n${at}`, ...attributes } });
}

/** Small records; a record whose number is in `large` has those attributes too. */
function records(large: Readonly<Record<number, Record<string, unknown>>>): string[] {
  return Array.from({ length: 2500 }, (_, at) => record(at, large[at] ?? {}));
}

/** Runs a command and expects it to succeed in the memory that the default of `memory_mb` allows. */
async function within(words: readonly string[], maxMb = 768): Promise<string> {
  const usage = join(space.folder, 'usage.txt');
  const env = { NODE_OPTIONS: `--require ${join(space.folder, 'usage.cjs')}`, USAGE: usage };
  const { code, stdout, stderr } = await ended(space.spawn(words, env));
  expect({ code, stderr: code === 0 ? '' : stderr }, words.join(' ')).toEqual({ code: 0, stderr: '' });
  expect(Number(await readFile(usage, 'utf8')) / 1024, words.join(' ')).toBeLessThan(maxMb);
  return stdout;
}

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const noted = { name: 'noted', source: 'sql', key: ['id'], query: 'select id, note from made where note is not null' };

it('keeps one text of 16 MB among small records, in every command, at the default memory', async () => {
  const overrides = { service: { base_url: list.url }, job: { guards: { max_deleted: '90%' } } };
  await space.configure('large', [made, noted], overrides);
  const [first, second] = [1, 2].map((seed) => randomText(16 * megabyte, seed)) as [string, string];
  list.records = records({ 100: { note: first }, 700: { note: 'short' } });
  await within(['run', 'large.json', '--quiet']);
  const stored = async (table: string) => space.query('large', `select id, md5(note) as md5 from ${table} order by id`);
  const md5 = (text: string) => createHash('md5').update(text).digest('hex');
  const holds = (text: string) => [
    { id: 'p100', md5: md5(text) },
    { id: 'p700', md5: md5('short') },
  ];
  expect(await stored('noted')).toEqual(holds(first));
  list.records = records({ 100: { note: second }, 700: { note: 'short' } });
  await within(['run', 'large.json', '--quiet']);
  expect(await stored('noted')).toEqual(holds(second));
  expect(await stored('(from made where note is not null)')).toEqual(holds(second));
  const csv = await within(['query', 'large.json', "select note from made where id = 'p100'", '--format', 'csv']);
  expect(csv).toBe(`note\n${second}\n`);
  await within(['query', 'large.json', 'select * from made order by name', '--format', 'json']);
  await within(['query', 'large.json', 'select * from made']);
  await within(['diff', 'large.json', 'made']);
  await within(['diff', 'large.json', 'made', '--json']);
  await within(['verify', 'large.json']);
  await within(['run', 'large.json', '--quiet', '--full']);
  await within(['forget', 'large.json', 'made', 'p100']);
  await within(['verify', 'large.json']);
}, 300_000);

it('keeps no memory of a stream that was read, among many streams', async () => {
  const records = Array.from({ length: 1000 }, (_, at) => `{"id":"p${at}","index_id":"many","attributes":{"n":${at}}}`);
  await space.control('profiles', { index: 'many', records });
  const streams = Array.from({ length: 150 }, (_, at) => ({
    ...{ name: `s${at}`, source: 'index_profiles', index: 'many', page_size: 500 },
  }));
  await space.configure('many', streams);
  await within(['run', 'many.json', '--quiet']);
}, 240_000);

describe.each([
  ['a text', (text: string) => text, 'note'],
  ['a member of an object', (text: string) => ({ a: text, b: 1 }), 'note.a'],
  ['an element of a list', (text: string) => ['x', text], 'note[2]'],
  ['an element of an object in a list', (text: string) => [{ a: text }], 'note[1].a'],
] as const)('a large text as %s', (what, shaped, column) => {
  it('is inserted, changed and removed', async () => {
    const job = `kind_${what.replaceAll(' ', '_')}`;
    await space.configure(job, [made], { service: { base_url: list.url } });
    for (const text of [randomText(megabyte, 1), randomText(megabyte, 2), undefined]) {
      list.records = records(text === undefined ? {} : { 100: { note: shaped(text) } });
      await within(['run', `${job}.json`, '--quiet']);
      const found = `select ${column} as found from made where id = 'p100'`;
      expect(await space.query(job, found)).toEqual([{ found: text ?? null }]);
      await within(['verify', `${job}.json`]);
    }
  }, 180_000);
});

it('keeps a query of 300 rows of a megabyte each, at a memory of 1.5 GB', async () => {
  const query = "select i as id, repeat('x', 1000000) || i as text from range(300) r(i)";
  const path = await space.configure('wide_rows', [{ name: 'texts', source: 'sql', key: ['id'], query }]);
  const config = JSON.parse(await readFile(path, 'utf8'));
  await writeFile(path, JSON.stringify({ ...config, resources: { memory_mb: 1500 } }));
  // DuckDB does not count all of a vector of 300 MB: up to a sixth more than `memory_mb` was seen.
  await within(['run', 'wide_rows.json', '--quiet'], 2000);
  const [row] = await space.query('wide_rows', 'select count(*) as rows, sum(length(text)) as letters from texts');
  expect(row).toEqual({ rows: '300', letters: String(300 * 1_000_000 + 10 + 90 * 2 + 200 * 3) });
});

it('keeps 130 texts of 2 MB each: a first run, one that changes three, one with --full, one that changes all', async () => {
  const overrides = { service: { base_url: list.url }, job: { guards: { max_changed: 'off' } } };
  await space.configure('many_large', [{ ...made, page_size: 20 }], overrides);
  const texts = (seeds: (at: number) => number) =>
    Array.from({ length: 130 }, (_, at) => record(at, { note: `${seeds(at)} ${at} `.padEnd(2_000_000, 'x') }));
  const stored = async () => {
    const rows = await space.query(
      'many_large',
      "select id, regexp_extract(note, '^[0-9]+ [0-9]+ ') as note from made",
    );
    return rows.map(({ id, note }) => `${String(note)}${String(id)}`).sort();
  };
  const expected = (seeds: (at: number) => number) =>
    Array.from({ length: 130 }, (_, at) => `${seeds(at)} ${at} p${at}`).sort();
  for (const [maxMb, seeds, ...words] of [
    [845, () => 0],
    [845, (at: number) => (at < 3 ? 1 : 0)],
    [845, (at: number) => (at < 3 ? 1 : 0), '--full'],
    // The old and the new rows, 256 MB each, are one vector of DuckDB each.
    [1250, () => 2],
  ] as const) {
    list.records = texts(seeds);
    await within(['run', 'many_large.json', '--quiet', ...words], maxMb);
    expect(await stored()).toEqual(expected(seeds));
  }
  // Two versions of each, in three tables.
  await within(['forget', 'many_large.json', 'made', 'p100', '--yes'], 1250);
  expect(await stored()).toEqual(expected(() => 2).filter((row) => !row.endsWith(' p100')));
}, 400_000);

it('forgets one of 60 objects with a text of a megabyte that all changed, at a memory of 300 MB', async () => {
  const overrides = { service: { base_url: list.url }, job: { guards: { max_changed: 'off' } } };
  const path = await space.configure('forgotten', [{ ...made, page_size: 5 }], overrides);
  const config = JSON.parse(await readFile(path, 'utf8'));
  await writeFile(path, JSON.stringify({ ...config, resources: { memory_mb: 300 } }));
  for (const seed of [0, 100]) {
    list.records = Array.from({ length: 60 }, (_, at) =>
      record(at, { note: { text: randomText(megabyte, seed + at), n: at } }),
    );
    await within(['run', 'forgotten.json', '--quiet'], 550);
  }
  // With two threads, and memory that the allocator kept, it took 540 to 650 MB, or failed.
  await within(['forget', 'forgotten.json', 'made', 'p7', '--yes'], 530);
  const ids = await space.query('forgotten', 'select id from made union all select id from made__changes');
  expect(ids.filter(({ id }) => id === 'p7')).toEqual([]);
  expect(ids).toHaveLength(118);
}, 300_000);

it('stores, delivers and verifies 500 lists of 20,000 numbers, whose memory DuckDB doubles until they fit', async () => {
  const destinations = [{ name: 'warehouse', connector: 'duckdb', path: join(space.folder, 'numbers.duckdb') }];
  const overrides = { service: { base_url: list.url }, job: { destinations, guards: { max_changed: 'off' } } };
  await space.configure('numbers', [made], overrides);
  const numbers = (at: number, seed: number) =>
    Array.from({ length: 20_000 }, (_, n) => (at + n * 7919 + seed) % 1_000_003);
  const seedOf = (at: number, version: number) => (version > 0 && at % 10 === 0 ? 1 : 0);
  for (const version of [0, 1]) {
    list.records = Array.from({ length: 500 }, (_, at) => record(at, { numbers: numbers(at, seedOf(at, version)) }));
    await within(['run', 'numbers.json', '--quiet'], 845);
    for (const path of [join(space.jobFolder('numbers'), 'numbers.duckdb'), join(space.folder, 'numbers.duckdb')]) {
      const rows = await rowsOfFile(path, 'select id, md5(to_json(numbers)::VARCHAR) as md5 from made order by id');
      const md5 = (at: number) =>
        createHash('md5')
          .update(JSON.stringify(numbers(at, seedOf(at, version))))
          .digest('hex');
      const expected = Array.from({ length: 500 }, (_, at) => ({ id: `p${at}`, md5: md5(at) }));
      expect(rows).toEqual(expected.sort((one, other) => (one.id < other.id ? -1 : 1)));
    }
  }
  await within(['verify', 'numbers.json'], 845);
}, 600_000);

it('compares versions of texts that do not fit in memory together', async () => {
  const overrides = { service: { base_url: list.url }, job: { guards: { max_changed: 'off' } } };
  const path = await space.configure('versions', [{ ...made, page_size: 5 }], overrides);
  const config = JSON.parse(await readFile(path, 'utf8'));
  const limit = (memory: number) => writeFile(path, JSON.stringify({ ...config, resources: { memory_mb: memory } }));
  const note = (seed: number, at: number) => `${seed} ${at} `.padEnd(megabyte, 'x');
  await limit(1200);
  for (const seed of [0, 1]) {
    list.records = Array.from({ length: 60 }, (_, at) => record(at, { note: note(seed, at) }));
    expect(await space.run('versions')).toMatchObject({ code: 0 });
  }
  await limit(128);
  const found = JSON.parse((await space.cdsync(['diff', 'versions.json', 'made', '--json', '--limit', '1'])).stdout);
  expect(found).toMatchObject({ inserted: 0, updated: 60, deleted: 0, columns: { note: 60 } });
  const values = await space.cdsync(['diff', 'versions.json', 'made', '--json', '--limit', '1', '--show-values']);
  const change = { column: 'note', before: note(0, 0), after: note(1, 0) };
  expect(JSON.parse(values.stdout).rows).toEqual([{ op: 'update', key: 'p0', columns: [change] }]);
}, 300_000);

import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Manifest } from '../../../connectors/files/manifest.js';
import { filesHolding } from '../../fixtures/files-holding.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

type Attributes = Readonly<Record<string, unknown>>;

async function serve(records: Readonly<Record<string, Attributes>>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const guards = { max_deleted: 'off', max_changed: 'off' };

async function configure(job: string, destination: Readonly<Record<string, unknown>>, stream: object = made) {
  const csv = { name: 'csv', connector: 'files', path: `./${job}-out`, format: 'csv', keep: 3, ...destination };
  await space.configure(job, [stream as never], { job: { destinations: [csv], guards } as never });
}

const folder = (job: string) => join(space.folder, `${job}-out`, 'made');

async function manifest(job: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder(job), 'manifest.json'), 'utf8'));
}

/** The rows as a reader of CSV without any types sees them: lines by id. */
async function table(job: string): Promise<Record<string, Record<string, string>>> {
  const rows: Record<string, Record<string, string>> = {};
  for (const { path } of (await manifest(job)).files) {
    const [head = '', ...lines] = (await readFile(join(folder(job), path), 'utf8')).trimEnd().split('\n');
    const names = head.split(',');
    for (const line of lines) {
      const row = Object.fromEntries(line.split(',').map((cell, index) => [names[index] ?? '', cell]));
      rows[row.id ?? ''] = row;
    }
  }
  return rows;
}

async function loads(job: string): Promise<string[]> {
  const lines = (await readFile(join(folder(job), 'loads.jsonl'), 'utf8')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line).action);
}

const person = (price: unknown, more: Attributes = {}) => ({ price, email: 'anna@x.org', ...more });
const big = (n: number) => `1234567890123456789012345${n}`;

describe('a folder of CSV over several days', () => {
  it('a column of prices that gets one odd text keeps every value, in a second column all of them as text', async () => {
    await configure('odd', {});
    await serve({ a: person(1.5), b: person(2.25), c: person(3) });
    await space.runWell('odd');
    await serve({ a: person('n/a'), b: person(2.25), c: person(3) });
    await space.runWell('odd');
    const rows = await table('odd');
    expect(Object.values(rows).map(({ id, price, price__text }) => [id, price, price__text])).toEqual([
      ['a', '', 'n/a'],
      ['b', '2.25', '2.25'],
      ['c', '3.0', '3'],
    ]);
    await serve({ a: person('n/a'), b: person(2.25), c: person(4.5), d: person(7) });
    await space.runWell('odd');
    const later = await table('odd');
    expect([later.c?.price, later.c?.price__text, later.d?.price, later.b?.price__text]).toEqual([
      '4.5',
      '4.5',
      '7.0',
      '2.25',
    ]);
  });

  it('a column that a rule drops has no value any more, in no file', async () => {
    await configure('dropped', {});
    await serve({ a: person(1), b: person(2) });
    await space.runWell('dropped');
    expect(await filesHolding(folder('dropped'), ['anna@x.org'])).not.toEqual([]);
    await configure('dropped', { columns: { email: { drop: true } } });
    expect((await space.cdsync(['push', 'dropped.json'])).code).toBe(0);
    expect(await filesHolding(folder('dropped'), ['anna@x.org'])).toEqual([]);
    expect((await table('dropped')).a).toMatchObject({ email: '', price: '1' });
  });

  it('pushes that were left out lose no digit of numbers with 26 digits', async () => {
    await configure('skipped', {});
    await serve({ a: person(1), b: person(2) });
    await space.runWell('skipped');
    for (const n of [1, 2]) {
      const texts = [
        `{"id":"a","index_id":"made","attributes":{"price":${big(n)}}}`,
        `{"id":"b","index_id":"made","attributes":{"price":${big(n + 5)}}}`,
      ];
      await space.control('profiles', { index: 'made', records: texts });
      await space.runWell('skipped', ['--no-push']);
    }
    expect((await space.cdsync(['push', 'skipped.json'])).code).toBe(0);
    const rows = await table('skipped');
    const values = (id: string) => [rows[id]?.price, rows[id]?.price__text].filter((text) => text !== undefined);
    expect(values('a')).toContain(big(2));
    expect(values('b')).toContain(big(7));
  });

  it('rows that another process takes out of a file come back with the next run, and the report says so', async () => {
    await configure('hands', {});
    await serve({ a: person(1), b: person(2), c: person(3) });
    await space.runWell('hands');
    const [file] = (await manifest('hands')).files;
    const path = join(folder('hands'), file?.path ?? '');
    const lines = (await readFile(path, 'utf8')).split('\n');
    await writeFile(path, [...lines.slice(0, 2), ''].join('\n'));
    const { code, stdout } = await space.cdsync(['push', 'hands.json', '--json']);
    expect([code, JSON.parse(stdout).jobs[0].destinations[0]]).toMatchObject([0, { status: 'ok', action: 'reload' }]);
    expect(Object.keys(await table('hands'))).toEqual(['a', 'b', 'c']);
    // The edited file has the same length: only its content differs.
    const [again] = (await manifest('hands')).files;
    const edited = join(folder('hands'), again?.path ?? '');
    await writeFile(edited, (await readFile(edited, 'utf8')).replace('anna@', 'otto@'));
    expect((await space.cdsync(['push', 'hands.json'])).code).toBe(0);
    expect(Object.values(await table('hands')).map(({ email }) => email)).toEqual(Array(3).fill('anna@x.org'));
    expect(await loads('hands')).toEqual(['create', 'reload', 'reload']);
  });

  it('manifests that another process removes are made again; readers get the next set', async () => {
    await configure('manifests', {});
    await serve({ a: person(1) });
    await space.runWell('manifests');
    await rm(join(folder('manifests'), 'manifests'), { recursive: true });
    await serve({ a: person(1), b: person(2) });
    await space.runWell('manifests');
    expect(Object.keys(await table('manifests'))).toEqual(['a', 'b']);
  });

  it('a storage folder that is put back from the day before causes a load of all rows, not of old ones', async () => {
    await configure('restored', {});
    await serve({ a: person(1), b: person(2) });
    await space.runWell('restored');
    const kept = join(space.folder, 'kept-job');
    await cp(space.jobFolder('restored'), kept, { recursive: true, verbatimSymlinks: true });
    await serve({ a: person(5), b: person(2) });
    await space.runWell('restored');
    await rm(space.jobFolder('restored'), { recursive: true, force: true });
    await cp(kept, space.jobFolder('restored'), { recursive: true, verbatimSymlinks: true });
    await serve({ a: person(6), c: person(9) });
    const report = await space.runWell('restored');
    expect(report.destinations[0]).toMatchObject({ status: 'ok', action: 'reload' });
    const rows = await table('restored');
    expect(Object.values(rows).map(({ id, price }) => [id, price])).toEqual([
      ['a', '6'],
      ['c', '9'],
    ]);
  });
});

describe('a person who is forgotten', () => {
  it.each([
    ['mirror', {}],
    ['mirror', { deletes: 'soft' }],
    ['upsert', {}],
    ['append', {}],
    ['replace', {}],
  ])('is in no file after the next push: %s %j', async (mode, more) => {
    const job = `gone_${mode}${Object.keys(more).length}`;
    await configure(job, { mode, ...more });
    await serve({ a: person(1), canary: person(2, { email: 'canary@x.org' }) });
    await space.runWell(job);
    // The row has left the snapshot before: only the destination has it, or has it marked.
    await serve({ a: person(3) });
    await space.runWell(job);
    expect((await space.cdsync(['forget', `${job}.json`, 'made', 'canary'])).code).toBe(0);
    const { code, stdout } = await space.cdsync(['push', `${job}.json`, '--json']);
    expect([code, JSON.parse(stdout).jobs[0].destinations[0].status]).toEqual([0, 'ok']);
    expect(await filesHolding(folder(job), ['canary'])).toEqual([]);
    expect((await table(job)).a).toMatchObject({ price: '3' });
    const status = JSON.parse((await space.cdsync(['status', `${job}.json`, '--json'])).stdout);
    expect(JSON.stringify(status)).toContain('"erasures_pending":0');
  });
});

it('attributes that are called like the names in our own statements stay apart from them', async () => {
  const row = (n: number) => ({
    f: { id: 'x' },
    p: { id: 'x' },
    s: { id: 'x' },
    t: { id: 'x' },
    _cdsync_file: 'mine',
    n,
  });
  for (const [job, options] of [
    ['names_flat', {}],
    ['names_folders', { partition_by: ['n'] }],
  ] as const) {
    await configure(job, { mode: 'upsert', format: 'parquet', ...options });
    await serve({ a: row(1), b: row(1), c: row(1) });
    await space.runWell(job);
    await serve({ a: row(2), b: row(1), c: row(1) });
    await space.runWell(job);
    const { rows, schema } = await manifest(job);
    expect(rows).toBe(3);
    expect(schema.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['f', 'p', 's', 't', expect.stringMatching(/^_cdsync_file/)]),
    );
  }
});

it('values that JSON cannot hold are null in JSON lines, and a look at the whole table does not take that for a change', async () => {
  const query = "select id, 'nan'::double as odd, 'null'::json as nothing, [1.5::double, 'inf'] as list from made";
  const stream = { name: 'numbers', source: 'sql', key: ['id'], query };
  const lines = { name: 'csv', connector: 'files', path: './odd-lines', format: 'jsonl', streams: ['numbers'] };
  await space.configure('lines', [made, stream] as never, { job: { destinations: [lines], guards } as never });
  await serve({ a: person(1), b: person(2) });
  await space.runWell('lines');
  const { code, stdout } = await space.cdsync(['push', 'lines.json', '--verify', '--json']);
  expect([code, JSON.parse(stdout).jobs[0].destinations[0].status]).toEqual([0, 'ok']);
});

it('numbers of more digits than a double has keep them in JSON lines over several days', async () => {
  const query = `select id, (price || '.12345678901')::decimal(28, 11) as at, {'lon': [(price || '.1234567890123456')::decimal(20, 16)]} as more,
    ('{"n":' || price || '.123456789012345678}')::json as odd from made`;
  const exact = { name: 'exact', source: 'sql', key: ['id'], query };
  const lines = { name: 'csv', connector: 'files', path: './exact-lines', format: 'jsonl', streams: ['exact'] };
  await space.configure('exact', [made, exact] as never, { job: { destinations: [lines], guards } as never });
  await serve({ a: person(1), b: person(2) });
  await space.runWell('exact');
  await serve({ a: person(1), b: person(2), c: person(3) });
  const { destinations } = await space.runWell('exact');
  expect(destinations[0]).toMatchObject({ status: 'ok', action: 'increment' });
  const { code, stdout } = await space.cdsync(['push', 'exact.json', '--verify', '--json']);
  expect([code, JSON.parse(stdout).jobs[0].destinations[0]]).toMatchObject([0, { status: 'ok', action: 'nothing' }]);
  const root = join(space.folder, 'exact-lines', 'exact');
  const { files } = JSON.parse(await readFile(join(root, 'manifest.json'), 'utf8')) as Manifest;
  const texts = (await Promise.all(files.map(({ path }) => readFile(join(root, path), 'utf8')))).join('');
  for (const n of [1, 2, 3]) {
    expect(texts).toContain(`"at":${n}.12345678901,"more":{"lon":[${n}.1234567890123456]}`);
    expect(texts).toContain(`"odd":{"n":${n}.123456789012345678}`);
  }
});

describe('partition_by', () => {
  const parts = { format: 'parquet', partition_by: ['land'] };
  const fromLand = (land: unknown) => person(1, { land });

  it('in append: a value that cannot name a folder is NULL and listed, and later changes arrive', async () => {
    await configure('unfoldable', { ...parts, mode: 'append' });
    await serve({ a: fromLand('DE') });
    await space.runWell('unfoldable');
    await serve({
      a: fromLand('DE'),
      b: fromLand('x'.repeat(300)),
      c: fromLand('__HIVE_DEFAULT_PARTITION__'),
      d: fromLand('n\u0000'),
    });
    const { code, report } = await space.run('unfoldable');
    expect([code, report.jobs[0]?.destinations[0]]).toMatchObject([
      5,
      { status: 'partial', action: 'append', refused: 3, error: { code: 'values_refused' } },
    ]);
    await serve({ a: fromLand('DE'), b: fromLand('US'), c: fromLand('FR'), d: fromLand('IT') });
    expect((await space.run('unfoldable')).code).toBe(0);
    const { files, rows } = await manifest('unfoldable');
    expect(rows).toBe(7);
    expect(files.map(({ partition }) => partition?.land).sort()).toEqual(['DE', 'FR', 'IT', 'US', null].sort());
  });

  it.each([{ drop: true }, { rename: 'country' }])(
    'whose column gets the rule %j keeps no value of it in a folder',
    async (rule) => {
      const job = `hidden_${Object.keys(rule)[0]}`;
      await configure(job, parts);
      await serve({ a: fromLand('DE'), b: fromLand('US') });
      await space.runWell(job);
      await configure(job, { ...parts, columns: { land: rule } });
      expect(await space.cdsync(['push', `${job}.json`])).toMatchObject({ code: 0 });
      expect((await manifest(job)).files.map(({ partition }) => partition?.land)).toEqual([null]);
    },
  );

  it('is no error before the first row', async () => {
    const none = {
      name: 'made',
      source: 'sql',
      key: ['id'],
      query: "select id, 'DE' as land from people where id > 'x'",
    };
    const people = { name: 'people', source: 'index_profiles', index: 'made' };
    const csv = { name: 'csv', connector: 'files', path: './empty-out', streams: ['made'], ...parts };
    await space.configure('empty', [people, { ...none, query: 'select id from people where false' }] as never, {
      job: { destinations: [csv], guards } as never,
    });
    await serve({ a: person(1), z: person(2) });
    await space.runWell('empty');
    expect((await manifest('empty')).rows).toBe(0);
    await space.configure('empty', [people, none] as never, { job: { destinations: [csv], guards } as never });
    await space.runWell('empty', ['--accept']);
    expect((await manifest('empty')).files.map(({ partition }) => partition)).toEqual([{ land: 'DE' }]);
  });
});

it('a damaged manifest.json is made again from the newest of manifests/', async () => {
  await configure('damaged', {});
  await serve({ a: person(1) });
  await space.runWell('damaged');
  await writeFile(join(folder('damaged'), 'manifest.json'), '{"version": 2, "tab');
  await serve({ a: person(1), b: person(2) });
  await space.runWell('damaged');
  expect(Object.keys(await table('damaged'))).toEqual(['a', 'b']);
});

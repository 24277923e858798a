import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

type Attributes = Readonly<Record<string, unknown>>;

function record(id: string, attributes: Attributes): string {
  return JSON.stringify({ id, index_id: 'made', attributes });
}

const anything = { guards: { max_deleted: '100%', max_changed: '900%' } };

/** A job of one stream, in its own storage folder. */
async function configure(job: string, stream: Attributes = {}): Promise<void> {
  await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made', ...anything, ...stream }]);
}

async function serve(records: readonly string[], filterable: readonly string[] = []): Promise<void> {
  await space.control('profiles', { index: 'made', filterable, records });
}

describe('a changed value is a change of its row', () => {
  /** A title, the values of a row on the first and second day, and the value of another row: by default the first. */
  const changes: [string, string, string, string?][] = [
    ['a huge integer, in its upper half', '18446744073709551618', '36893488147419103233'],
    ['zero and a huge integer with two equal halves', '0', '18446744073709551617'],
    ['a huge integer in a list', '[18446744073709551618]', '[36893488147419103233]'],
    ['a huge integer in an object', '{"n":18446744073709551618}', '{"n":36893488147419103233}'],
    ['the sign of zero', '0.0', '-0.0', '1.5'],
    ['the sign of zero in a list', '[0.0]', '[-0.0]', '[1.5]'],
    ['the sign of zero in a list of objects', '[{"x":0.0}]', '[{"x":-0.0}]', '[{"x":1.5}]'],
    ['NULL in a list', '[1.5]', '[1.5,null]'],
    ['an empty list and none', 'null', '[]'],
    ['an object of NULLs and none', 'null', '{"x":null}'],
    ['a long text in its last character', `"${'x'.repeat(3000)}a"`, `"${'x'.repeat(3000)}b"`],
  ];
  it.each(changes)('%s', async (title, before, after, other = before) => {
    const job = `noticed${changes.findIndex(([each]) => each === title)}`;
    const first = [before, after, before, other].map(
      (value, n) => `{"id":"r${n}","index_id":"made","attributes":{"v":${value}}}`,
    );
    const changed = `{"id":"r0","index_id":"made","attributes":{"v":${after}}}`;
    await configure(job);
    await serve(first);
    await space.runWell(job);
    await serve([changed, ...first.slice(1)]);
    expect(streamOf(await space.runWell(job), 'made')).toMatchObject({ inserted: 0, updated: 1, unchanged: 3 });
    const rows = await space.query(job, 'select to_json(v)::varchar as v from made order by id');
    expect(rows[0]?.v).toBe(rows[1]?.v);
    expect(rows[0]?.v).not.toBe(rows[2]?.v);
    await space.runWell(job, ['--full']);
    expect((await space.cdsync(['verify', `${job}.json`])).code).toBe(0);
  });
});

describe('an attribute may be called as it likes', () => {
  const names = [
    ...'abcefhklmnoprst',
    ...['e0', 'e1', 'made', 'moment', 'key', 'hash', 'op', 'row', 'part', 'read_parquet', 'unnest', 'value', 'block'],
    ...['rowid', '_key', '_row', '_sequence', '_cdsync_key', '_cdsync_r', '_CDSYNC_o', 'file_row_number', 'filename'],
  ];
  /** Objects with the members that tables have, so that `o.id` could be either. */
  const odd = (n: number) =>
    Object.fromEntries(names.map((name) => [name, { id: `${name}${n}`, key: n, _cdsync_key: 'x', n }]));

  it('even like an alias, a table or a helper column of a statement', async () => {
    const person = (n: number, other: Attributes) => record(`r${n}`, { ...odd(n), text: `t${n}`, ...other });
    const some = (day: number) => Array.from({ length: 40 }, (_, n) => person(n, n < 4 ? { text: `day ${day}` } : {}));
    await configure('odd', { columns: { score: { track: false } } });
    await serve(some(1));
    expect(streamOf(await space.runWell('odd'), 'made')).toMatchObject({ rows: 40, inserted: 40 });
    await serve(some(2));
    expect(streamOf(await space.runWell('odd'), 'made')).toMatchObject({ rows: 40, updated: 4, unchanged: 36 });
    // One more type: every object becomes JSON.
    const mixed = Object.fromEntries(names.map((name) => [name, 'text']));
    await serve([...some(2).slice(0, 39), record('r39', mixed)]);
    expect(streamOf(await space.runWell('odd'), 'made')).toMatchObject({ rows: 40, updated: 1, unchanged: 39 });
    const columns = await space.query('odd', 'select path, column_name from cdsync.columns');
    for (const name of names) {
      const column = columns.find(({ path }) => path === `attributes.${name}`)?.column_name;
      const [row] = await space.query('odd', `select "${column}"::varchar as v from made where id = 'r7'`);
      expect([name, JSON.parse(String(row?.v))]).toEqual([name, { id: `${name}7`, key: 7, _cdsync_key: 'x', n: 7 }]);
    }
    await serve(some(2).slice(0, 39));
    expect(streamOf(await space.runWell('odd'), 'made')).toMatchObject({ rows: 39, deleted: 1, updated: 0 });
    expect(await space.query('odd', "select count(*)::int as n from made__history where id = 'r0'")).toEqual([
      { n: 2 },
    ]);
    expect((await space.cdsync(['verify', 'odd.json'])).code).toBe(0);
  });

  it('like the number of a row, in a table with a hundred thousand rows', async () => {
    const many = Array.from({ length: 100_001 }, (_, n) => record(`r${n}`, n % 2 === 0 ? { rowid: n } : {}));
    await configure('rowid', { page_size: 10_000 });
    await serve(many);
    await space.runWell('rowid');
    await serve([record('r0', { rowid: -1 }), ...many.slice(1)]);
    expect(streamOf(await space.runWell('rowid'), 'made')).toMatchObject({ rows: 100_001, updated: 1 });
    expect((await space.cdsync(['verify', 'rowid.json'])).code).toBe(0);
  });
});

describe('U+FEFF at the start of a text is kept', () => {
  const mark = '\uFEFF';

  it('in keys, names, values, filters and partitions, and a profile with such an id is no other', async () => {
    const people = [
      record(`${mark}a`, { [`${mark}name`]: 1, name: 2, land: `${mark}de` }),
      record('a', { [`${mark}name`]: 3, name: 4, land: 'de' }),
      record('b', { [`${mark}name`]: 5, name: 6, land: `${mark}de` }),
    ];
    const partitions = { partition_by: { attribute: 'land' } };
    await configure('marks', partitions);
    await serve(people, ['land']);
    for (let run = 0; run < 3; run += 1) {
      const { rows, deleted } = streamOf(await space.runWell('marks'), 'made');
      expect({ rows, deleted }).toEqual({ rows: 3, deleted: 0 });
      expect((await space.cdsync(['verify', 'marks.json'])).stdout).toContain('ok');
      expect((await space.cdsync(['verify', 'marks.json'])).code).toBe(0);
    }
    const asked = await space.cdsync([
      'query',
      'marks.json',
      `select id, "${mark}name" as n, land from made order by n`,
      '--format',
      'json',
    ]);
    expect(JSON.parse(asked.stdout)).toEqual([
      { id: `${mark}a`, n: 1, land: `${mark}de` },
      { id: 'a', n: 3, land: 'de' },
      { id: 'b', n: 5, land: `${mark}de` },
    ]);
    // Only the profile without a mark goes.
    await serve([people[0] as string, people[2] as string], ['land']);
    expect(streamOf(await space.runWell('marks'), 'made')).toMatchObject({ rows: 2, deleted: 1 });
    const left = await space.query('marks', 'select count(*)::int as n from made where length(id) = 2');
    expect(left).toEqual([{ n: 1 }]);
  });
});

import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';
import { four, Nights, type Row } from './recorded-runs.js';

let space: Workspace;
let postgres: PostgresServer;
beforeAll(async () => {
  [space, postgres] = await Promise.all([Workspace.open({ profiles: 10 }), PostgresServer.start()]);
});
afterAll(async () => {
  await Promise.all([space.close(), postgres.stop()]);
});

describe('values of a column whose type changes', () => {
  it('stay in their place when the column is otherwise empty', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ code: n, other: n })));
    await nights.run(four((n) => ({ code: `t${n}`, other: n })));
    await nights.run(four((n) => ({ code: n === 1 ? 'u1' : `t${n}`, other: n })));
    expect(await nights.values('code')).toEqual({ a: ['u1'], b: ['t2'], c: ['t3'], d: ['t4'] });
  });

  it('are the newest ones in every column that has them, when the type comes back', async () => {
    const nights = new Nights(space);
    const infer = { stream: { strings: 'infer' } };
    await nights.run(
      four((n) => ({ code: `${n}` })),
      infer,
    );
    await nights.run(
      four((n) => ({ code: `${n}` })),
      { stream: { strings: 'keep' } },
    );
    await nights.run({ ...four((n) => ({ code: `${n}` })), a: { code: '7' } }, infer);
    expect(await nights.values('code')).toEqual({ a: ['7'], b: ['2'], c: ['3'], d: ['4'] });
  });

  it('keep their digits where the table is wider than the stream', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ score: n + 0.5 })));
    const records = four(() => ({ score: 9 })).b;
    expect(records).toBeDefined();
    await nights.configure({ storage: './other' });
    const big = '9007199254740993';
    await space.control('profiles', {
      index: 'made',
      records: [`{"id":"a","index_id":"made","attributes":{"score":${big}}}`],
    });
    expect((await space.run(nights.name, ['--no-push'])).code).toBe(0);
    await nights.push();
    expect(await nights.values('score')).toEqual({ a: [big] });
  });

  it('are nothing that nobody said', async () => {
    const nights = new Nights(space);
    await nights.run(four(() => ({ vip: true })));
    await nights.run({ ...four(() => ({ vip: true })), a: { vip: 1 }, b: { vip: 'yes' } });
    expect(await nights.values('vip')).toEqual({ a: ['1'], b: ['yes'], c: ['true'], d: ['true'] });
  });

  it('do not go to a column of another attribute', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ amount: n, amount__json: `j${n}`, amount__text: `t${n}` })));
    await nights.run(four((n) => ({ amount: `x${n}`, amount__json: `j${n}`, amount__text: `t${n}` })));
    const rows = await nights.sql('SELECT id, amount__json AS j, amount__text AS t FROM members ORDER BY id');
    expect(rows.map(({ j, t }) => [j, t])).toEqual([1, 2, 3, 4].map((n) => [`j${n}`, `t${n}`]));
    expect((await nights.texts()).includes('x3')).toBe(true);
  });
});

describe('a table that others change', () => {
  it('is not loaded while a type of it is another', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ code: n })));
    await nights.sql('ALTER TABLE members ALTER code SET DATA TYPE DECIMAL(10,2)');
    expect((await nights.run(four((n) => ({ code: n + 1 }))))?.error?.code).toBe('table_altered');
  });

  it('comes back whole, though nothing has changed at the source', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ code: n })));
    await nights.sql('DROP TABLE members');
    expect((await nights.push()).status).toBe('ok');
    expect(await nights.keys()).toEqual(['a', 'b', 'c', 'd']);
    await nights.sql("DELETE FROM members WHERE id = 'b'");
    expect((await nights.push()).status).toBe('ok');
    expect(await nights.keys()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('gets a column that was dropped filled in every row', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ code: n, other: n })));
    await nights.sql('ALTER TABLE members DROP COLUMN code');
    await nights.run({ ...four((n) => ({ code: n, other: n })), a: { code: 1, other: 9 } });
    expect(await nights.values('code')).toEqual({ a: ['1'], b: ['2'], c: ['3'], d: ['4'] });
  });

  it('keeps a column of theirs as it is when an attribute of its name comes', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ code: n })));
    await nights.sql('ALTER TABLE members ADD COLUMN note VARCHAR');
    await nights.sql("UPDATE members SET note = 'own'");
    await nights.run(four((n) => ({ code: n, note: `n${n}` })));
    expect((await nights.sql('SELECT DISTINCT note FROM members')).map(({ note }) => note)).toEqual(['own']);
    expect(await nights.texts()).toContain('n3');
  });

  it('is loaded again after values have changed places', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ email: `${n}@x` })));
    await nights.sql("UPDATE members SET email = CASE id WHEN 'a' THEN '2@x' WHEN 'b' THEN '1@x' ELSE email END");
    expect((await nights.push(['--verify'])).error?.code).toBe('table_changed');
    expect(await nights.values('email')).toEqual({ a: ['1@x'], b: ['2@x'], c: ['3@x'], d: ['4@x'] });
  });
});

describe('rules', () => {
  it('that drop a column take its values from the table', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ notes: `secret${n}`, n })));
    await nights.run(
      four((n) => ({ notes: `secret${n}`, n })),
      { stream: { columns: { notes: { drop: true } } } },
    );
    expect(await nights.texts()).not.toContain('secret');
    const other = new Nights(space);
    await other.run(four((n) => ({ notes: `secret${n}`, n })));
    await other.run(
      four((n) => ({ notes: `secret${n}`, n })),
      { destination: { columns: { notes: { drop: true } } } },
    );
    expect(await other.texts()).not.toContain('secret');
  });

  it('that hash a column do so in rows that the source no longer has', async () => {
    const nights = new Nights(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ email: `secret${n}@x`, n }));
    await nights.run({ a: a as Row, ...rest }, upsert);
    await nights.run(rest, upsert);
    await nights.run(rest, { ...upsert, stream: { columns: { email: { hash: true, salt: 'a salt of eight' } } } });
    expect(await nights.keys()).toEqual(['a', 'b', 'c', 'd']);
    expect(await nights.texts()).not.toContain('secret');
  });

  it('that rename a column fill the new one in every row, and empty the old one', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ zip: `z${n}`, n })));
    const renamed = { stream: { columns: { zip: { rename: 'postcode' } } } };
    await nights.run({ ...four((n) => ({ zip: `z${n}`, n })), a: { zip: 'z9', n: 1 } }, renamed);
    expect(await nights.values('postcode')).toEqual({ a: ['z9'], b: ['z2'], c: ['z3'], d: ['z4'] });
    expect(Object.values(await nights.values('zip')).flat()).toEqual([]);
  });

  it('that track a column again bring its newest values', async () => {
    const nights = new Nights(space);
    const untracked = { stream: { columns: { score: { track: false } } } };
    await nights.run(
      four((n) => ({ score: n })),
      untracked,
    );
    await nights.run(
      four((n) => ({ score: n * 10 })),
      untracked,
    );
    await nights.run(four((n) => ({ score: n * 10 })));
    expect(await nights.values('score')).toEqual({ a: ['10'], b: ['20'], c: ['30'], d: ['40'] });
  });

  it('of a destination that match no column send nothing', async () => {
    const nights = new Nights(space);
    const wrong = { destination: { columns: { Email: { drop: true } } } };
    const report = await nights.run(
      four((n) => ({ email: `${n}@x` })),
      wrong,
    );
    expect(report?.error?.code).toBe('column_unknown');
  });
});

describe('keys that went', () => {
  it('are forgotten in rows that only the table still has', async () => {
    const nights = new Nights(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ n }));
    await nights.run({ a: a as Row, ...rest }, upsert);
    await nights.run(rest, upsert);
    expect((await space.cdsync(['forget', `${nights.name}.json`, 'members', 'a', '--yes', '--json'])).code).toBe(0);
    await nights.push();
    expect(await nights.keys()).toEqual(['b', 'c', 'd']);
  });

  it('are forgotten whatever the types of the key are', async () => {
    const file = join(space.folder, 'visits.jsonl');
    const visit = (day: string, n: number) => JSON.stringify({ day, seen: `${day}T08:00:00Z`, n });
    const query = `SELECT day::DATE AS day, seen::TIMESTAMPTZ AS seen, n FROM read_json('${file}', columns = {day: 'VARCHAR', seen: 'VARCHAR', n: 'BIGINT'})`;
    const visits = { name: 'visits', source: 'sql', key: ['day', 'seen', 'n'], query };
    const destination = { name: 'wh', connector: 'duckdb', path: './visits_wh.duckdb', mode: 'upsert' };
    await space.configure('visits', [visits], { job: { destinations: [destination] } });
    const first = [visit('2026-01-01', 1), visit('2026-01-02', 2)];
    await writeFile(file, first.join('\n'));
    expect((await space.run('visits', ['--accept'])).code).toBe(0);
    await writeFile(file, first[1] as string);
    expect((await space.run('visits', ['--accept'])).code).toBe(0);
    const key = JSON.stringify(['2026-01-01', '2026-01-01 08:00:00+00', '1']);
    expect((await space.cdsync(['forget', 'visits.json', 'visits', key, '--yes', '--json'])).code).toBe(0);
    expect((await space.cdsync(['push', 'visits.json', '--quiet'])).code).toBe(0);
    const instance = await DuckDBInstance.create(join(space.folder, 'visits_wh.duckdb'));
    const connection = await instance.connect();
    const found = (await connection.runAndReadAll('SELECT n FROM visits')).getRowObjectsJson();
    connection.closeSync();
    instance.closeSync();
    expect(found).toEqual([{ n: '2' }]);
  });

  it('go when mode upsert, which kept them, ends', async () => {
    const nights = new Nights(space);
    const { a, ...rest } = four((n) => ({ n }));
    await nights.run({ a: a as Row, ...rest });
    await nights.run(rest, { destination: { mode: 'upsert' } });
    expect(await nights.keys()).toEqual(['a', 'b', 'c', 'd']);
    await nights.run(rest);
    expect(await nights.keys()).toEqual(['b', 'c', 'd']);
  });

  it('leave their newest image in mode upsert, also if no delivery was between', async () => {
    const nights = new Nights(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ n }));
    await nights.run({ a: a as Row, ...rest }, upsert);
    await nights.run({ a: { n: 99 }, ...rest }, { ...upsert, push: false });
    await nights.run(rest, upsert);
    expect(await nights.values('n')).toMatchObject({ a: ['99'] });
  });
});

describe('values in PostgreSQL', () => {
  const rows = async (schema: string, columns: string) =>
    postgres.query(`SELECT ${columns} FROM ${schema}.members ORDER BY id`);
  const place = () => {
    const schema = postgres.name();
    return { schema, nights: new Nights(space, { connector: 'postgres', url: postgres.url(), schema }) };
  };

  it('are all there after a load that failed in the middle', async () => {
    const { schema, nights } = place();
    await nights.run(four((n) => ({ age: n })));
    await postgres.query(
      `CREATE FUNCTION ${schema}.never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
       CREATE TRIGGER never BEFORE INSERT OR UPDATE ON ${schema}.members FOR EACH ROW EXECUTE FUNCTION ${schema}.never()`,
    );
    const later = { ...four((n) => ({ age: n })), b: { age: 'n/a' } };
    expect((await nights.run(later))?.status).toBe('failed');
    await postgres.query(`DROP TRIGGER never ON ${schema}.members`);
    expect((await nights.push()).status).toBe('ok');
    const found = await postgres.query(`SELECT * FROM ${schema}.members ORDER BY id`);
    const texts = found.map((row) =>
      Object.entries(row).flatMap(([name, value]) =>
        name.startsWith('age__') ? [String(value).replaceAll('"', '')] : [],
      ),
    );
    expect(texts).toEqual([['1'], ['n/a'], ['3'], ['4']]);
  });

  it('that are lists, and texts beside them later, are in one column of JSON', async () => {
    const { schema, nights } = place();
    await nights.run(four((n) => ({ tags: [n] })));
    await nights.run({ ...four((n) => ({ tags: [n] })), b: { tags: 'one' } });
    expect((await rows(schema, 'tags')).map(({ tags }) => tags)).toEqual([[1], 'one', [3], [4]]);
  });

  it('that cannot be held cost no row its place', async () => {
    const { schema, nights } = place();
    await nights.run(four((n) => ({ notes: `${n}`, other: n })));
    const odd = { ...four((n) => ({ notes: `${n}`, other: n })), b: { notes: 'x\0y', other: 2 } };
    await nights.run(odd, { words: ['--full'] });
    expect((await rows(schema, 'id, notes')).map(({ id, notes }) => [id, notes])).toEqual([
      ['a', '1'],
      ['b', null],
      ['c', '3'],
      ['d', '4'],
    ]);
  });

  it('that cannot be held do not keep their row when it is deleted', async () => {
    const { schema, nights } = place();
    const soft = { destination: { deletes: 'soft' } };
    const { b, ...rest } = four((n) => ({ notes: `${n}` }));
    await nights.run({ b: b as Row, ...rest }, soft);
    await nights.run({ b: { notes: 'x\0y' }, ...rest }, soft);
    await nights.run(rest, soft);
    expect(await rows(schema, 'id, _deleted_at IS NULL AS lives')).toMatchObject([
      { id: 'a', lives: true },
      { id: 'b', lives: false },
      { id: 'c', lives: true },
      { id: 'd', lives: true },
    ]);
  });
});

describe('a storage folder', () => {
  it('that is put back from a backup brings its own snapshot, though that has the number of another', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ n })));
    await cp(nights.storage(), nights.storage(`${nights.name}_kept`), { recursive: true, verbatimSymlinks: true });
    await nights.run({ ...four((n) => ({ n })), a: { n: 50 } });
    await rm(nights.storage(), { recursive: true, force: true });
    await cp(nights.storage(`${nights.name}_kept`), nights.storage(), { recursive: true, verbatimSymlinks: true });
    await nights.run({ ...four((n) => ({ n })), b: { n: 60 } });
    expect(await nights.values('n')).toEqual({ a: ['1'], b: ['60'], c: ['3'], d: ['4'] });
  });

  it('that writes a table by turns with another one is refused', async () => {
    const nights = new Nights(space);
    const [one, other] = [`./${nights.name}_one`, `./${nights.name}_other`];
    await nights.run(
      four((n) => ({ n })),
      { storage: one },
    );
    await nights.run({ x: { n: 1 } }, { storage: other });
    expect(
      (
        await nights.run(
          four((n) => ({ n: n + 1 })),
          { storage: one },
        )
      )?.error?.code,
    ).toBe('store_unknown');
  });

  it('keeps and delivers attributes that are called like columns of its own', async () => {
    const nights = new Nights(space);
    const names = (n: number) => ({ _sequence: n, _key: `k${n}`, _row: n, _cdsync_file: `f${n}` });
    await nights.run(four(names));
    await nights.run({ ...four(names), a: names(7) }, { push: false });
    await nights.run({ ...four(names), a: names(8), b: names(9) });
    expect(await nights.values('_sequence')).toEqual({ a: ['8'], b: ['9'], c: ['3'], d: ['4'] });
    expect(await nights.values('_key')).toEqual({ a: ['k8'], b: ['k9'], c: ['k3'], d: ['k4'] });
    const changes = await space.query(
      nights.name,
      "SELECT count(*)::INT AS n FROM members__changes WHERE _op = 'update'",
    );
    expect(changes).toEqual([{ n: 3 }]);
  });
});

describe('names', () => {
  it('of tables that differ only in case are one table, if the database says so', async () => {
    const nights = new Nights(space);
    await nights.run(
      four((n) => ({ n })),
      { destination: { table: 'Members' } },
    );
    await nights.run(
      four((n) => ({ n: n + 1 })),
      { destination: { table: 'members' } },
    );
    expect(await nights.values('n')).toEqual({ a: ['2'], b: ['3'], c: ['4'], d: ['5'] });
    expect(await nights.keys()).toHaveLength(4);
  });

  it('of destinations may change: one --adopt is enough', async () => {
    const nights = new Nights(space);
    await nights.run(four((n) => ({ n })));
    const renamed = { destination: { name: 'lake' } };
    await nights.run(
      four((n) => ({ n: n + 1 })),
      { ...renamed, words: ['--adopt'] },
    );
    expect(
      (
        await nights.run(
          four((n) => ({ n: n + 2 })),
          renamed,
        )
      )?.status,
    ).toBe('ok');
    expect(await nights.values('n')).toEqual({ a: ['3'], b: ['4'], c: ['5'], d: ['6'] });
  });
});

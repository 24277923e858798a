import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';
import { four, type Row, Runs } from './recorded-runs.js';

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
    const runs = new Runs(space);
    await runs.run(four((n) => ({ code: n, other: n })));
    await runs.run(four((n) => ({ code: `t${n}`, other: n })));
    await runs.run(four((n) => ({ code: n === 1 ? 'u1' : `t${n}`, other: n })));
    expect(await runs.values('code')).toEqual({ a: ['u1'], b: ['t2'], c: ['t3'], d: ['t4'] });
  });

  it('are the newest ones in every column that has them, when the type changes back', async () => {
    const runs = new Runs(space);
    const infer = { stream: { strings: 'infer' } };
    await runs.run(
      four((n) => ({ code: `${n}` })),
      infer,
    );
    await runs.run(
      four((n) => ({ code: `${n}` })),
      { stream: { strings: 'keep' } },
    );
    await runs.run({ ...four((n) => ({ code: `${n}` })), a: { code: '7' } }, infer);
    expect(await runs.values('code')).toEqual({ a: ['7'], b: ['2'], c: ['3'], d: ['4'] });
  });

  it('keep their digits where the table is wider than the stream', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ score: n + 0.5 })));
    await runs.configure({ storage: './other' });
    const big = '9007199254740993';
    await space.control('profiles', {
      index: 'made',
      records: [`{"id":"a","index_id":"made","attributes":{"score":${big}}}`],
    });
    expect((await space.run(runs.name, ['--no-push'])).code).toBe(0);
    await runs.push(['--adopt']);
    expect(await runs.values('score')).toEqual({ a: [big] });
  });

  it('are never invented', async () => {
    const runs = new Runs(space);
    await runs.run(four(() => ({ vip: true })));
    await runs.run({ ...four(() => ({ vip: true })), a: { vip: 1 }, b: { vip: 'yes' } });
    expect(await runs.values('vip')).toEqual({ a: ['1'], b: ['yes'], c: ['true'], d: ['true'] });
  });

  it('do not go to a column of another attribute', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ amount: n, amount__json: `j${n}`, amount__text: `t${n}` })));
    await runs.run(four((n) => ({ amount: `x${n}`, amount__json: `j${n}`, amount__text: `t${n}` })));
    const rows = await runs.sql('SELECT id, amount__json AS j, amount__text AS t FROM members ORDER BY id');
    expect(rows.map(({ j, t }) => [j, t])).toEqual([1, 2, 3, 4].map((n) => [`j${n}`, `t${n}`]));
    expect((await runs.texts()).includes('x3')).toBe(true);
  });
});

describe('a table that others change', () => {
  it('is not loaded while a type of it is another', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ code: n })));
    await runs.sql('ALTER TABLE members ALTER code SET DATA TYPE DECIMAL(10,2)');
    expect((await runs.run(four((n) => ({ code: n + 1 }))))?.error?.code).toBe('table_altered');
  });

  it('is complete again after a push, though nothing has changed at the source', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ code: n })));
    await runs.sql('DROP TABLE members');
    expect((await runs.push()).status).toBe('ok');
    expect(await runs.keys()).toEqual(['a', 'b', 'c', 'd']);
    await runs.sql("DELETE FROM members WHERE id = 'b'");
    expect((await runs.push()).status).toBe('ok');
    expect(await runs.keys()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('gets a column that was dropped filled in every row', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ code: n, other: n })));
    await runs.sql('ALTER TABLE members DROP COLUMN code');
    await runs.run({ ...four((n) => ({ code: n, other: n })), a: { code: 1, other: 9 } });
    expect(await runs.values('code')).toEqual({ a: ['1'], b: ['2'], c: ['3'], d: ['4'] });
  });

  it('keeps a column of theirs as it is when an attribute with its name appears', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ code: n })));
    await runs.sql('ALTER TABLE members ADD COLUMN note VARCHAR');
    await runs.sql("UPDATE members SET note = 'own'");
    await runs.run(four((n) => ({ code: n, note: `n${n}` })));
    expect((await runs.sql('SELECT DISTINCT note FROM members')).map(({ note }) => note)).toEqual(['own']);
    expect(await runs.texts()).toContain('n3');
  });

  it('is loaded again after values have changed places', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ email: `${n}@x` })));
    await runs.sql("UPDATE members SET email = CASE id WHEN 'a' THEN '2@x' WHEN 'b' THEN '1@x' ELSE email END");
    expect((await runs.push(['--verify'])).error?.code).toBe('table_changed');
    expect(await runs.values('email')).toEqual({ a: ['1@x'], b: ['2@x'], c: ['3@x'], d: ['4@x'] });
  });
});

describe('rules', () => {
  it('that drop a column take its values from the table', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ notes: `secret${n}`, n })));
    await runs.run(
      four((n) => ({ notes: `secret${n}`, n })),
      { stream: { columns: { notes: { drop: true } } } },
    );
    expect(await runs.texts()).not.toContain('secret');
    const other = new Runs(space);
    await other.run(four((n) => ({ notes: `secret${n}`, n })));
    await other.run(
      four((n) => ({ notes: `secret${n}`, n })),
      { destination: { columns: { notes: { drop: true } } } },
    );
    expect(await other.texts()).not.toContain('secret');
  });

  it('that hash a column do so in rows that the source no longer has', async () => {
    const runs = new Runs(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ email: `secret${n}@x`, n }));
    await runs.run({ a: a as Row, ...rest }, upsert);
    await runs.run(rest, upsert);
    await runs.run(rest, { ...upsert, stream: { columns: { email: { hash: true, salt: 'a salt of sixteen' } } } });
    expect(await runs.keys()).toEqual(['a', 'b', 'c', 'd']);
    expect(await runs.texts()).not.toContain('secret');
  });

  it('that rename a column fill the new one in every row, and empty the old one', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ zip: `z${n}`, n })));
    const renamed = { stream: { columns: { zip: { rename: 'postcode' } } } };
    await runs.run({ ...four((n) => ({ zip: `z${n}`, n })), a: { zip: 'z9', n: 1 } }, renamed);
    expect(await runs.values('postcode')).toEqual({ a: ['z9'], b: ['z2'], c: ['z3'], d: ['z4'] });
    expect(Object.values(await runs.values('zip')).flat()).toEqual([]);
  });

  it('that track a column again deliver its newest values', async () => {
    const runs = new Runs(space);
    const untracked = { stream: { columns: { score: { track: false } } } };
    await runs.run(
      four((n) => ({ score: n })),
      untracked,
    );
    await runs.run(
      four((n) => ({ score: n * 10 })),
      untracked,
    );
    await runs.run(four((n) => ({ score: n * 10 })));
    expect(await runs.values('score')).toEqual({ a: ['10'], b: ['20'], c: ['30'], d: ['40'] });
  });

  it('of a destination that match no column send nothing', async () => {
    const runs = new Runs(space);
    const wrong = { destination: { columns: { Email: { drop: true } } } };
    const report = await runs.run(
      four((n) => ({ email: `${n}@x` })),
      wrong,
    );
    expect(report?.error?.code).toBe('column_unknown');
  });
});

describe('keys that went', () => {
  it('are forgotten in rows that only the table still has', async () => {
    const runs = new Runs(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ n }));
    await runs.run({ a: a as Row, ...rest }, upsert);
    await runs.run(rest, upsert);
    expect((await space.cdsync(['forget', `${runs.name}.json`, 'members', 'a', '--yes', '--json'])).code).toBe(0);
    await runs.push();
    expect(await runs.keys()).toEqual(['b', 'c', 'd']);
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
    const runs = new Runs(space);
    const { a, ...rest } = four((n) => ({ n }));
    await runs.run({ a: a as Row, ...rest });
    await runs.run(rest, { destination: { mode: 'upsert' } });
    expect(await runs.keys()).toEqual(['a', 'b', 'c', 'd']);
    await runs.run(rest);
    expect(await runs.keys()).toEqual(['b', 'c', 'd']);
  });

  it('leave their newest image in mode upsert, also if no delivery was between', async () => {
    const runs = new Runs(space);
    const upsert = { destination: { mode: 'upsert' } };
    const { a, ...rest } = four((n) => ({ n }));
    await runs.run({ a: a as Row, ...rest }, upsert);
    await runs.run({ a: { n: 99 }, ...rest }, { ...upsert, push: false });
    await runs.run(rest, upsert);
    expect(await runs.values('n')).toMatchObject({ a: ['99'] });
  });
});

describe('values in PostgreSQL', () => {
  const rows = async (schema: string, columns: string) =>
    postgres.query(`SELECT ${columns} FROM ${schema}.members ORDER BY id`);
  const place = () => {
    const schema = postgres.name();
    return { schema, runs: new Runs(space, { connector: 'postgres', url: postgres.url(), schema }) };
  };

  it('are all there after a load that failed in the middle', async () => {
    const { schema, runs } = place();
    await runs.run(four((n) => ({ age: n })));
    await postgres.query(
      `CREATE FUNCTION ${schema}.never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
       CREATE TRIGGER never BEFORE INSERT OR UPDATE ON ${schema}.members FOR EACH ROW EXECUTE FUNCTION ${schema}.never()`,
    );
    const later = { ...four((n) => ({ age: n })), b: { age: 'n/a' } };
    expect((await runs.run(later))?.status).toBe('failed');
    await postgres.query(`DROP TRIGGER never ON ${schema}.members`);
    expect((await runs.push()).status).toBe('ok');
    const found = await postgres.query(`SELECT * FROM ${schema}.members ORDER BY id`);
    const texts = found.map((row) =>
      Object.entries(row).flatMap(([name, value]) =>
        name.startsWith('age__') ? [String(value).replaceAll('"', '')] : [],
      ),
    );
    expect(texts).toEqual([['1'], ['n/a'], ['3'], ['4']]);
  });

  it('that are lists, and texts beside them later, are in one column of JSON', async () => {
    const { schema, runs } = place();
    await runs.run(four((n) => ({ tags: [n] })));
    await runs.run({ ...four((n) => ({ tags: [n] })), b: { tags: 'one' } });
    expect((await rows(schema, 'tags')).map(({ tags }) => tags)).toEqual([[1], 'one', [3], [4]]);
  });

  it('that cannot be held cost no row its place', async () => {
    const { schema, runs } = place();
    await runs.run(four((n) => ({ notes: `${n}`, other: n })));
    const odd = { ...four((n) => ({ notes: `${n}`, other: n })), b: { notes: 'x\0y', other: 2 } };
    await runs.run(odd, { words: ['--full'] });
    expect((await rows(schema, 'id, notes')).map(({ id, notes }) => [id, notes])).toEqual([
      ['a', '1'],
      ['b', null],
      ['c', '3'],
      ['d', '4'],
    ]);
  });

  it('that cannot be held do not keep their row when it is deleted', async () => {
    const { schema, runs } = place();
    const soft = { destination: { deletes: 'soft' } };
    const { b, ...rest } = four((n) => ({ notes: `${n}` }));
    await runs.run({ b: b as Row, ...rest }, soft);
    await runs.run({ b: { notes: 'x\0y' }, ...rest }, soft);
    await runs.run(rest, soft);
    expect(await rows(schema, 'id, _deleted_at IS NULL AS lives')).toMatchObject([
      { id: 'a', lives: true },
      { id: 'b', lives: false },
      { id: 'c', lives: true },
      { id: 'd', lives: true },
    ]);
  });
});

describe('a storage folder', () => {
  it('that is restored from a backup delivers its own snapshot, though another one had its number', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ n })));
    await cp(runs.storage(), runs.storage(`${runs.name}_kept`), { recursive: true, verbatimSymlinks: true });
    await runs.run({ ...four((n) => ({ n })), a: { n: 50 } });
    await rm(runs.storage(), { recursive: true, force: true });
    await cp(runs.storage(`${runs.name}_kept`), runs.storage(), { recursive: true, verbatimSymlinks: true });
    await runs.run({ ...four((n) => ({ n })), b: { n: 60 } });
    expect(await runs.values('n')).toEqual({ a: ['1'], b: ['60'], c: ['3'], d: ['4'] });
  });

  it('that writes a table by turns with another one is refused', async () => {
    const runs = new Runs(space);
    const [one, other] = [`./${runs.name}_one`, `./${runs.name}_other`];
    await runs.run(
      four((n) => ({ n })),
      { storage: one },
    );
    await runs.run({ x: { n: 1 } }, { storage: other, words: ['--adopt'] });
    expect(
      (
        await runs.run(
          four((n) => ({ n: n + 1 })),
          { storage: one },
        )
      )?.error?.code,
    ).toBe('store_unknown');
  });

  it('keeps and delivers attributes with the names of internal columns', async () => {
    const runs = new Runs(space);
    const names = (n: number) => ({ _sequence: n, _key: `k${n}`, _row: n, _cdsync_file: `f${n}` });
    await runs.run(four(names));
    await runs.run({ ...four(names), a: names(7) }, { push: false });
    await runs.run({ ...four(names), a: names(8), b: names(9) });
    expect(await runs.values('_sequence')).toEqual({ a: ['8'], b: ['9'], c: ['3'], d: ['4'] });
    expect(await runs.values('_key')).toEqual({ a: ['k8'], b: ['k9'], c: ['k3'], d: ['k4'] });
    const changes = await space.query(
      runs.name,
      "SELECT count(*)::INT AS n FROM members__changes WHERE _op = 'update'",
    );
    expect(changes).toEqual([{ n: 3 }]);
  });
});

describe('names', () => {
  it('of tables that differ only in case are one table, if the database says so', async () => {
    const runs = new Runs(space);
    await runs.run(
      four((n) => ({ n })),
      { destination: { table: 'Members' } },
    );
    await runs.run(
      four((n) => ({ n: n + 1 })),
      { destination: { table: 'members' } },
    );
    expect(await runs.values('n')).toEqual({ a: ['2'], b: ['3'], c: ['4'], d: ['5'] });
    expect(await runs.keys()).toHaveLength(4);
  });

  it('of destinations may change: one --adopt is enough', async () => {
    const runs = new Runs(space);
    await runs.run(four((n) => ({ n })));
    const renamed = { destination: { name: 'lake' } };
    await runs.run(
      four((n) => ({ n: n + 1 })),
      { ...renamed, words: ['--adopt'] },
    );
    expect(
      (
        await runs.run(
          four((n) => ({ n: n + 2 })),
          renamed,
        )
      )?.status,
    ).toBe('ok');
    expect(await runs.values('n')).toEqual({ a: ['3'], b: ['4'], c: ['5'], d: ['6'] });
  });
});

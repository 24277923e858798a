import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import mysql from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ComparedRow, TablePlace } from '../../../src/conformance/harness.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';
import { four, Runs } from './recorded-runs.js';

type Product = 'duckdb' | 'postgres' | 'mysql';
/** Where one series goes. */
interface Place {
  readonly at: Record<string, unknown>;
  /** Rows of a query, each value as text. */
  rows(sql: string): Promise<Record<string, string | null>[]>;
  /** Statements. */
  run(sql: string): Promise<void>;
}

let space: Workspace;
let postgres: PostgresServer;
const hasMariadb = mariadbIsInstalled();
let mariadb: MariadbServer | undefined;
let series = 0;
beforeAll(async () => {
  [space, postgres, mariadb] = await Promise.all([
    Workspace.open({ profiles: 10 }),
    PostgresServer.start(),
    hasMariadb ? MariadbServer.start() : undefined,
  ]);
}, 120_000);
afterAll(async () => {
  await Promise.all([space.close(), postgres.stop(), mariadb?.stop()]);
});

const plain = (row: ComparedRow) => Object.fromEntries(row);

async function placeOf(product: Product): Promise<Place> {
  series += 1;
  if (product === 'duckdb') {
    const path = `./edges${series}.duckdb`;
    const query = async (sql: string) => {
      const instance = await DuckDBInstance.create(join(space.folder, path));
      const connection = await instance.connect();
      try {
        await connection.run("SET TimeZone = 'UTC'");
        return (await connection.runAndReadAll(sql)).getRowObjectsJson() as Record<string, string | null>[];
      } finally {
        connection.closeSync();
        instance.closeSync();
      }
    };
    const rows = (sql: string) => query(`SELECT COLUMNS(*)::VARCHAR FROM (${sql})`);
    return { at: { connector: 'duckdb', path }, rows, run: async (sql) => void (await query(sql)) };
  }
  if (product === 'postgres') {
    const schema = postgres.name();
    const within = (sql: string) => `SET search_path = ${schema}; ${sql}`;
    return {
      at: { connector: 'postgres', url: postgres.url(), schema },
      rows: async (sql) => {
        const name = `SELECT to_jsonb(r) AS row FROM (${sql}) r`;
        const found = (await postgres.query(name.replaceAll(/\b(members|_cdsync_state)\b/g, `${schema}.$1`))) as {
          row: Record<string, unknown>;
        }[];
        return found.map(({ row }) =>
          Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === null ? null : String(value)])),
        );
      },
      run: async (sql) => void (await postgres.query(within(sql))),
    };
  }
  const server = mariadb as MariadbServer;
  const { options } = (await server.place()) as TablePlace;
  const database = new URL(String(options.url)).pathname.slice(1);
  return {
    at: { connector: 'mysql', ...options },
    rows: async (sql) => {
      await server.query(`USE ${database}`);
      return (await server.rows(sql)).map(plain);
    },
    run: async (sql) => {
      await server.query(`USE ${database}`);
      for (const statement of sql.split(';')) if (statement.trim() !== '') await server.query(statement);
    },
  };
}

const products: Product[] = ['duckdb', 'postgres', ...(hasMariadb ? (['mysql'] as const) : [])];
const infer = { stream: { strings: 'infer' } };

describe.each(products)('%s', (product) => {
  it('gives no renamed column the name of another one, and lets two columns exchange names', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    const people = four((n) => ({ a: `a${n}`, b: `b${n}` }));
    const onto = { destination: { columns: { a: { rename: 'b' } } } };
    expect(await runs.run(people, onto)).toMatchObject({ status: 'failed', error: { code: 'destination_columns' } });
    expect(await runs.run(people)).toMatchObject({ status: 'ok' });
    expect(await runs.run(people, onto)).toMatchObject({ status: 'failed', error: { code: 'destination_columns' } });
    const swap = { destination: { columns: { a: { rename: 'b' }, b: { rename: 'a' } } } };
    expect(await runs.run(people, swap)).toMatchObject({ status: 'ok', action: 'reload' });
    const rows = await place.rows('SELECT * FROM members ORDER BY id');
    expect(rows.map(({ a, b }) => `${a} ${b}`)).toEqual(['b1 a1', 'b2 a2', 'b3 a3', 'b4 a4']);
    expect(Object.keys(rows[0] ?? {}).sort()).toEqual(['_synced_at', 'a', 'b', 'id', 'index_id']);
  });

  it('keeps each value of a typed column after an odd text, whatever the notation of the others', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    const texts: Record<string, [string, string, string]> = {
      german: ['31.12.2024', '29.02.2024', '01.02.1999'],
      slashes: ['2024/12/31', '2024/02/29', '1999/02/01'],
      days: ['2024-12-31', '2024-02-29', '1999-02-01'],
      blanks: ['2024-02-29 10:00:00', '2024-12-31 23:59:59', '1999-02-01 00:00:00'],
      locals: ['2024-02-29T10:00:00', '2024-12-31T23:59:59', '1999-02-01T00:00:00'],
      offsets: ['2024-02-29T10:00:00+00:00', '2024-12-31T23:59:59+00:00', '1999-02-01T00:00:00+00:00'],
      zulu: ['2024-02-29T10:00:00.123Z', '2024-12-31T23:59:59.999Z', '1999-02-01T00:00:00.000Z'],
      python: ['True', 'False', 'True'],
      shouted: ['TRUE', 'FALSE', 'TRUE'],
      small: ['true', 'false', 'true'],
      integers: ['5', '-17', '9223372036854775807'],
      hugest: ['5', '-17', '9'.repeat(38)],
      decimals: ['5.10', '-17.05', '1234567890123456.78'],
      doubles: ['1e-7', '-2.5e+30', '0.1'],
    };
    const people = (odd: string | undefined, last: number) =>
      four((n) =>
        Object.fromEntries(
          Object.entries(texts).map(([name, values]) => [name, n === 4 ? (odd ?? values[last]) : values[n - 1]]),
        ),
      );
    const names = Object.keys(texts).join(', ');
    const typed = async () => (await place.rows(`SELECT id, ${names} FROM members ORDER BY id`)).slice(0, 3);
    expect(await runs.run(people(undefined, 0), infer)).toMatchObject({ status: 'ok' });
    const before = await typed();
    expect(before[0]?.german).toContain('2024-12-31');
    expect(await runs.run(people('n/a', 0), infer)).toMatchObject({ status: 'ok', action: 'reload' });
    expect(await typed()).toEqual(before);
    expect(await runs.run(people('n/a ', 0), infer)).toMatchObject({ status: 'ok', action: 'increment' });
    expect(await typed()).toEqual(before);
    const beside = Object.keys(texts).map((name) => `${name}__text`);
    const shown = await place.rows(`SELECT ${beside.join(', ')} FROM members ORDER BY id`);
    for (const [name, values] of Object.entries(texts))
      expect(shown.map((row) => row[`${name}__text`])).toEqual([...values, 'n/a ']);
    // Back in the table's own notation: the fourth person's values are typed again.
    expect(await runs.run(people(undefined, 1), infer)).toMatchObject({ status: 'ok' });
    const [second, fourth] = (await place.rows(`SELECT ${names} FROM members ORDER BY id`)).filter(
      (_, n) => n % 2 === 1,
    );
    expect(fourth).toEqual(second);
  }, 180_000);

  it('widens integers and decimals, and keeps the widened column once an integer has 39 digits', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    const digits = (n: number, last: string) => ({
      big: n === 4 ? last : `${n}`,
      price: n === 4 ? `${last}.25` : `${n}.25`,
    });
    const small = '9'.repeat(15);
    expect(
      await runs.run(
        four((n) => digits(n, small)),
        infer,
      ),
    ).toMatchObject({ status: 'ok' });
    const wide = '9'.repeat(36);
    const widened = await runs.run(
      four((n) => digits(n, wide)),
      infer,
    );
    expect(widened).toMatchObject({ status: 'ok', action: 'reload', error: null });
    expect(
      await place.rows('SELECT big, price FROM members ORDER BY id').then((rows) => Object.keys(rows[0] ?? {})),
    ).toEqual(['big', 'price']);
    const held = () =>
      place.rows(
        product === 'mysql'
          ? 'SELECT cast(big AS char) AS big FROM members ORDER BY id'
          : 'SELECT big::text AS big FROM members ORDER BY id',
      );
    expect((await held()).map(({ big }) => big)).toEqual(['1', '2', '3', wide]);
    const columns = await place.rows('SELECT * FROM members');
    expect(Object.keys(columns[0] ?? {}).filter((name) => name.endsWith('__text'))).toEqual([]);
    for (const last of [`1${'0'.repeat(38)}`, '170141183460469231731687303715884105727', '9'.repeat(39)]) {
      expect(
        await runs.run(
          four((n) => digits(n, last)),
          infer,
        ),
      ).toMatchObject({ status: 'ok', error: null });
      expect((await held()).map(({ big }) => big)).toEqual(['1', '2', '3', null]);
    }
  });

  it('uses a column again that was renamed away, also after a change of its type', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    await runs.run(four((n) => ({ zip: n })));
    const renamed = { destination: { columns: { zip: { rename: 'code' } } } };
    await runs.run(
      four((n) => ({ zip: n })),
      renamed,
    );
    await runs.run(
      four((n) => ({ zip: n === 4 ? 'x' : n })),
      renamed,
    );
    expect(await runs.run(four((n) => ({ zip: n === 4 ? 'x' : n })))).toMatchObject({ status: 'ok' });
    const rows = await place.rows('SELECT zip, zip__text FROM members ORDER BY id');
    expect(rows.map(({ zip, zip__text }) => `${zip} ${zip__text}`)).toEqual(['1 1', '2 2', '3 3', 'null x']);
  });

  it('accepts with --adopt the type that a person has given a column', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    const people = four((n) => ({ n: n + 20 }));
    await runs.run(people);
    const type = {
      duckdb: 'ALTER n TYPE DECIMAL(10,2)',
      postgres: 'ALTER n TYPE numeric(10,2)',
      mysql: 'MODIFY n decimal(10,2)',
    };
    await place.run(`ALTER TABLE members ${type[product]}`);
    expect(await runs.push()).toMatchObject({ status: 'failed', error: { code: 'table_altered' } });
    expect(await runs.push(['--adopt'])).toMatchObject({ status: 'ok', action: 'reload', error: null });
    expect(await runs.push()).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(await runs.run({ ...people, a: { n: 99 } })).toMatchObject({ status: 'ok', action: 'increment' });
    const rows = await place.rows('SELECT n FROM members ORDER BY id');
    expect(rows.map(({ n }) => Number(n))).toEqual([99, 22, 23, 24]);
  });

  it('takes its own columns back if only the record is put back to the day before', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    await runs.run(four((n) => ({ age: n, score: n })));
    const state = '_cdsync_state';
    await place.run(`CREATE TABLE kept AS SELECT * FROM ${state}`);
    await runs.run(four((n) => ({ age: n === 4 ? 'old' : n, score: n, note: 'new' })));
    await place.run(`DELETE FROM ${state}; INSERT INTO ${state} SELECT * FROM kept`);
    const third = four((n) => ({ age: n === 4 ? 'older' : n, score: n }));
    expect(await runs.run(third)).toMatchObject({ status: 'ok', action: 'reload' });
    const rows = await place.rows('SELECT * FROM members ORDER BY id');
    expect(Object.keys(rows[0] ?? {}).sort()).toEqual([
      '_synced_at',
      'age',
      'age__text',
      'id',
      'index_id',
      'note',
      'score',
    ]);
    expect(rows.map(({ age, age__text, note }) => `${age} ${age__text} ${note}`)).toEqual([
      ...['1', '2', '3'].map((n) => `${n} ${n} null`),
      'null older null',
    ]);
  });

  it('loads further changes after a key with U+0000, also once the source is repaired', async () => {
    const place = await placeOf(product);
    const name = `nul${series}`;
    const rows = (...ids: string[]) => ids.map((id, n) => `SELECT ${id} AS id, ${n} AS n`).join(' UNION ALL ');
    const deliver = async (query: string, words: string[] = []) => {
      const stream = { name: 'members', source: 'sql', key: ['id'], query };
      await space.configure(name, [stream], { job: { destinations: [{ name: 'wh', ...place.at }] } });
      const { report } = await space.run(name, words);
      return report.jobs[0]?.destinations[0];
    };
    const nul = "'a' || chr(0) || 'b'";
    await deliver(rows("'p'", nul));
    expect(await deliver(rows("'p'", nul, "'q'"))).toMatchObject({ status: 'ok', error: null });
    expect(await deliver(rows("'p'", "'ab'", "'q'", "'r'"), ['--accept'])).toMatchObject({ status: 'ok', error: null });
    const found = await place.rows("SELECT id FROM members WHERE id <> 'x' ORDER BY id");
    expect(found.map(({ id }) => id)).toEqual(['ab', 'p', 'q', 'r']);
  });

  it('says which columns a look at the whole table does not compare, and sees all others', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    await runs.run(four((n) => ({ n, tags: { a: n }, score: n + 0.5 })));
    const { stderr } = await space.cdsync(['push', `${runs.name}.json`, '--verify']);
    const missing: string[] = { duckdb: [], postgres: ['tags'], mysql: ['tags', 'score'] }[product];
    for (const column of ['n', 'tags', 'score'])
      expect(/compared without (.*?):/.exec(stderr)?.[1]?.includes(`"${column}"`) ?? false).toBe(
        missing.includes(column),
      );
    const table = 'members';
    for (const edit of ['n = 17', ...(missing.includes('score') ? [] : ['score = 17.25'])]) {
      await place.run(`UPDATE ${table} SET ${edit} WHERE id = 'a'`);
      expect(await runs.push(['--verify'])).toMatchObject({ error: { code: 'table_changed' } });
    }
  });

  it('finds its columns of every type again after the record was lost', async () => {
    const place = await placeOf(product);
    const runs = new Runs(space, place.at);
    const attributes = (n: number) => ({
      ...{ deep: { a: n, 'odd "name"': [{ b: 1.5 }] }, list: [n], mixed: n === 1 ? 'x' : n, text: `t${n}`, yes: true },
      ...{
        day: '2026-01-01',
        at: '2026-01-01T00:00:00Z',
        price: '1.25',
        number: n + 0.5,
        count: n,
        big: '9'.repeat(30),
      },
    });
    await runs.run(four(attributes), infer);
    const columns = async () => Object.keys((await place.rows('SELECT * FROM members'))[0] ?? {}).sort();
    const before = await columns();
    expect(before).toHaveLength(14);
    await place.run('DELETE FROM _cdsync_state');
    expect(await runs.push(['--adopt'])).toMatchObject({ status: 'ok', action: 'reload', error: null });
    expect(await columns()).toEqual(before);
  });
});

it.each([
  ['score', 'real'],
  ['at', 'timestamptz(0)'],
])(
  'PostgreSQL: a column "%s" that a person has made %s has a way out in its error, also after --adopt',
  async (name, type) => {
    const place = await placeOf('postgres');
    const runs = new Runs(space, place.at);
    await runs.run(
      four((n) => ({ score: n + 0.1, at: `2026-01-0${n}T10:00:00.123456Z` })),
      infer,
    );
    await place.run(`ALTER TABLE members ALTER "${name}" TYPE ${type}`);
    const refused = { status: 'failed', error: { code: 'table_altered', hint: expect.stringContaining('--recreate') } };
    expect(await runs.push()).toMatchObject(refused);
    expect(await runs.push(['--adopt'])).toMatchObject({
      status: 'failed',
      error: { code: 'delivery_differs', hint: expect.stringMatching(`"${name}" .*--adopt cannot accept.*--recreate`) },
    });
    expect(await runs.push()).toMatchObject(refused);
    expect(await runs.push(['--recreate'])).toMatchObject({ status: 'ok', error: null });
  },
);

describe.runIf(hasMariadb)('a reload of MySQL', () => {
  it('keeps no reader waiting behind another one', async () => {
    const place = await placeOf('mysql');
    const runs = new Runs(space, place.at);
    await runs.run(
      four((n) => ({ n })),
      { destination: { mode: 'replace' } },
    );
    const server = mariadb as MariadbServer;
    const database = new URL(String(place.at.url)).pathname.slice(1);
    const reader = await mysql.createConnection({ host: '127.0.0.1', port: server.port, user: 'root' });
    await reader.query(`START TRANSACTION`);
    await reader.query(`SELECT * FROM ${database}.members`);
    const began = Date.now();
    const delivery = runs.run(
      four((n) => ({ n: n + 1 })),
      { destination: { mode: 'replace' } },
    );
    let longest = 0;
    let isOver = false;
    const done = delivery.finally(() => {
      isOver = true;
    });
    const other = await mysql.createConnection({ host: '127.0.0.1', port: server.port, user: 'root' });
    while (!isOver) {
      const at = Date.now();
      await other.query(`SELECT count(*) FROM ${database}.members`);
      longest = Math.max(longest, Date.now() - at);
    }
    expect(await done).toMatchObject({ status: 'ok', action: 'reload', error: null });
    expect(longest).toBeLessThan(10_000);
    expect(Date.now() - began).toBeLessThan(50_000);
    await reader.query('COMMIT');
    await Promise.all([reader.end(), other.end()]);
    expect(await runs.push()).toMatchObject({ status: 'ok', action: 'nothing' });
    const rows = await place.rows('SELECT n FROM members ORDER BY id');
    expect(rows.map(({ n }) => n)).toEqual(['2', '3', '4', '5']);
  });
});

it('DuckDB: changes rows of a table whose key has a unique index', async () => {
  const place = await placeOf('duckdb');
  const runs = new Runs(space, place.at);
  expect(await runs.run(four((n) => ({ a: `a${n}` })))).toMatchObject({ status: 'ok' });
  await place.run('CREATE UNIQUE INDEX by_id ON members (id)');
  expect(await runs.run(four((n) => ({ a: `b${n}` })))).toMatchObject({
    status: 'ok',
    action: 'increment',
    error: null,
  });
  const rows = await place.rows('SELECT * FROM members ORDER BY id');
  expect(rows.map(({ a }) => a)).toEqual(['b1', 'b2', 'b3', 'b4']);
});

import { readFile } from 'node:fs/promises';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { describe, expect, it } from 'vitest';
import { FilePlaces, kindsOfPlace } from '../../fixtures/file-places.js';
import { type DrivenLoad, merge } from '../../fixtures/load-driver.js';

const at = FilePlaces.ofTests();

const formats = ['parquet', 'csv', 'jsonl'] as const;

/** One value of each type, and NULL. */
const everything = `SELECT * FROM (VALUES
  (1::BIGINT, 'plain', true, 9223372036854775807::BIGINT, 99999999999999999999999999999999999999::DECIMAL(38,0), 0.1::DOUBLE, 12.340::DECIMAL(9,3),
   '{"a":[1,2.5,null],"big":123456789012345678901234567890}'::JSON, '2026-01-31 12:00:00.123456+00'::TIMESTAMPTZ, '2026-02-28'::DATE,
   ['x', NULL, 'null', '']::VARCHAR[], {'n': 9007199254740993::BIGINT, 's': 'it''s "so"'}),
  (2, '', false, -9223372036854775808, -99999999999999999999999999999999999999, -0.0, -12.340, 'null'::JSON, '1969-12-31 23:59:59.999999+00', '0001-01-01',
   [], {'n': NULL, 's': ''}),
  (3, E'02134,"; \\r\\n\\t' || chr(0) || '\u{1F600} null', NULL, 0, 0, 1.7976931348623157e308, 0, '"text"'::JSON, '9999-12-31 23:59:59+00', '9999-12-31', NULL, NULL),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (5, repeat('é', 100000), NULL, NULL, NULL, 5e-324, NULL, '{}'::JSON, NULL, NULL, NULL, NULL)
) AS t(id, "text", yes, small, large, real, money, doc, "at", "day", list, part)`;

describe.each(kindsOfPlace)('in %s', (_, make) => {
  it.each(formats)('as %s, every value is unchanged, also after it was read and written once more', async (format) => {
    const place = await make(at);
    const driver = await at.driver(place, { format });
    await driver.load({ table: 't', query: everything, key: ['id'], sequence: 1, chunk: 2 });
    // In JSON, a null value and a missing one are the same.
    const expected = format === 'jsonl' ? everything.replace("'null'::JSON", 'NULL') : everything;
    await at.expectRows(place, 't', expected);
    const change = `SELECT 'upsert' AS _op, * FROM (${everything}) WHERE id = 1`;
    await driver.load({ table: 't', query: change, key: ['id'], sequence: 2, action: merge });
    await at.expectRows(place, 't', expected);
  });

  it('a load that is cut short changes nothing, and the next one removes its files', async () => {
    const place = await make(at);
    const driver = await at.driver(place, { keep: 0 });
    const first = 'SELECT range AS id, range::VARCHAR AS text FROM range(10)';
    await driver.load({ table: 't', query: first, key: ['id'], sequence: 1 });
    const before = await at.manifestOf(place, 't');
    const second = 'SELECT range AS id, NULL::VARCHAR AS text FROM range(5)';
    const load: DrivenLoad = {
      table: 't',
      query: second,
      key: ['id'],
      sequence: 2,
      action: { type: 'replace' },
      chunk: 1,
    };
    const cut = async (index: number) => {
      if (index === 3) throw new Error('cut short');
    };
    await expect(driver.load({ ...load, onFile: cut })).rejects.toThrow('cut short');
    expect(await at.manifestOf(place, 't')).toEqual(before);
    await at.expectRows(place, 't', first);
    const stop = new AbortController();
    await expect(driver.load({ ...load, onFile: () => stop.abort(), signal: stop.signal })).rejects.toThrow();
    await at.expectRows(place, 't', first);
    await driver.load(load);
    await at.expectRows(place, 't', second);
    const named = (await at.manifestOf(place, 't')).files.map(({ path }) => `t/${path}`);
    const data = (await place.files()).filter((path) => path.includes('/data/'));
    expect(data.sort()).toEqual(named.sort());
  });

  it('a reader of the manifest always finds a whole set, while others are written', async () => {
    const place = await make(at);
    const driver = await at.driver(place, { keep: 1 });
    const query = (value: number) => `SELECT range AS id, ${value} AS "value" FROM range(50)`;
    await driver.load({ table: 't', query: query(0), key: ['id'], sequence: 1 });
    let writing = true;
    const seen = new Set<number>();
    const reader = (async () => {
      while (writing) {
        const { files: named } = await at.manifestOf(place, 't');
        const locals = await Promise.all(named.map(({ path }) => place.local(`t/${path}`)));
        const rows = `read_parquet([${locals.map((local) => `'${local}'`).join(', ')}])`;
        const [found] = await at.sql.rows(
          `SELECT count(*)::INT AS n, min("value") AS a, max("value") AS b FROM ${rows}`,
        );
        expect([found?.n, found?.a]).toEqual([50, found?.b]);
        seen.add(Number(found?.a));
      }
    })();
    for (let value = 1; value <= 6; value += 1)
      await driver.load({
        table: 't',
        query: query(value),
        key: ['id'],
        sequence: value + 1,
        action: { type: 'replace' },
        chunk: 20,
      });
    writing = false;
    await reader;
    expect(seen.size).toBeGreaterThan(1);
  });

  it('keeps as many older sets as configured, and no more', async () => {
    const place = await make(at);
    const driver = await at.driver(place, { keep: 2 });
    for (let sequence = 1; sequence <= 5; sequence += 1) {
      const query = `SELECT range AS id, ${sequence} AS n FROM range(3)`;
      await driver.load({ table: 't', query, key: ['id'], sequence, action: { type: 'replace' } });
    }
    const all = await place.files();
    const numbers = (kind: string) =>
      [...new Set(all.flatMap((path) => new RegExp(`^t/${kind}/(\\d+)`).exec(path)?.[1] ?? []))].map(Number).sort();
    expect([numbers('manifests'), numbers('data')]).toEqual([
      [3, 4, 5],
      [3, 4, 5],
    ]);
  });

  it('adds the changes of each run to the existing rows, and adds new columns', async () => {
    const place = await make(at);
    const driver = await at.driver(place, { format: 'csv' });
    const [first, second] = [
      "SELECT 'insert' AS _op, 1 AS id, 'a' AS text",
      "SELECT 'update' AS _op, 1 AS id, 'b' AS text, 7 AS points",
    ];
    await driver.load({ table: 'log', query: first, sequence: 1 });
    await driver.load({ table: 'log', query: second, sequence: 2 });
    await driver.load({ table: 'log', query: `${first} WHERE false`, sequence: 3 });
    await at.expectRows(place, 'log', `SELECT * FROM (${first}) UNION ALL BY NAME ${second}`);
    expect((await at.manifestOf(place, 'log')).files).toHaveLength(2);
    // One pattern must read all files of a table: in another format all of them are written again.
    const other = await at.driver(place, { format: 'jsonl' });
    await other.load({ table: 'log', query: first, sequence: 4 });
    await at.expectRows(
      place,
      'log',
      `SELECT * FROM (${first}) UNION ALL BY NAME ${second} UNION ALL BY NAME ${first}`,
    );
  });

  it('gives a column that grows its new type, in all files', async () => {
    const place = await make(at);
    const driver = await at.driver(place);
    const first = "SELECT 1 AS id, 5::BIGINT AS n, {'a': 1} AS part";
    await driver.load({ table: 't', query: first, sequence: 1 });
    const second =
      "SELECT 2 AS id, 99999999999999999999999999999999999999::DECIMAL(38,0) AS n, {'a': 1, 'b': 'x'} AS part";
    await driver.load({ table: 't', query: second, sequence: 2 });
    await at.expectRows(place, 't', `${first} UNION ALL BY NAME ${second}`);
    for (const path of (await at.manifestOf(place, 't')).files.map((file) => file.path)) {
      const columns = await at.sql.rows(`DESCRIBE FROM read_parquet('${await place.local(`t/${path}`)}')`);
      expect(columns.map(({ column_type }) => column_type)).toEqual([
        'BIGINT',
        'DECIMAL(38,0)',
        'STRUCT(a BIGINT, b VARCHAR)',
      ]);
    }
  });

  it('refuses a load if another process has written the record', async () => {
    const place = await make(at);
    const driver = await at.driver(place);
    const query = 'SELECT 1 AS id, 2 AS n';
    await driver.load({ table: 't', query, key: ['id'], sequence: 1 });
    const { own } = await driver.with((destination) =>
      destination.state({ destination: 'target', stream: 't', table: 't' }),
    );
    const replace = { table: 't', query, key: ['id'], action: { type: 'replace' } } as const;
    await driver.load({ ...replace, sequence: 2 });
    for (const before of [undefined, own])
      await expect(driver.load({ ...replace, sequence: 3, before })).rejects.toMatchObject({ code: 'fenced' });
    expect((await at.manifestOf(place, 't')).record.sequence).toBe(2);
  });

  it('spreads rows over folders as Hive has them, whatever their values are', async () => {
    const place = await make(at);
    const driver = await at.driver(place, { partition_by: ['land', 'yes'] });
    const rows = `SELECT * FROM (VALUES (1::BIGINT, 'DE', true), (2, 'DE', false), (3, NULL, true), (4, 'a/b=c%', NULL), (5, 'Zürich Nord', true), (6, '02134', true)) AS t(id, land, yes)`;
    await driver.load({ table: 't', query: rows, key: ['id'], sequence: 1, chunk: 2 });
    await at.expectRows(place, 't', rows);
    const { files: named } = await at.manifestOf(place, 't');
    const folders = named.map(({ path }) => path.split('/').slice(2, -1).join('/'));
    expect(folders).toContain('land=Zürich Nord/yes=true');
    expect(folders).toContain('land=a%2Fb%3Dc%25/yes=__HIVE_DEFAULT_PARTITION__');
    const locals = await Promise.all(named.map(({ path }) => place.local(`t/${path}`)));
    const hive = `read_parquet([${locals.map((local) => `'${local.replaceAll("'", "''")}'`).join(', ')}], hive_partitioning = true, hive_types = {'land': VARCHAR, 'yes': BOOLEAN})`;
    expect(await at.sql.rows(`SELECT id, land, yes FROM ${hive} ORDER BY id`)).toEqual(
      await at.sql.rows(`${rows} ORDER BY id`),
    );
    // A change of one row, and of its folder.
    const change = "SELECT 'upsert' AS _op, 1 AS id, 'FR' AS land, true AS yes";
    await driver.load({ table: 't', query: change, key: ['id'], sequence: 2, action: merge });
    await at.expectRows(place, 't', `SELECT * FROM (${rows}) WHERE id <> 1 UNION ALL SELECT 1, 'FR', true`);
  });

  it('has the same sums in each format, and others if a value differs', async () => {
    const place = await make(at);
    const of = async (format: string, value: string) => {
      const driver = await at.driver(place, { format });
      const [table, kind] = [`${format}-${value}`, { kind: 'text' } as const];
      const query = `SELECT range AS id, 'v' || range || (CASE WHEN range = 50 THEN '${value}' ELSE '' END) AS text FROM range(100)`;
      await driver.load({ table, query, key: ['id'], sequence: 1, chunk: 30 });
      const columns = [{ name: 'text', type: 'VARCHAR', kind }];
      const { rows, sum, hashed } = await driver.with((destination) => destination.sums(table, columns, false));
      return { rows, sum, hashed };
    };
    const [csv, jsonl, other] = [await of('csv', 'a'), await of('jsonl', 'a'), await of('parquet', 'b')];
    expect(csv).toEqual({ rows: 100, sum: expect.stringMatching(/^\d+$/), hashed: ['text'] });
    expect(jsonl).toEqual(csv);
    expect(other.sum).not.toBe(csv.sum);
  });

  it('finishes a load that was cut off after the commit of a set and before its name was written', async () => {
    const place = await make(at);
    const driver = await at.driver(place);
    const query = (n: number) => `SELECT 1 AS id, ${n} AS n`;
    await driver.load({ table: 't', query: query(1), key: ['id'], sequence: 1, action: { type: 'replace' } });
    const old = await readFile(await place.local('t/manifest.json'), 'utf8');
    await driver.load({ table: 't', query: query(2), key: ['id'], sequence: 2, action: { type: 'replace' } });
    await place.write('t/manifest.json', old);
    await at.expectRows(place, 't', query(1));
    expect(await driver.sequence('t')).toBe(2);
    await at.expectRows(place, 't', query(2));
  });

  it('reports a file that is missing or cut, and repairs it with a full load', async () => {
    const place = await make(at);
    const driver = await at.driver(place);
    const query = 'SELECT range AS id, 1 AS n FROM range(10)';
    await driver.load({ table: 't', query, key: ['id'], sequence: 1 });
    const [file] = (await at.manifestOf(place, 't')).files;
    await place.write(`t/${file?.path}`, 'cut');
    const change = {
      table: 't',
      query: `SELECT 'upsert' AS _op, * FROM (${query}) WHERE id < 3`,
      key: ['id'],
      sequence: 2,
    };
    expect(await driver.with((destination) => destination.describe('t'))).toMatchObject({ stamp: '1:changed' });
    await expect(driver.load({ ...change, action: merge })).rejects.toMatchObject({
      code: 'destination_refused',
    });
    await driver.load({ ...change, action: { type: 'merge', absent: 'delete' } });
    await at.expectRows(place, 't', `SELECT * FROM (${query}) WHERE id < 3`);
  });
});

it('as Parquet, is read by a reader that is not DuckDB', async () => {
  const place = at.inFolder();
  const driver = await at.driver(place);
  const query =
    "SELECT range AS id, 'text ' || range AS text, [range, NULL] AS list, {'n': range} AS part FROM range(2000)";
  await driver.load({ table: 't', query, key: ['id'], sequence: 1, chunk: 700 });
  const rows: Record<string, unknown>[] = [];
  for (const { path } of (await at.manifestOf(place, 't')).files) {
    const file = await asyncBufferFromFile(await place.local(`t/${path}`));
    rows.push(...(await parquetReadObjects({ file, compressors })));
  }
  expect(rows).toHaveLength(2000);
  for (const [index, row] of rows.entries()) {
    const id = BigInt(index);
    expect(row).toEqual({ id, text: `text ${index}`, list: [id, null], part: { n: id } });
  }
});

it('CSV and JSON lines have the format that other programs read', async () => {
  const place = at.inFolder();
  const query = `SELECT 1 AS id, 'say "so", twice' AS text, '2026-01-31 12:00:00.5+00'::TIMESTAMPTZ AS "at", ['a'] AS list, '{"b":[1]}'::JSON AS doc, 'NaN'::DOUBLE AS odd`;
  for (const format of ['csv', 'jsonl'])
    await (await at.driver(place, { format })).load({ table: format, query, sequence: 1 });
  const content = async (table: string) => {
    const [file] = (await at.manifestOf(place, table)).files;
    return readFile(await place.local(`${table}/${file?.path}`), 'utf8');
  };
  expect(await content('csv')).toBe(
    'id,text,at,list,doc,odd\n1,"say ""so"", twice",2026-01-31T12:00:00.500000Z,"[""a""]","{""b"":[1]}",nan\n',
  );
  expect(JSON.parse(await content('jsonl'))).toEqual({
    id: 1,
    text: 'say "so", twice',
    at: '2026-01-31T12:00:00.500000Z',
    list: ['a'],
    doc: { b: [1] },
    odd: null,
  });
});

describe('two deliveries at once', () => {
  it.each(kindsOfPlace)('to %s: one updates the table, the other fails with a reason', async (_, make) => {
    const place = await make(at);
    const driver = await at.driver(place);
    await driver.load({ table: 't', query: 'SELECT 0 AS id, 0 AS n', key: ['id'], sequence: 1 });
    const others = await Promise.all(Array.from({ length: 4 }, () => at.driver(place)));
    const action = { type: 'replace' } as const;
    const ended = await Promise.allSettled(
      others.map((each, index) =>
        each.load({ table: 't', query: `SELECT 0 AS id, ${index} AS n`, key: ['id'], sequence: 10 + index, action }),
      ),
    );
    const won = ended.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
    expect(won).toHaveLength(1);
    for (const each of ended) if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'fenced' });
    expect((await at.manifestOf(place, 't')).record.sequence).toBe(10 + (won[0] as number));
    await at.expectRows(place, 't', `SELECT 0 AS id, ${won[0]} AS n`);
  });
});

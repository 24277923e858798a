import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import files from '../../../connectors/files/index.js';
import type { Manifest } from '../../../connectors/files/manifest.js';
import { checkFiles } from '../../../connectors/files/options.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { setQuery } from '../../fixtures/set-reader.js';
import { type LoadTask, Sql, TableDriver } from '../../fixtures/table-driver.js';

let store: ObjectStore;
let client: S3Client;
let sql: Sql;
let folder: string;
let [buckets, folders] = [0, 0];
const drivers: TableDriver[] = [];

beforeAll(async () => {
  [store, sql] = await Promise.all([ObjectStore.open(), Sql.open()]);
  client = store.client();
});
afterAll(async () => {
  client.destroy();
  sql.close();
  await store.close();
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-files-'));
});
afterEach(async () => {
  store.meddling = undefined;
  for (const driver of drivers.splice(0)) await driver.close();
  await rm(folder, { recursive: true });
});

/** A place to write to, and how a test looks at it from outside. */
interface Place {
  readonly options: Readonly<Record<string, unknown>>;
  /** Paths of all files. */
  files(): Promise<string[]>;
  /** The path of a file on this machine. */
  local(path: string): Promise<string>;
  write(path: string, text: string): Promise<void>;
}

function folderPlace(name = 'exports'): Place {
  const root = join(folder, name);
  return {
    options: { path: root },
    files: async () => {
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      return entries
        .filter((each) => each.isFile())
        .map((each) => join(each.parentPath, each.name).slice(root.length + 1));
    },
    local: async (path) => join(root, path),
    write: (path, text) => writeFile(join(root, path), text),
  };
}

async function bucketPlace(endpoint: string): Promise<Place> {
  buckets += 1;
  const Bucket = `bucket-${buckets}`;
  await store.createBucket(Bucket);
  const prefix = 'some/prefix/';
  return {
    options: {
      url: `s3://${Bucket}/some/prefix`,
      endpoint,
      access_key_id: 'AKIDEXAMPLE',
      secret_access_key: 'a-secret-of-the-test',
    },
    files: async () => {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
      return Contents.map(({ Key = '' }) => Key.slice(prefix.length)).filter((path) => path.includes('/'));
    },
    local: async (path) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: prefix + path }));
      const local = join(folder, 'seen', path);
      await mkdir(dirname(local), { recursive: true });
      await writeFile(local, (await Body?.transformToByteArray()) ?? '');
      return local;
    },
    write: async (path, text) => {
      await client.send(new PutObjectCommand({ Bucket, Key: prefix + path, Body: text }));
    },
  };
}

interface Change {
  readonly op: 'upsert' | 'delete';
  readonly id: string;
  readonly land: string | null;
}

const changes = fc.uniqueArray(
  fc.record<Change>({
    op: fc.constantFrom('upsert', 'upsert', 'delete'),
    id: fc.integer({ min: 0, max: 12 }).map((n) => `k${n}`),
    land: fc.constantFrom('DE', 'US', null, '', "d'Or", 'x=y/z', '__HIVE_DEFAULT_PARTITION__'),
  }),
  { selector: ({ id }) => id, maxLength: 12 },
);
const histories = fc.record({
  format: fc.constantFrom(...(['parquet', 'csv', 'jsonl'] as const)),
  partitioned: fc.boolean(),
  loads: fc.array(fc.record({ absent: fc.constantFrom(...(['keep', 'delete', 'mark'] as const)), changes }), {
    minLength: 2,
    maxLength: 4,
  }),
});

const columnsSql = 'NULL::VARCHAR AS id, NULL::VARCHAR AS land, NULL::BIGINT AS n, NULL::TIMESTAMPTZ AS _deleted_at';

/** Rows of a load; the number of the load is their value. */
function rowsSql(list: readonly Change[], n: number, isMerge: boolean): string {
  const op = isMerge ? 'NULL::VARCHAR AS _op, ' : '';
  const texts = list.map(({ op: what, id, land }) => {
    const value = land === null ? 'NULL' : `'${land.replaceAll("'", "''")}'`;
    return `SELECT ${isMerge ? `'${what}', ` : ''}'${id}', ${value}, ${n}::BIGINT, NULL::TIMESTAMPTZ`;
  });
  return [`SELECT * FROM (SELECT ${op}${columnsSql}) WHERE false`, ...texts].join(' UNION ALL ');
}

async function expectModel(
  place: Place,
  model: ReadonlyMap<string, { land: string | null; n: number; deleted: boolean }>,
): Promise<void> {
  const query = `SELECT id, land, n::INT AS n, _deleted_at IS NOT NULL AS deleted FROM (${await reading(place, 'p')})`;
  const found = new Map((await sql.rows(query)).map(({ id, ...rest }) => [String(id), rest]));
  expect(found).toEqual(new Map([...model].sort()));
  expect(found.size).toBe((await manifestOf(place, 'p')).rows);
}

const places: readonly (readonly [string, () => Place | Promise<Place>])[] = [
  ['a folder', () => folderPlace(`exports-${++folders}`)],
  ['an S3 store', () => bucketPlace(store.url)],
];
const formats = ['parquet', 'csv', 'jsonl'] as const;

async function open({ options }: Place, more: Record<string, unknown> = {}): Promise<TableDriver> {
  const driver = await TableDriver.open(files, { ...options, memory_mb: 256, ...more });
  drivers.push(driver);
  return driver;
}

async function manifestOf(place: Place, table: string): Promise<Manifest> {
  return JSON.parse(await readFile(await place.local(`${table}/manifest.json`), 'utf8')) as Manifest;
}

/** What a program reads that knows only the manifest: a query in a separate DuckDB. */
function reading(place: Place, table: string): Promise<string> {
  return setQuery((path) => place.local(`${table}/${path}`));
}

async function expectRows(place: Place, table: string, wanted: string): Promise<void> {
  const found = await reading(place, table);
  const [counts] = await sql.rows(
    `SELECT (SELECT count(*)::INT FROM (${wanted})) AS wanted, (SELECT count(*)::INT FROM (${found})) AS found`,
  );
  expect([counts?.found, (await manifestOf(place, table)).rows]).toEqual([counts?.wanted, counts?.wanted]);
  const names = (await sql.rows(`DESCRIBE ${wanted}`)).map(({ column_name }) => `"${column_name}"`).join(', ');
  const [a, b] = [`SELECT ${names} FROM (${wanted})`, `SELECT ${names} FROM (${found})`];
  expect(await sql.rows(`(${a} EXCEPT ALL ${b}) LIMIT 3`)).toEqual([]);
}

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

describe.each(places)('in %s', (_, make) => {
  it.each(formats)(
    'as %s, every value is what it was, also after it was read and written once more',
    async (format) => {
      const place = await make();
      const driver = await open(place, { format });
      await driver.load({ table: 't', query: everything, key: ['id'], sequence: 1, chunk: 2 });
      // In JSON, a null value and a missing one are the same.
      const expected = format === 'jsonl' ? everything.replace("'null'::JSON", 'NULL') : everything;
      await expectRows(place, 't', expected);
      const change = `SELECT 'upsert' AS _op, * FROM (${everything}) WHERE id = 1`;
      await driver.load({
        table: 't',
        query: change,
        key: ['id'],
        sequence: 2,
        action: { type: 'merge', absent: 'keep' },
      });
      await expectRows(place, 't', expected);
    },
  );

  it('a table is what its loads have made of it, whatever they are', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async ({ format, partitioned, loads }) => {
        const place = await make();
        const driver = await open(place, { format, partition_by: partitioned ? ['land'] : [] });
        const model = new Map<string, { land: string | null; n: number; deleted: boolean }>();
        for (const [index, { absent, changes }] of loads.entries()) {
          const isFirst = index === 0;
          const action = isFirst ? ({ type: 'append' } as const) : ({ type: 'merge', absent } as const);
          const taken = isFirst ? changes.filter(({ op }) => op === 'upsert') : changes;
          await driver.load({
            table: 'p',
            query: rowsSql(taken, index, !isFirst),
            key: ['id'],
            sequence: index + 1,
            action,
            chunk: 3,
          });
          if (!isFirst && absent !== 'keep') {
            const coming = new Set(taken.map(({ id }) => id));
            for (const [id, row] of model) {
              if (coming.has(id)) continue;
              if (absent === 'delete') model.delete(id);
              else model.set(id, { ...row, deleted: true });
            }
          }
          for (const { op, id, land } of taken) {
            if (op === 'upsert') model.set(id, { land, n: index, deleted: false });
            else model.delete(id);
          }
          await expectModel(place, model);
          const live = [...model.values()].filter(({ deleted }) => !deleted).length;
          const counted = await driver.with(async (destination) => [
            await destination.watermarks().then(([watermark]) => watermark?.sequence),
            await destination.count('p', false),
            await destination.count('p', true),
          ]);
          expect(counted).toEqual([index + 1, model.size, live]);
        }
      }),
      { numRuns: 5 },
    );
  }, 180_000);

  it('a load that is cut short changes nothing, and the next one removes its files', async () => {
    const place = await make();
    const driver = await open(place, { keep: 0 });
    const first = 'SELECT range AS id, range::VARCHAR AS text FROM range(10)';
    await driver.load({ table: 't', query: first, key: ['id'], sequence: 1 });
    const before = await manifestOf(place, 't');
    const second = 'SELECT range AS id, NULL::VARCHAR AS text FROM range(5)';
    const load: LoadTask = {
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
    expect(await manifestOf(place, 't')).toEqual(before);
    await expectRows(place, 't', first);
    const stop = new AbortController();
    await expect(driver.load({ ...load, onFile: () => stop.abort(), signal: stop.signal })).rejects.toThrow();
    await expectRows(place, 't', first);
    await driver.load(load);
    await expectRows(place, 't', second);
    const named = (await manifestOf(place, 't')).files.map(({ path }) => `t/${path}`);
    const data = (await place.files()).filter((path) => path.includes('/data/'));
    expect(data.sort()).toEqual(named.sort());
  });

  it('a reader of the manifest always finds a whole set, while others are written', async () => {
    const place = await make();
    const driver = await open(place, { keep: 1 });
    const query = (value: number) => `SELECT range AS id, ${value} AS "value" FROM range(50)`;
    await driver.load({ table: 't', query: query(0), key: ['id'], sequence: 1 });
    let writing = true;
    const seen = new Set<number>();
    const reader = (async () => {
      while (writing) {
        const { files: named } = await manifestOf(place, 't');
        const locals = await Promise.all(named.map(({ path }) => place.local(`t/${path}`)));
        const rows = `read_parquet([${locals.map((local) => `'${local}'`).join(', ')}])`;
        const [found] = await sql.rows(`SELECT count(*)::INT AS n, min("value") AS a, max("value") AS b FROM ${rows}`);
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
    const place = await make();
    const driver = await open(place, { keep: 2 });
    for (let sequence = 1; sequence <= 5; sequence += 1) {
      const query = `SELECT range AS id, ${sequence} AS n FROM range(3)`;
      await driver.load({ table: 't', query, key: ['id'], sequence, action: { type: 'replace' } });
    }
    const all = await place.files();
    // The table was made as set 1, so that the five loads are sets 2 to 6.
    const numbers = (kind: string) =>
      [...new Set(all.flatMap((path) => new RegExp(`^t/${kind}/(\\d+)`).exec(path)?.[1] ?? []))].map(Number).sort();
    expect([numbers('manifests'), numbers('data')]).toEqual([
      [4, 5, 6],
      [4, 5, 6],
    ]);
  });

  it('adds the changes of each run to what is there, and grows by columns', async () => {
    const place = await make();
    const driver = await open(place, { format: 'csv' });
    const [first, second] = [
      "SELECT 'insert' AS _op, 1 AS id, 'a' AS text",
      "SELECT 'update' AS _op, 1 AS id, 'b' AS text, 7 AS points",
    ];
    await driver.load({ table: 'log', query: first, sequence: 1 });
    await driver.load({ table: 'log', query: second, sequence: 2 });
    await driver.load({ table: 'log', query: `${first} WHERE false`, sequence: 3 });
    await expectRows(place, 'log', `SELECT * FROM (${first}) UNION ALL BY NAME ${second}`);
    expect((await manifestOf(place, 'log')).files).toHaveLength(2);
    const other = await open(place, { format: 'jsonl' });
    await expect(other.load({ table: 'log', query: first, sequence: 4 })).rejects.toMatchObject({
      code: 'destination_refused',
      message: 'table "log" has csv files, and others would be added',
    });
  });

  it('gives a column that was empty, or grows, its new type, in all files', async () => {
    const place = await make();
    const driver = await open(place);
    const first = "SELECT 1 AS id, NULL::VARCHAR AS later, 5::BIGINT AS n, {'a': 1} AS part";
    await driver.load({ table: 't', query: first, sequence: 1 });
    await driver.with(async (destination) => {
      expect(await destination.isColumnEmpty('t', 'later')).toBe(true);
      expect(await destination.isColumnEmpty('t', 'n')).toBe(false);
    });
    const second =
      "SELECT 2 AS id, 2.5::DOUBLE AS later, 99999999999999999999999999999999999999::DECIMAL(38,0) AS n, {'a': 1, 'b': 'x'} AS part";
    await driver.load({ table: 't', query: second, sequence: 2 });
    await expectRows(place, 't', `${first.replace('NULL::VARCHAR', 'NULL::DOUBLE')} UNION ALL ${second}`);
    for (const path of (await manifestOf(place, 't')).files.map((file) => file.path)) {
      const columns = await sql.rows(`DESCRIBE FROM read_parquet('${await place.local(`t/${path}`)}')`);
      expect(columns.map(({ column_type }) => column_type)).toEqual([
        'BIGINT',
        'DOUBLE',
        'DECIMAL(38,0)',
        'STRUCT(a BIGINT, b VARCHAR)',
      ]);
    }
  });

  it('refuses a load if another process has moved the watermark', async () => {
    const place = await make();
    const driver = await open(place);
    const query = 'SELECT 1 AS id, 2 AS n';
    const { after } = await driver.load({ table: 't', query, key: ['id'], sequence: 1 });
    const replace = { table: 't', query, key: ['id'], action: { type: 'replace' } } as const;
    await driver.load({ ...replace, sequence: 2 });
    for (const before of [undefined, after])
      await expect(driver.load({ ...replace, sequence: 3, before })).rejects.toMatchObject({ code: 'watermark_moved' });
    expect((await manifestOf(place, 't')).watermark?.sequence).toBe(2);
  });

  it('spreads rows over folders as Hive has them, whatever their values are', async () => {
    const place = await make();
    const driver = await open(place, { partition_by: ['land', 'yes'] });
    const rows = `SELECT * FROM (VALUES (1::BIGINT, 'DE', true), (2, 'DE', false), (3, NULL, true), (4, 'a/b=c%', NULL), (5, 'Zürich Nord', true), (6, '02134', true)) AS t(id, land, yes)`;
    await driver.load({ table: 't', query: rows, key: ['id'], sequence: 1, chunk: 2 });
    await expectRows(place, 't', rows);
    const { files: named } = await manifestOf(place, 't');
    const folders = named.map(({ path }) => path.split('/').slice(2, -1).join('/'));
    expect(folders).toContain('land=Zürich Nord/yes=true');
    expect(folders).toContain('land=a%2Fb%3Dc%25/yes=__HIVE_DEFAULT_PARTITION__');
    const locals = await Promise.all(named.map(({ path }) => place.local(`t/${path}`)));
    const hive = `read_parquet([${locals.map((local) => `'${local.replaceAll("'", "''")}'`).join(', ')}], hive_partitioning = true, hive_types = {'land': VARCHAR, 'yes': BOOLEAN})`;
    expect(await sql.rows(`SELECT id, land, yes FROM ${hive} ORDER BY id`)).toEqual(
      await sql.rows(`${rows} ORDER BY id`),
    );
    // A change of one row, and of its folder.
    const change = "SELECT 'upsert' AS _op, 1 AS id, 'FR' AS land, true AS yes";
    await driver.load({
      table: 't',
      query: change,
      key: ['id'],
      sequence: 2,
      action: { type: 'merge', absent: 'keep' },
    });
    await expectRows(place, 't', `SELECT * FROM (${rows}) WHERE id <> 1 UNION ALL SELECT 1, 'FR', true`);
  });

  it('has the checksums of its values', async () => {
    const place = await make();
    const driver = await open(place, { format: 'csv' });
    const query = "SELECT range AS id, 'v' || range AS text, range % 2 = 0 AS even FROM range(100)";
    await driver.load({ table: 't', query, key: ['id'], sequence: 1, chunk: 30 });
    const of = { kind: 'text' } as const;
    const columns = [
      { name: 'text', type: 'VARCHAR', of },
      { name: 'even', type: 'BOOLEAN', of },
    ];
    const found = await driver.with(async (destination) => {
      await destination.watermarks();
      return destination.checksum?.('t', columns, false);
    });
    const sum = (texts: string[]) =>
      String(
        texts.reduce(
          (total, text) => total + Number.parseInt(createHash('md5').update(text).digest('hex').slice(0, 8), 16),
          0,
        ),
      );
    const numbers = Array.from({ length: 100 }, (_, index) => index);
    expect(found?.get('text')).toEqual({ values: 100, sum: sum(numbers.map((index) => `v${index}`)) });
    expect(found?.get('even')).toEqual({ values: 100, sum: sum(numbers.map((index) => String(index % 2 === 0))) });
  });

  it('finishes a load that was cut off after the commit of a set and before its name was written', async () => {
    const place = await make();
    const driver = await open(place);
    const query = (n: number) => `SELECT 1 AS id, ${n} AS n`;
    await driver.load({ table: 't', query: query(1), key: ['id'], sequence: 1, action: { type: 'replace' } });
    const old = await readFile(await place.local('t/manifest.json'), 'utf8');
    await driver.load({ table: 't', query: query(2), key: ['id'], sequence: 2, action: { type: 'replace' } });
    await place.write('t/manifest.json', old);
    await expectRows(place, 't', query(1));
    const watermarks = await driver.with((destination) => destination.watermarks());
    expect(watermarks.map(({ sequence }) => sequence)).toEqual([2]);
    await expectRows(place, 't', query(2));
  });

  it('reports a file that is missing or cut, and repairs it with a full load', async () => {
    const place = await make();
    const driver = await open(place);
    const query = 'SELECT range AS id, 1 AS n FROM range(10)';
    await driver.load({ table: 't', query, key: ['id'], sequence: 1 });
    const [file] = (await manifestOf(place, 't')).files;
    await place.write(`t/${file?.path}`, 'cut');
    const change = {
      table: 't',
      query: `SELECT 'upsert' AS _op, * FROM (${query}) WHERE id < 3`,
      key: ['id'],
      sequence: 2,
    };
    await expect(driver.with((destination) => destination.count('t', false))).rejects.toMatchObject({
      message: expect.stringContaining('has 3 bytes instead of'),
      hint: expect.stringContaining('push --full'),
    });
    await expect(driver.load({ ...change, action: { type: 'merge', absent: 'keep' } })).rejects.toMatchObject({
      code: 'destination_refused',
    });
    await driver.load({ ...change, action: { type: 'merge', absent: 'delete' } });
    await expectRows(place, 't', `SELECT * FROM (${query}) WHERE id < 3`);
  });
});

it('as Parquet, is read by a reader that is not DuckDB', async () => {
  const place = folderPlace();
  const driver = await open(place);
  const query =
    "SELECT range AS id, 'text ' || range AS text, [range, NULL] AS list, {'n': range} AS part FROM range(2000)";
  await driver.load({ table: 't', query, key: ['id'], sequence: 1, chunk: 700 });
  const rows: Record<string, unknown>[] = [];
  for (const { path } of (await manifestOf(place, 't')).files) {
    const file = await asyncBufferFromFile(await place.local(`t/${path}`));
    rows.push(...(await parquetReadObjects({ file, compressors })));
  }
  expect(rows).toHaveLength(2000);
  for (const [index, row] of rows.entries()) {
    const id = BigInt(index);
    expect(row).toEqual({ id, text: `text ${index}`, list: [id, null], part: { n: id } });
  }
});

it('as CSV and as JSON lines, is what other programs read', async () => {
  const place = folderPlace();
  const query = `SELECT 1 AS id, 'say "so", twice' AS text, '2026-01-31 12:00:00.5+00'::TIMESTAMPTZ AS "at", ['a'] AS list, '{"b":[1]}'::JSON AS doc, 'NaN'::DOUBLE AS odd`;
  for (const format of ['csv', 'jsonl'])
    await (await open(place, { format })).load({ table: format, query, sequence: 1 });
  const content = async (table: string) => {
    const [file] = (await manifestOf(place, table)).files;
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
  it.each(places)('to %s: one updates the table, the other fails with a reason', async (_, make) => {
    const place = await make();
    const driver = await open(place);
    await driver.load({ table: 't', query: 'SELECT 0 AS id, 0 AS n', key: ['id'], sequence: 1 });
    const others = await Promise.all(Array.from({ length: 4 }, () => open(place)));
    const action = { type: 'replace' } as const;
    const ended = await Promise.allSettled(
      others.map((each, index) =>
        each.load({ table: 't', query: `SELECT 0 AS id, ${index} AS n`, key: ['id'], sequence: 10 + index, action }),
      ),
    );
    const won = ended.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
    expect(won).toHaveLength(1);
    for (const each of ended)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'watermark_moved' });
    expect((await manifestOf(place, 't')).watermark?.sequence).toBe(10 + (won[0] as number));
    await expectRows(place, 't', `SELECT 0 AS id, ${won[0]} AS n`);
  });
});

describe('a folder', () => {
  it.each([
    ['0600', 0o600, 0o700],
    ['0640', 0o640, 0o750],
    ['0644', 0o644, 0o755],
  ])('of files %s is as open as that, and no more', async (file_mode, file, folderMode) => {
    const place = folderPlace();
    const driver = await open(place, { file_mode, partition_by: ['land'] });
    await driver.load({ table: 't', query: "SELECT 1 AS id, 'DE' AS land", sequence: 1 });
    const entries = await readdir(place.options.path as string, { recursive: true, withFileTypes: true });
    const modes = await Promise.all(
      entries.map(async (entry) => [entry.isFile(), (await stat(join(entry.parentPath, entry.name))).mode & 0o777]),
    );
    expect([...new Set(modes.map(String))].sort()).toEqual([`false,${folderMode}`, `true,${file}`]);
  });

  it.each([
    ['keep', ['=1+1', '+49 30', '@x', '-1.5', 'plain']],
    ['escape', ["'=1+1", "'+49 30", "'@x", '-1.5', 'plain']],
  ])('of CSV with csv_formulas: %s is merged with what it has', async (csv_formulas, texts) => {
    const place = folderPlace(csv_formulas);
    const driver = await open(place, { format: 'csv', csv_formulas });
    const first = "SELECT * FROM (VALUES ('=1+1', 1), ('+49 30', 1), ('@x', 1), ('plain', 1)) AS t(id, n)";
    await driver.load({ table: 't', query: first, key: ['id'], sequence: 1 });
    const second = "SELECT 'upsert' AS _op, * FROM (VALUES ('=1+1', 2), ('-1.5', 2)) AS t(id, n)";
    await driver.load({
      table: 't',
      query: second,
      key: ['id'],
      sequence: 2,
      action: { type: 'merge', absent: 'keep' },
    });
    const { files: named } = await manifestOf(place, 't');
    const lines = await Promise.all(named.map(async ({ path }) => readFile(await place.local(`t/${path}`), 'utf8')));
    const rows = lines.flatMap((text) => text.trim().split(/\r?\n/).slice(1)).map((line) => line.replaceAll('"', ''));
    expect(rows.sort()).toEqual(texts.map((text) => `${text},${/1\+1|1\.5/.test(text) ? 2 : 1}`).sort());
  });

  it('that is a file is refused', async () => {
    await writeFile(join(folder, 'file'), '');
    const driver = await open(folderPlace(), { path: join(folder, 'file') });
    await expect(driver.destination()).rejects.toMatchObject({ message: `${join(folder, 'file')} is not a folder` });
  });

  it('has a separate folder for each table, whatever its name', async () => {
    const place = folderPlace();
    const driver = await open(place);
    const tables = ['../up', '.hidden', 'a/b', 'a b', 'ä', 'Ä', 'con*?'];
    for (const table of tables) await driver.load({ table, query: `SELECT 1 AS id, '${table}' AS name`, sequence: 1 });
    expect(await readdir(folder)).toEqual(['exports']);
    expect((await readdir(place.options.path as string)).length).toBe(tables.length);
    const watermarks = await driver.with((destination) => destination.watermarks());
    expect(watermarks.map(({ table }) => table).sort()).toEqual([...tables].sort());
  });
});

describe('a store that refuses', () => {
  const query = 'SELECT 1 AS id, 2 AS n';

  it.each([
    ['AccessDenied', 403, 'destination_permission', 'auth', /s3:PutObject/],
    ['InvalidAccessKeyId', 403, 'destination_login', 'auth', /access_key_id/],
    ['SignatureDoesNotMatch', 403, 'destination_login', 'auth', /secret_access_key/],
    ['RequestTimeTooSkewed', 403, 'destination_login', 'auth', /clock/],
    ['NoSuchBucket', 404, 'destination_refused', 'fatal', /create it/],
    ['PermanentRedirect', 301, 'destination_refused', 'fatal', /region/],
    ['InternalError', 500, 'destination_unavailable', 'retryable', undefined],
  ])('with %s says what is wrong, and nothing secret', async (code, status, wanted, kind, hint) => {
    const driver = await open(await bucketPlace(store.url));
    store.meddling = (_, response) => s3Refusal(response, status, code);
    const error = (await driver.load({ table: 't', query, sequence: 1 }).catch((thrown: unknown) => thrown)) as {
      code: string;
      kind: string;
      message: string;
      hint?: string;
    };
    expect([error.code, error.kind]).toEqual([wanted, kind]);
    if (hint !== undefined) expect(error.hint).toMatch(hint);
    expect(`${error.message} ${error.hint}`).not.toMatch(/AKIDEXAMPLE|a-secret-of-the-test/);
  });

  it('in the middle of a load leaves the previous set as it was', async () => {
    const place = await bucketPlace(store.url);
    const driver = await open(place);
    await driver.load({ table: 't', query, sequence: 1 });
    store.meddling = (request, response) =>
      request.method === 'PUT' && request.url?.includes('/data/')
        ? s3Refusal(response, 403, 'AccessDenied')
        : undefined;
    await expect(driver.load({ table: 't', query, sequence: 2 })).rejects.toMatchObject({ kind: 'auth' });
    store.meddling = undefined;
    await expectRows(place, 't', query);
  });

  it('because the bucket is missing, at a real store, says so', async () => {
    const place = await bucketPlace(store.bareUrl);
    const driver = await open(place, { url: 's3://no-such-bucket/x' });
    await expect(driver.load({ table: 't', query, sequence: 1 })).rejects.toMatchObject({
      message: 'there is no bucket "no-such-bucket"',
    });
  });

  it('because nothing listens there can be tried again', async () => {
    const driver = await open(await bucketPlace(store.url), { endpoint: 'http://127.0.0.1:1' });
    await expect(driver.load({ table: 't', query, sequence: 1 })).rejects.toMatchObject({
      kind: 'retryable',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it('whose answer to a commit is lost is asked again, and the load counts once', async () => {
    const place = await bucketPlace(store.url);
    const driver = await open(place);
    await driver.load({ table: 't', query, sequence: 1 });
    let lost = 0;
    store.meddling = (request, response) => {
      if (request.method !== 'PUT' || !request.url?.includes('/manifests/') || lost > 0) return undefined;
      lost += 1;
      // It is written all the same.
      response.writeHead = () => response.destroy() as never;
      return undefined;
    };
    await driver.load({ table: 't', query, sequence: 2, action: { type: 'append' } });
    expect(lost).toBe(1);
    await expectRows(place, 't', `${query} UNION ALL ${query}`);
  });

  it('to respect conditions is loaded all the same, with a notice', async () => {
    const place = await bucketPlace(store.bareUrl);
    const driver = await open(place);
    await driver.load({ table: 't', query, sequence: 1 });
    expect(driver.notices).toEqual([expect.stringContaining('has no conditional writes')]);
    const change = "SELECT 'upsert' AS _op, 1 AS id, 3 AS n";
    await driver.load({
      table: 't',
      query: change,
      key: ['id'],
      sequence: 2,
      action: { type: 'merge', absent: 'keep' },
    });
    await expectRows(place, 't', 'SELECT 1 AS id, 3 AS n');
    const other = await open(await bucketPlace(store.url));
    await other.load({ table: 't', query, sequence: 1 });
    expect(other.notices).toEqual([]);
  });
});

describe('options', () => {
  it.each([
    [{}, 'exactly one of `path` and `url`'],
    [{ path: './x', url: 's3://bucket' }, 'exactly one of `path` and `url`'],
    [{ path: './x', region: 'eu-central-1' }, 'needs `url`'],
    [{ url: 's3://bucket', file_mode: '0640' }, 'no file permissions'],
    [{ url: 's3://bucket', access_key_id: 'AKID' }, 'or neither'],
    [{ url: 's3://bucket', session_token: 'x' }, 'needs `access_key_id`'],
  ])('%j are refused', (given, message) => {
    expect(
      checkFiles(given)
        .map((finding) => finding.message)
        .join('\n'),
    ).toContain(message);
  });

  it('that name a missing or a nested column are refused with the table', async () => {
    for (const [column, what] of [
      ['country', 'is not a column'],
      ['list', 'has nested values'],
    ] as const) {
      const driver = await open(folderPlace(), { partition_by: [column] });
      await expect(
        driver.load({ table: 't', query: 'SELECT 1 AS id, [1] AS list', sequence: 1 }),
      ).rejects.toMatchObject({
        message: `\`partition_by\`: "${column}" ${what} of table "t"`,
        hint: 'its columns are id, list',
      });
    }
  });
});

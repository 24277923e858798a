import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sqlText } from '../../../src/core/sql.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { type ParquetCompression, writeParquet } from '../../../src/storage/parquet.js';
import { readWithOldReader } from '../../fixtures/old-reader.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-old-readers-'));
  database = await Database.open({ memoryMb: 256, threads: 2 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true });
});

let files = 0;
/** Writes a file as runs do, and returns its path. */
async function written(query: string, compression: ParquetCompression): Promise<string> {
  files += 1;
  const path = join(folder, `${files}.parquet`);
  await writeParquet(session, query, path, { compression });
  return path;
}

/** One column of each type that old tools can read. Each timestamp is unique, see below. */
interface Values {
  readonly text: string | null;
  readonly flag: boolean | null;
  readonly whole: bigint | null;
  readonly number: number | null;
  /** Days since 1970. */
  readonly day: number | null;
  /** Milliseconds since 1970. */
  readonly at: number | null;
  /** JSON text. */
  readonly doc: string | null;
  readonly tags: readonly (string | null)[] | null;
  readonly part: { readonly n: bigint | null; readonly s: string | null } | null;
}

const orNull = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null, freq: 5 });
/** Few values, so that they repeat and are stored in a dictionary; or many. */
const pool = <T>(values: fc.Arbitrary<T>) =>
  fc.oneof(values, fc.constant(fc.sample(values, { numRuns: 1, seed: 1 })[0] as T));
const texts = pool(fc.string({ unit: 'grapheme', maxLength: 12 }).filter((text) => text.isWellFormed()));
const wholes = pool(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
const numbers = pool(fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0));
/** Longer values stop an old reader, see below. */
const docs = fc.json({ maxDepth: 2 }).filter((doc) => Buffer.byteLength(doc) <= 250);
const rows: fc.Arbitrary<Values[]> = fc
  .array(
    fc.record({
      text: orNull(texts),
      flag: orNull(fc.boolean()),
      whole: orNull(wholes),
      number: orNull(numbers),
      day: orNull(pool(fc.integer({ min: -700_000, max: 2_900_000 }))),
      at: fc.integer({ min: -60_000_000, max: 221_000_000 }),
      doc: orNull(pool(docs)),
      tags: orNull(fc.array(orNull(texts), { maxLength: 3 })),
      part: orNull(fc.record({ n: wholes, s: orNull(texts) })),
    }),
    { minLength: 1, maxLength: 120 },
  )
  // Each timestamp is unique.
  .map((list) => list.map((row, index) => ({ ...row, at: row.at * 1_000_000 + index })));

const literal = (value: string | number | bigint | boolean | null, type: string) =>
  value === null ? `NULL::${type}` : `${typeof value === 'string' ? sqlText(value) : sqlText(String(value))}::${type}`;

function rowSql({ text, flag, whole, number, day, at, doc, tags, part }: Values): string {
  const list = tags === null ? 'NULL' : `[${tags.map((tag) => literal(tag, 'VARCHAR')).join(', ')}]`;
  const struct = part === null ? 'NULL' : `{'n': ${literal(part.n, 'BIGINT')}, 's': ${literal(part.s, 'VARCHAR')}}`;
  const date = day === null ? 'NULL::DATE' : `DATE '1970-01-01' + ${day}::INT`;
  const values = [
    literal(text, 'VARCHAR'),
    literal(flag, 'BOOLEAN'),
    literal(whole, 'BIGINT'),
    literal(number, 'DOUBLE'),
  ];
  const moment = `make_timestamptz(${(at as number) * 1000}::BIGINT)`;
  const nested = [`${list}::VARCHAR[]`, `${struct}::STRUCT(n BIGINT, s VARCHAR)`];
  return `(${[...values, date, moment, literal(doc, 'JSON'), ...nested].join(', ')})`;
}

function rowsSql(list: readonly Values[]): string {
  return `SELECT * FROM (VALUES ${list.map(rowSql).join(', ')}) t(text, flag, whole, number, day, "at", doc, tags, part)`;
}

/** The values that were read, in the same form for all readers. */
type Seen = Record<keyof Values, unknown>;
const there = <T>(value: T) => (value === undefined ? null : value);
const whole = (value: unknown) => (value === null || value === undefined ? null : BigInt(value as string));
const number = (value: unknown) => (value === null || value === undefined ? null : Number(value));
const moment = (value: unknown) => (value === null || value === undefined ? null : (value as Date).getTime());

function expected({ doc, day, part, ...rest }: Values): Seen {
  return {
    ...rest,
    day: day === null ? null : day * 86_400_000,
    doc: doc === null ? null : JSON.parse(doc),
    part: part === null ? null : { n: part.n, s: part.s },
  };
}

function seenByOldReader(row: Record<string, unknown>): Seen {
  const list = row.tags as { list?: { element?: string }[] } | undefined;
  const part = row.part as { n?: unknown; s?: string } | undefined;
  return {
    text: there(row.text),
    flag: there(row.flag),
    whole: whole(row.whole),
    number: number(row.number),
    day: moment(row.day),
    at: moment(row.at),
    doc: there(row.doc),
    tags: list === undefined ? null : (list.list ?? []).map(({ element }) => there(element)),
    part: part === undefined ? null : { n: whole(part.n), s: there(part.s) },
  };
}

function seenByHyparquet(row: Record<string, unknown>): Seen {
  const part = row.part as { n?: unknown; s?: string } | null | undefined;
  return {
    text: there(row.text),
    flag: there(row.flag),
    whole: whole(row.whole),
    number: number(row.number),
    day: moment(row.day),
    at: moment(row.at),
    doc: there(row.doc),
    tags: there(row.tags),
    part: part === undefined || part === null ? null : { n: whole(part.n), s: there(part.s) },
  };
}

async function seenByDuckdb(path: string): Promise<Seen[]> {
  const found =
    await session.rows(`SELECT text, flag, whole, number, (day - DATE '1970-01-01') AS day, epoch_ms("at") AS "at",
    doc::VARCHAR AS doc, to_json(tags)::VARCHAR AS tags, part IS NULL AS lacks, part.n AS n, part.s AS s
    FROM read_parquet(${sqlText(path)})`);
  return found.map(({ lacks, n, s, day, doc, tags, whole: value, at, ...row }) => ({
    text: row.text,
    flag: row.flag,
    number: row.number,
    whole: whole(value),
    day: day === null ? null : Number(day) * 86_400_000,
    at: Number(at),
    doc: doc === null ? null : JSON.parse(String(doc)),
    tags: tags === null ? null : JSON.parse(String(tags)),
    part: lacks === true ? null : { n: whole(n), s },
  }));
}

const readable = ['snappy', 'gzip', 'none'] as const;

describe.each(readable)('files with compression %s', (compression) => {
  it('hold the same for an old reader, for a new one and for DuckDB, whatever the values are', async () => {
    await fc.assert(
      fc.asyncProperty(rows, async (list) => {
        const path = await written(rowsSql(list), compression);
        const wanted = list.map(expected);
        expect((await readWithOldReader(path)).map(seenByOldReader)).toEqual(wanted);
        const file = await asyncBufferFromFile(path);
        expect((await parquetReadObjects({ file, compressors })).map(seenByHyparquet)).toEqual(wanted);
        expect(await seenByDuckdb(path)).toEqual(wanted);
        await rm(path);
      }),
      { numRuns: 12, endOnFailure: true },
    );
  });
});

it('files of several groups of rows are read to their end', async () => {
  const path = await written(
    "SELECT i::BIGINT AS whole, 'tier ' || i % 3 AS text, CASE WHEN i % 2 = 0 THEN i::DOUBLE END AS number FROM range(21000) t(i)",
    'gzip',
  );
  const found = await readWithOldReader(path);
  expect(found.length).toBe(21_000);
  for (const [index, { whole: value, text, number: half }] of found.entries()) {
    const is = [whole(value), text, number(half)];
    if (is[0] !== BigInt(index) || is[1] !== `tier ${index % 3}` || is[2] !== (index % 2 === 0 ? index : null))
      expect(is).toEqual([BigInt(index), `tier ${index % 3}`, index % 2 === 0 ? index : null]);
  }
});

describe('old tools cannot read, as the page on snapshots says,', () => {
  const page = readFile('docs/snapshots.md', 'utf8');
  const message = (error: unknown) => (error instanceof Error ? error.message : String(error));
  const failure = async (query: string, compression: ParquetCompression = 'snappy', columns?: readonly string[]) =>
    readWithOldReader(await written(query, compression), columns).then(() => 'it was read', message);

  it('files with zstd, the default', async () => {
    expect(await failure('SELECT 1 AS n', 'zstd')).toBe('invalid compression method: ZSTD');
    expect(await page).toContain('`zstd`, the default');
  });

  it.each([
    ['1.50::DECIMAL(9,2)', '`decimal(p,s)`'],
    ['12345678901234567890::DECIMAL(38,0)', 'integers of more than 64 bits'],
  ])('a file with a column of %s, whichever columns are read', async (value, words) => {
    const query = `SELECT ${value} AS v, 'text' AS text`;
    expect(await failure(query)).toBe('invalid parquet type: DECIMAL');
    expect(await failure(query, 'snappy', ['text'])).toBe('invalid parquet type: DECIMAL');
    expect(await page).toContain(words);
  });

  it('a file with JSON of more than 256 bytes, whichever columns are read', async () => {
    const query = (length: number) => `SELECT to_json([repeat('x', ${length})]) AS doc, 'text' AS text`;
    expect(await failure(query(252))).toBe('it was read');
    expect(await failure(query(253), 'snappy', ['text'])).toMatch(/JSON/);
    expect(await page).toContain('JSON of more than 256 bytes');
  });

  it('a timestamp whose values repeat; they can read the other columns by name', async () => {
    const query = "SELECT TIMESTAMPTZ '2026-01-31 12:00:00+00' AS at, i::VARCHAR AS text FROM range(100) t(i)";
    expect(await failure(query)).toMatch(/BigInt/);
    const rows = await readWithOldReader(await written(query, 'snappy'), ['text']);
    expect(rows.map(({ text }) => text)).toEqual(Array.from({ length: 100 }, (_, index) => String(index)));
    expect(await page).toContain('timestamps that repeat');
  });

  it('microseconds, and digits of numbers in JSON beyond 2^53', async () => {
    const query = `SELECT TIMESTAMPTZ '2026-01-31 12:00:00.123456+00' AS at, '{"n":9007199254740993}'::JSON AS doc`;
    const [row] = await readWithOldReader(await written(query, 'snappy'));
    expect(row).toEqual({ at: new Date('2026-01-31T12:00:00.123Z'), doc: { n: 9007199254740992 } });
    expect(await page).toContain('microseconds');
  });

  it('numbers that repeat come as text with all their digits', async () => {
    const query = 'SELECT 9007199254740993::BIGINT AS whole, 0.1::DOUBLE AS number FROM range(100)';
    const [row] = await readWithOldReader(await written(query, 'snappy'));
    expect(row).toEqual({ whole: '9007199254740993', number: '0.1' });
    expect(await page).toContain('as text');
  });
});

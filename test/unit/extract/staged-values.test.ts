import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetRead } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ColumnRules } from '../../../src/columns/column-rules.js';
import { type Column, ColumnSet } from '../../../src/columns/columns.js';
import { quoteIdentifier, sqlText } from '../../../src/core/sql.js';
import { Converter } from '../../../src/extract/convert/converter.js';
import { StagingFile } from '../../../src/extract/convert/staging-file.js';
import { canonicalJson, canonicalNumber, canonicalString, parseExact } from '../../../src/extract/scan/exact-json.js';
import { ExactScanner } from '../../../src/extract/scan/exact-scanner.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { partFiles } from '../../../src/storage/part.js';
import { type ModelRecord, streams, write } from '../../fixtures/json-model.js';

let folder: string;
let database: Database;
let session: Session;
let converter: Converter;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-staged-'));
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
  converter = new Converter(database, 1);
});
afterAll(async () => {
  converter.close();
  session.close();
  database.close();
  await rm(folder, { recursive: true, force: true });
});

type Rows = Map<string, Map<string, string | null>>;

/** Reads one batch with DuckDB: the attributes of each row as JSON text. */
async function load(stagingFile: StagingFile, columns: ColumnSet, maxRecordBytes: number, rows: Rows): Promise<void> {
  await stagingFile.finish();
  const files = partFiles(folder, 1);
  const part = files.path;
  await converter.make({
    stagingFile: stagingFile.path,
    records: stagingFile.records,
    maxRecordBytes,
    columns: columns.store(),
    rules: new ColumnRules(new Map()),
    key: ['id'],
    number: 1,
    files,
    compression: 'none',
  });
  const attributes = columns.list.filter(({ place }) => place === 'attribute');
  const texts = attributes.map(({ name, type }, index) => {
    const value = quoteIdentifier(name);
    // `to_json` would parse and write the text of a JSON column again, and so lose 1e-400.
    return `${type === 'JSON' ? value : `to_json(${value})`}::VARCHAR AS value${index}`;
  });
  for (const row of await session.rows(`SELECT ${['id AS row_id', ...texts].join(', ')} FROM ${sqlText(part)}`)) {
    rows.set(
      String(row.row_id),
      new Map(attributes.map(({ field }, index) => [field, row[`value${index}`] as string | null])),
    );
  }
}

/** Takes pages through scanner and staging file as a run does; a batch ends only when a column becomes JSON. */
async function throughDuckdb(
  Scanner: typeof ExactScanner | typeof RecordScanner,
  pages: readonly string[],
): Promise<{ rows: Rows; columns: ColumnSet }> {
  const columns = new ColumnSet([{ field: 'id', type: 'VARCHAR' }]);
  const scanner = new Scanner(columns, { container: 'attributes', key: ['id'], filter: new Map() });
  const stagingFile = new StagingFile(join(folder, 'staged.json'));
  const rows: Rows = new Map();
  let before = ColumnSet.restore(columns.store());
  let maxRecordBytes = 0;
  for (const text of pages) {
    const body = Buffer.from(text);
    const page = scanner.scan(body, 0, body.length);
    const typed = ({ place, field, type }: Column) => type === 'JSON' && before.get(place, field)?.type !== 'JSON';
    if (stagingFile.records > 0 && columns.list.some(typed)) {
      await load(stagingFile, before, maxRecordBytes, rows);
      stagingFile.reset();
    }
    await stagingFile.append(page);
    maxRecordBytes = Math.max(maxRecordBytes, page.maxRecordBytes);
    before = ColumnSet.restore(columns.store());
  }
  if (stagingFile.records > 0) await load(stagingFile, columns, maxRecordBytes, rows);
  await stagingFile.close();
  return { rows, columns };
}

/** A value without its null members: a struct column has every field in every row. */
function meaning(text: string | null): string | null {
  return text === null ? null : canonicalJson(parseExact(text));
}

function pagesOf(records: readonly ModelRecord[], size: number): string[] {
  const texts = records.map((attributes, number) => {
    const members = [...attributes].map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`);
    return `{"id":"r${number}","attributes":{${members.join(',')}}}`;
  });
  return Array.from({ length: Math.ceil(texts.length / size) }, (_, page) =>
    texts.slice(page * size, (page + 1) * size).join(' ,\n'),
  );
}

const record = (id: string, value: string) => `{"id":"${id}","attributes":{"v":${value}}}`;

describe.each([ExactScanner, RecordScanner])('what %o emits', (Scanner) => {
  it('is read by DuckDB with the inferred types and every value', async () => {
    await fc.assert(
      fc.asyncProperty(streams, fc.integer({ min: 1, max: 12 }), async (records, size) => {
        const { rows, columns } = await throughDuckdb(Scanner, pagesOf(records, size));
        expect(rows.size).toBe(records.length);
        for (const { field, type } of columns.list.filter(({ place }) => place === 'attribute')) {
          for (const [number, attributes] of records.entries()) {
            const value = attributes.get(field);
            const expected = value === undefined || value.kind === 'null' ? null : write(value);
            const found = rows.get(`r${number}`)?.get(field) ?? null;
            expect(meaning(found), `${type} of r${number}`).toBe(meaning(expected));
          }
        }
      }),
      { numRuns: 25 },
    );
  });

  it.each([
    ['a struct', ['{}', '{"x":1}', 'null'], 'STRUCT("x" BIGINT)', ['{"x":null}', '{"x":1}', null]],
    ['a list of structs', ['[{}]', '[{"x":"t"}]'], 'STRUCT("x" VARCHAR)[]', ['[{"x":null}]', '[{"x":"t"}]']],
    [
      'a struct in a struct',
      ['{"y":{},"z":1.50}', '{"y":{"x":1}}'],
      'STRUCT("y" STRUCT("x" BIGINT), "z" DOUBLE)',
      ['{"y":{"x":null},"z":1.5}', '{"y":{"x":1},"z":null}'],
    ],
    ['nothing but empty', ['{}', '{ }'], 'JSON', ['{}', '{}']],
    ['empty, then something else', ['{}', '5', '"5"'], 'JSON', ['{}', '5', '"5"']],
  ])('holds where %s is empty before it has a field', async (_, values, type, texts) => {
    const records = values.map((value, number) => record(`r${number}`, value));
    for (const pages of [[records.join(',')], records]) {
      const { rows, columns } = await throughDuckdb(Scanner, pages);
      expect(columns.get('attribute', 'v')?.type).toBe(type);
      expect(texts.map((_text, number) => rows.get(`r${number}`)?.get('v') ?? null)).toEqual(texts);
    }
  });

  it('has each member once if names become equal, with the last value', async () => {
    const pages = ['{"id":"a","attributes":{"\\ud800":1,"\\ud801":2,"s":{"\\ud800":1,"\ufffd":2}}}'];
    const { rows } = await throughDuckdb(Scanner, pages);
    expect([...(rows.get('a') ?? [])]).toEqual([
      ['\ufffd', '2'],
      ['s', '{"\ufffd":2}'],
    ]);
  });

  it('keeps the sign of each zero, in lists and structs too', async () => {
    const zeros = ['0.0', '-0.0', '-0e5', '0', '-0.000'];
    const records = Array.from({ length: 40 }, (_, row) => {
      const zero = (offset: number) => zeros[(row + offset) % zeros.length];
      return `{"id":"r${row}","attributes":{"z":${zero(0)},"l":[${zero(1)},${zero(2)}],"s":{"x":${zero(3)}},"half":-0.5}}`;
    });
    const columns = new ColumnSet([{ field: 'id', type: 'VARCHAR' }]);
    const scanner = new Scanner(columns, { container: 'attributes', key: ['id'], filter: new Map() });
    const stagingFile = new StagingFile(join(folder, 'zeros.json'));
    for (const from of [0, 20]) {
      const body = Buffer.from(records.slice(from, from + 20).join(','));
      await stagingFile.append(scanner.scan(body, 0, body.length));
    }
    await load(stagingFile, columns, 1000, new Map());
    await stagingFile.close();
    const found = new Map<string, unknown[]>();
    await parquetRead({
      file: await asyncBufferFromFile(partFiles(folder, 1).path),
      rowFormat: 'object',
      onComplete: (rows) => {
        for (const { id, ...values } of rows as { id: string; z: number; l: number[]; s: { x: number } }[])
          found.set(id, [values.z, ...values.l, values.s.x]);
      },
    });
    for (const text of records) {
      const { id, attributes } = JSON.parse(text);
      const expected = [attributes.z, ...attributes.l, attributes.s.x];
      // An integer has no sign at zero: JSON.parse keeps none of `0`, and there is no `-0` here.
      expect(found.get(id)?.map((value) => Object.is(value, -0))).toEqual(
        expected.map((value) => Object.is(value, -0)),
      );
    }
  });
});

describe('canonical text is the text that DuckDB writes', () => {
  it('for numbers, except whole ones, which are written like integers', async () => {
    const text = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => {
      const shortest = Object.is(value, -0) ? '-0.0' : String(value);
      return /[.e]/.test(shortest) ? shortest : `${shortest}.0`;
    });
    const edges = ['1e21', '1e22', '123456789012345680000.0', '1e-6', '1e-7', '5e-324', '1.7976931348623157e308'];
    const texts = [...fc.sample(text, { numRuns: 5000, seed: 1 }), ...edges];
    const rows = await session.rows(
      `SELECT to_json(value::DOUBLE)::VARCHAR AS found FROM (SELECT unnest([${texts.map(sqlText).join(', ')}]) AS value)`,
    );
    const found = rows.map((row) => String(row.found));
    const isWhole = (value: string) => Number.isInteger(Number(value)) && Math.abs(Number(value)) <= 2 ** 53;
    const like = (value: string) => (isWhole(value) && value !== '-0.0' ? value.replace(/\.0$/, '') : value);
    expect(texts.map(canonicalNumber)).toEqual(found.map(like));
  });

  it('for strings', async () => {
    const texts = Array.from({ length: 0x300 }, (_, code) => `a${String.fromCodePoint(code + 1)}b`);
    const list = texts.map((text) => sqlText(text)).join(', ');
    const rows = await session.rows(`SELECT to_json(value)::VARCHAR AS found FROM (SELECT unnest([${list}]) AS value)`);
    expect(texts.map(canonicalString)).toEqual(rows.map((row) => row.found));
  });
});

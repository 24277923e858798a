import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ColumnRules } from '../../../src/columns/column-rules.js';
import { ColumnSet } from '../../../src/columns/columns.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { Converter } from '../../../src/extract/convert/converter.js';
import { StagingFile } from '../../../src/extract/convert/staging-file.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';
import { Database } from '../../../src/storage/duckdb.js';
import { partFiles } from '../../../src/storage/part.js';

/** In place of DuckDB: memory for one statement at a time. How much DuckDB itself takes depends on its version. */
function scarceDatabase(alone: () => Promise<unknown>) {
  const counts = { underWay: 0, failed: 0, made: 0 };
  const use = async () => {
    counts.underWay += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
    try {
      if (counts.underWay > 1) {
        counts.failed += 1;
        throw new CdsyncError('too much', { code: 'memory_exceeded' });
      }
      counts.made += 1;
      return await alone();
    } finally {
      counts.underWay -= 1;
    }
  };
  const database = { connectToConvert: async () => ({ close: () => undefined }), use };
  return { database: database as unknown as Database, counts };
}

const batch = { columns: [] } as unknown as Parameters<Converter['make']>[0];

it('batches for which the memory does not suffice beside others are made alone', async () => {
  const { database, counts } = scarceDatabase(async () => 'part');
  const converter = new Converter(database, 2);
  const made = await Promise.all(Array.from({ length: 12 }, () => converter.make(batch)));
  expect(made).toEqual(Array.from({ length: 12 }, () => 'part'));
  expect(counts).toMatchObject({ made: 12, underWay: 0 });
  expect(counts.failed).toBeGreaterThan(0);
  converter.close();
});

it('a batch for which the memory does not suffice alone either fails', async () => {
  const { database } = scarceDatabase(() => Promise.reject(new CdsyncError('too much', { code: 'memory_exceeded' })));
  const converter = new Converter(database, 2);
  await expect(converter.make(batch)).rejects.toMatchObject({ code: 'memory_exceeded' });
  converter.close();
});

it('a batch of large lists that fails leaves none of its records in memory', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-converter-'));
  const database = await Database.open({ memoryMb: 400, threads: 1 });
  const session = await database.connect();
  const converter = new Converter(database, 1);
  try {
    const list = JSON.stringify(Array.from({ length: 4000 }, (_, at) => `tag ${at}`));
    const records = Array.from({ length: 100 }, (_, at) => `{"id":"p${at}","attributes":{"tags":${list}}}`);
    const body = Buffer.from(records.join(','));
    const columns = new ColumnSet([{ field: 'id', type: 'VARCHAR' }]);
    const scanner = new RecordScanner(columns, { container: 'attributes', key: ['id'], filter: new Map() });
    const page = scanner.scan(body, 0, body.length);
    const staging = new StagingFile(join(folder, 'staged.json'));
    await staging.append(page);
    await staging.finish();
    const { path: stagingFile, records: count } = staging;
    const rules = new ColumnRules(new Map());
    const scanned = { maxRecordBytes: page.maxRecordBytes, columns: columns.store(), rules, key: ['id'], number: 1 };
    const sealed = { stagingFile, records: count, ...scanned, compression: 'none' } as const;
    const make = (place: string) => converter.make({ ...sealed, files: partFiles(place, 1) });
    const inTables = () =>
      session.number("SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'");
    await expect(make(join(folder, 'missing'))).rejects.toMatchObject({ name: 'CdsyncError' });
    expect(await inTables()).toBe(0);
    expect(await make(folder)).toMatchObject({ rows: 100 });
    expect(await inTables()).toBe(0);
    await staging.close();
  } finally {
    converter.close();
    session.close();
    database.close();
    await rm(folder, { recursive: true, force: true });
  }
});

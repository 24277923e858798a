import { expect, it } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import { Converter } from '../../../src/extract/convert/converter.js';
import type { Database } from '../../../src/storage/duckdb.js';

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

import { DuckDBInstance } from '@duckdb/node-api';
import { expect, it } from 'vitest';
import { duckdbRefused } from '../../../../src/sdk/index.js';

/** The error for a statement that DuckDB cannot run in 20 MB and without a disk. */
async function refused(sql: string) {
  const instance = await DuckDBInstance.create(':memory:', { memory_limit: '20MB', temp_directory: '' });
  const connection = await instance.connect();
  try {
    const cause = await connection.run(sql).then(
      () => undefined,
      (error: Error) => error,
    );
    return duckdbRefused('DuckDB refused a statement', cause);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

it('says which option gives a load more memory', async () => {
  expect(
    await refused('CREATE TABLE t AS SELECT hash(range)::VARCHAR AS h FROM range(3000000) ORDER BY h'),
  ).toMatchObject({
    code: 'destination_refused',
    hint: 'raise `memory_mb` of the destination',
    causeQuotesValues: false,
  });
});

it('quotes no DuckDB message that contains values', async () => {
  const error = await refused("SELECT CAST('ada@example.com' AS INTEGER)");
  expect(error.message).toBe('DuckDB refused a statement (Conversion Error)');
  expect(error.causeQuotesValues).toBe(true);
});

it('says that the disk is full, however DuckDB says it', () => {
  const message = 'IO Error: Could not write all bytes to file "stage.tmp": wanted=8192 wrote=0';
  expect(duckdbRefused('DuckDB refused a statement', new Error(message)).message).toBe(
    'there is no space left for the work of a load',
  );
});

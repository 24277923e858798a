import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import type { BigqueryClient, QueryRequest } from '../../../connectors/bigquery/sdk.js';
import { credentials, FakeBigquery } from '../../fixtures/bigquery.js';
import type { BigqueryDataset } from '../../fixtures/bigquery-dataset.js';
import { LoadDriver, merge } from '../../fixtures/load-driver.js';

const fake = new FakeBigquery();
const connector = bigqueryConnector(async () => fake);
const key = ['id'];
const people = (to: number) => `SELECT 'p' || i AS id, i AS n, {'a': i} AS nested FROM range(${to}) t(i)`;
const upserts = (to: number) => `SELECT 'upsert' AS _op, * FROM (${people(to)})`;

let place: Awaited<ReturnType<FakeBigquery['place']>>;
let dataset: BigqueryDataset;
let driver: LoadDriver;
beforeEach(async () => {
  place = await fake.place();
  dataset = place.dataset;
  driver = await LoadDriver.open(connector, place.options);
});
afterEach(async () => {
  await driver.close();
  await place.close();
});

/** The jobs of a load, by their first words, without those that read. */
function steps(from: number): string[] {
  const words = dataset.jobs.slice(from).map((sql) => /^[A-Z_@]+( [A-Z_]+)*/.exec(sql)?.[0] ?? sql);
  return words.filter((word) => !word.startsWith('SELECT'));
}

describe('what BigQuery is sent', () => {
  it('is load jobs, then one transaction in a session that ends with the load', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = dataset.jobs.length;
    await driver.load({ table: 'people', query: upserts(8), key, action: merge, sequence: 2, chunk: 4 });
    expect(steps(from)).toEqual([
      ...['DROP TABLE IF EXISTS', 'CREATE TABLE', 'LOAD WRITE_TRUNCATE', 'LOAD WRITE_APPEND'],
      ...['BEGIN TRANSACTION', 'UPDATE', 'MERGE INTO', 'UPDATE', 'INSERT INTO', 'DELETE FROM', 'COMMIT TRANSACTION'],
      // The commit has the stage as owed, until it is dropped.
      ...['DROP TABLE IF EXISTS', 'UPDATE', 'CALL BQ'],
    ]);
    expect(await dataset.rows('people')).toHaveLength(10);
    expect(dataset.sessions.size).toBe(0);
  });

  it('makes and stamps a table before the transaction', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const made = steps(0).filter((step) => !/^(?:DROP|LOAD|CALL)/.test(step));
    expect(made).toEqual([
      ...['CREATE TABLE IF NOT EXISTS', 'CREATE TABLE IF NOT EXISTS', 'CREATE TABLE'],
      ...['MERGE INTO', 'CREATE TABLE', 'ALTER TABLE'],
      ...['BEGIN TRANSACTION', 'UPDATE', 'INSERT INTO', 'UPDATE', 'INSERT INTO', 'DELETE FROM', 'COMMIT TRANSACTION'],
      'UPDATE',
    ]);
    expect(await driver.sequence('people')).toBe(1);
  });

  it('replaces all rows within the transaction, and leaves a description of the user in place', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const text = `it's a \\ "of ours"\nin lines`;
    await dataset.with((connection) =>
      connection.run(`COMMENT ON TABLE people IS '${text.replaceAll("'", "''")} [cdsync 1:load-1-1]'`),
    );
    const from = dataset.jobs.length;
    await driver.load({ table: 'people', query: people(3), key, action: { type: 'replace' }, sequence: 2 });
    const written = steps(from).filter((step) => !/^(?:DROP|LOAD|CREATE|CALL)/.test(step));
    expect(written.slice(0, 5)).toEqual(['UPDATE', 'ALTER TABLE', 'BEGIN TRANSACTION', 'UPDATE', 'MERGE INTO']);
    expect(await dataset.rows('people')).toHaveLength(3);
    const comments = "SELECT comment FROM duckdb_tables() WHERE table_name = 'people'";
    const found = await dataset.with(async (connection) => (await connection.runAndReadAll(comments)).getRows());
    expect(found).toEqual([[`${text} [cdsync 1:load-2-2]`]]);
  });

  it('shows a column under whose collation small and capital letters are the same as another type', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    // The dataset of the tests has a column's collation in its comment.
    await dataset.with((connection) => connection.run("COMMENT ON COLUMN people.id IS 'und:ci'"));
    const table = await driver.with((destination) => destination.describe('people'));
    expect(table?.columns.slice(0, 2)).toEqual([
      { name: 'id', type: "STRING COLLATE 'und:ci'" },
      { name: 'n', type: 'INT64' },
    ]);
  });

  it('keeps keys that differ in case apart, also if the dataset has a collation without case by default', async () => {
    dataset.ignoresCase = true;
    const rows = (n: number) => `SELECT unnest(['anna', 'Anna']) AS id, ${n} + unnest([0, 1]) AS n`;
    const load = (n: number) => `SELECT 'upsert' AS _op, * FROM (${rows(n)})`;
    await driver.load({ table: 'people', query: rows(1), key, sequence: 1 });
    await driver.load({ table: 'people', query: load(5), key, action: merge, sequence: 2 });
    const loaded = (await dataset.rows('people')).map((row) => `${row.get('id')} ${row.get('n')}`);
    expect(loaded.sort()).toEqual(['Anna 6', 'anna 5']);
  });

  it('is rolled back if others have changed the number of rows during the load', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const onFile = async () => {
      await dataset.with((connection) => connection.run("DELETE FROM people WHERE id = 'p9'"));
    };
    const load = driver.load({ table: 'people', query: upserts(12), key, action: merge, sequence: 2, onFile });
    await expect(load).rejects.toMatchObject({ code: 'table_moved', message: expect.stringContaining('12 rows, 13') });
    expect([await driver.sequence('people'), (await dataset.rows('people')).length]).toEqual([1, 9]);
  });

  it('ends the transaction of a delivery that was killed, which would exclude others for a day', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    // The process is gone before its commit: nothing is rolled back, dropped or ended.
    const gone = new Promise<void>((resolve) => {
      const killed = bigqueryConnector(async () => ({
        BigQuery: class extends fake.BigQuery {
          override createQueryJob(request: QueryRequest): ReturnType<BigqueryClient['createQueryJob']> {
            if (!request.query.startsWith('COMMIT')) return super.createQueryJob(request);
            resolve();
            return new Promise(() => undefined);
          }
        },
      }));
      const load = { table: 'people', query: upserts(5), key, action: merge, sequence: 2 };
      // A process that was killed notices nothing; this one gives up after some silence.
      void LoadDriver.open(killed, place.options)
        .then((opened) => opened.load(load))
        .catch(() => undefined);
    });
    await gone;
    expect(dataset.sessions.size).toBe(1);
    await driver.load({ table: 'people', query: upserts(12), key, action: merge, sequence: 3 });
    expect(await driver.sequence('people')).toBe(3);
    expect(await dataset.rows('people')).toHaveLength(12);
    expect(dataset.sessions.size).toBe(0);
    const tables = await dataset.with(async (connection) =>
      (await connection.runAndReadAll('SELECT table_name FROM duckdb_tables()')).getRows(),
    );
    expect(tables.flat().sort()).toEqual(['_cdsync_loads', '_cdsync_state', 'people']);
  });

  it('clusters a table by its key, and sends the schema of the loaded rows', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(dataset.jobs.find((job) => job.includes('`people`'))).toMatch(/ CLUSTER BY `id`$/);
    const fields = dataset.loads[0]?.schema.fields.map(({ name, type }) => `${name} ${type}`);
    expect(fields).toEqual(['id STRING', 'n INT64', 'nested STRING']);
  });

  it('calls each function of a load in a check, and changes nothing', async () => {
    await driver.with(async (destination) => destination.tryFunctions?.(connector));
    const called = dataset.jobs.filter((sql) => sql.includes('MD5('));
    expect(called).toHaveLength(1);
    for (const name of ['TO_HEX', 'SUBSTR', 'UNIX_DATE', 'UNIX_MICROS', 'COALESCE', 'SUM'])
      expect(called[0]).toMatch(new RegExp(`^SELECT .*\\b${name}\\(`));
    expect(steps(0)).toEqual([]);
  });

  it('has nothing secret in it', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(dataset.clients[0]?.credentials).toEqual(credentials);
    expect(JSON.stringify([dataset.jobs, dataset.loads])).not.toContain(credentials.private_key);
  });
});

describe('responses of BigQuery', () => {
  async function refused(options: Record<string, unknown>): Promise<unknown> {
    const other = await LoadDriver.open(connector, { ...place.options, ...options });
    try {
      return await other.load({ table: 'people', query: people(1), key, sequence: 1 }).catch((error: unknown) => error);
    } finally {
      await other.close();
    }
  }

  it('reports a refused login without the key', async () => {
    const error = await refused({ credentials: JSON.stringify({ ...credentials, private_key: 'wrong-0815' }) });
    expect(error).toMatchObject({ code: 'destination_login', kind: 'auth' });
    expect((error as Error).message).not.toContain('wrong-0815');
  });

  it('is not asked with credentials that are no JSON, which are not shown', async () => {
    const error = await refused({ credentials: '{"private_key": geheim-0815}' });
    expect(error).toMatchObject({ code: 'destination_login', message: '`credentials` is not JSON' });
  });

  it('reports a missing role, with the command that grants it', async () => {
    const error = await refused((await place.withoutPermission?.()) ?? {});
    expect(error).toMatchObject({
      code: 'destination_permission',
      hint: expect.stringContaining('GRANT `roles/bigquery.dataEditor` ON SCHEMA'),
    });
  });

  it('reports a dataset that is not there', async () => {
    const error = await refused({ dataset: 'another' });
    expect(error).toMatchObject({ code: 'destination_permission', hint: expect.stringContaining('CREATE SCHEMA') });
  });
});

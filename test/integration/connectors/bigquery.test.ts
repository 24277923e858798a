import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { type BigqueryDataset, credentials, FakeBigquery } from '../../fixtures/bigquery.js';
import { TableDriver } from '../../fixtures/table-driver.js';

const fake = new FakeBigquery();
const connector = bigqueryConnector(async () => fake);
const key = ['id'];
const people = (to: number) => `SELECT 'p' || i AS id, i AS n, {'a': i} AS nested FROM range(${to}) t(i)`;
const upserts = (to: number) => `SELECT 'upsert' AS _op, * FROM (${people(to)})`;

let place: Awaited<ReturnType<FakeBigquery['place']>>;
let dataset: BigqueryDataset;
let driver: TableDriver;
beforeEach(async () => {
  place = await fake.place();
  dataset = place.dataset;
  driver = await TableDriver.open(connector, place.options);
});
afterEach(async () => {
  await driver.close();
  await place.close();
});

/** The jobs and statements of a load, by their first words, without those that read. */
function steps(from: number): string[] {
  const words = dataset.jobs.slice(from).map((sql) => /^[A-Z_@]+( [A-Z_]+)*/.exec(sql)?.[0] ?? sql);
  return words.filter((word) => !word.startsWith('SELECT'));
}

describe('what BigQuery is sent', () => {
  it('is load jobs, then one script that is one transaction', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = dataset.jobs.length;
    const action = { type: 'merge', absent: 'delete' } as const;
    await driver.load({ table: 'people', query: upserts(8), key, action, sequence: 2, chunk: 4 });
    expect(steps(from)).toEqual([
      'CREATE TABLE',
      'LOAD WRITE_TRUNCATE',
      'LOAD WRITE_APPEND',
      'BEGIN TRANSACTION',
      'UPDATE',
      'IF',
      'MERGE',
      'COMMIT TRANSACTION',
      'DROP TABLE IF EXISTS',
    ]);
    expect(await dataset.rows('people')).toHaveLength(8);
  });

  it('replaces all rows within the transaction', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = dataset.jobs.length;
    await driver.load({ table: 'people', query: people(3), key, action: { type: 'replace' }, sequence: 2 });
    expect(steps(from).slice(2, 7)).toEqual(['BEGIN TRANSACTION', 'UPDATE', 'IF', 'DELETE FROM', 'INSERT INTO']);
    expect(await dataset.rows('people')).toHaveLength(3);
  });

  it('clusters a table by its key, and names the schema of what is loaded', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(dataset.jobs.find((job) => job.includes('`people`'))).toMatch(/ CLUSTER BY `id`$/);
    const fields = dataset.loads[0]?.schema.fields.map(({ name, type }) => `${name} ${type}`);
    expect(fields).toEqual(['id STRING', 'n INT64', 'nested STRING']);
  });

  it('has nothing secret in it', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(dataset.clients[0]?.credentials).toEqual(credentials);
    expect(JSON.stringify([dataset.jobs, dataset.loads])).not.toContain(credentials.private_key);
  });
});

describe('what BigQuery answers', () => {
  async function refused(options: Record<string, unknown>): Promise<unknown> {
    const other = await TableDriver.open(connector, { ...place.options, ...options });
    try {
      return await other.with((destination) => destination.watermarks()).catch((error: unknown) => error);
    } finally {
      await other.close();
    }
  }

  it('is told of a refused login without the key', async () => {
    const error = await refused({ credentials: JSON.stringify({ ...credentials, private_key: 'wrong-0815' }) });
    expect(error).toMatchObject({ code: 'destination_login', kind: 'auth' });
    expect((error as Error).message).not.toContain('wrong-0815');
  });

  it('is not asked with credentials that are no JSON, which are not shown', async () => {
    const error = await refused({ credentials: '{"private_key": geheim-0815}' });
    expect(error).toMatchObject({ code: 'destination_login', message: '`credentials` is not JSON' });
  });

  it('is told of a missing role with what gives it', async () => {
    const error = await refused((await place.withoutPermission?.()) ?? {});
    expect(error).toMatchObject({
      code: 'destination_permission',
      hint: expect.stringContaining('GRANT `roles/bigquery.dataEditor` ON SCHEMA'),
    });
  });

  it('is told of a dataset that is not there', async () => {
    const error = await refused({ dataset: 'elsewhere' });
    expect(error).toMatchObject({ code: 'destination_permission', hint: expect.stringContaining('CREATE SCHEMA') });
  });
});

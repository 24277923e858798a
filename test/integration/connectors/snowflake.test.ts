import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { LoadDriver, merge } from '../../fixtures/load-driver.js';
import { FakeSnowflake, password, type SnowflakeSchema } from '../../fixtures/snowflake.js';

const fake = new FakeSnowflake();
const connector = snowflakeConnector(async () => fake);
const key = ['id'];
const people = (to: number) => `SELECT 'p' || i AS id, i AS n, {'a': i} AS nested FROM range(${to}) t(i)`;
const upserts = (to: number) => `SELECT 'upsert' AS _op, * FROM (${people(to)})`;

let place: Awaited<ReturnType<FakeSnowflake['place']>>;
let schema: SnowflakeSchema;
let driver: LoadDriver;
beforeEach(async () => {
  place = await fake.place();
  schema = place.schema;
  driver = await LoadDriver.open(connector, place.options);
});
afterEach(async () => {
  await driver.close();
  await place.close();
});

/** The statements of a load, by their first words, without those that read. */
function steps(from: number): string[] {
  const words = schema.statements.slice(from).map((sql) => /^[A-Z]+( [A-Z]+)*/.exec(sql)?.[0] ?? sql);
  return words.filter((word) => !/^(SELECT|DESCRIBE|ALTER SESSION)/.test(word));
}

const staged = [
  'DROP STAGE IF EXISTS CDSYNC',
  'DROP TABLE IF EXISTS',
  'CREATE TEMPORARY STAGE CDSYNC',
  'CREATE TEMPORARY TABLE',
  'PUT',
  'PUT',
  'COPY INTO',
];
const dropped = ['DROP STAGE IF EXISTS CDSYNC', 'DROP TABLE IF EXISTS'];

describe('what Snowflake is sent', () => {
  it('is files, then their rows, then one transaction without DDL', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = schema.statements.length;
    await driver.load({ table: 'people', query: upserts(8), key, action: merge, sequence: 2, chunk: 4 });
    expect(steps(from)).toEqual([
      ...staged,
      'BEGIN TRANSACTION',
      'UPDATE',
      'MERGE INTO',
      'UPDATE',
      'INSERT INTO',
      'DELETE FROM',
      'COMMIT',
      ...dropped,
    ]);
    expect(schema.implicitCommits).toEqual([]);
    expect(await schema.rows('people')).toHaveLength(10);
  });

  it('makes and stamps a new table before the transaction', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1, chunk: 5 });
    expect(steps(0).filter((step) => !/^(DROP|PUT|COPY)/.test(step))).toEqual([
      ...['CREATE TABLE IF NOT EXISTS', 'CREATE TABLE IF NOT EXISTS'],
      ...['CREATE TEMPORARY STAGE CDSYNC', 'CREATE TEMPORARY TABLE'],
      ...['MERGE INTO', 'CREATE TABLE', 'COMMENT ON TABLE'],
      ...['BEGIN TRANSACTION', 'UPDATE', 'INSERT INTO', 'UPDATE', 'INSERT INTO', 'DELETE FROM', 'COMMIT'],
    ]);
    expect(schema.implicitCommits).toEqual([]);
    expect(await driver.sequence('people')).toBe(1);
  });

  it('stamps a table that is loaded whole, announced by the record, behind a comment of the user', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    await schema.query(`COMMENT ON TABLE "people" IS 'it''s a \\ of ours [cdsync 1:load-1-1]'`);
    const from = schema.statements.length;
    await driver.load({ table: 'people', query: people(3), key, action: { type: 'replace' }, sequence: 2 });
    const written = steps(from).filter((step) => !/^(DROP|PUT|COPY|CREATE)/.test(step));
    expect(written.slice(0, 6)).toEqual([
      ...['UPDATE', 'COMMENT ON TABLE', 'BEGIN TRANSACTION', 'UPDATE', 'MERGE INTO', 'DELETE FROM'],
    ]);
    expect(schema.implicitCommits).toEqual([]);
    expect(await schema.rows('people')).toHaveLength(3);
    const comment = "SELECT comment FROM duckdb_tables() WHERE table_name = 'people'";
    expect(await schema.query(comment)).toEqual([{ comment: "it's a \\ of ours [cdsync 1:load-2-2]" }]);
  });

  it('keeps keys that differ in case apart, also if the schema has a collation without case by default', async () => {
    schema.ignoresCase = true;
    const rows = (n: number) => `SELECT unnest(['anna', 'Anna']) AS id, ${n} + unnest([0, 1]) AS n`;
    const load = (n: number) => `SELECT 'upsert' AS _op, * FROM (${rows(n)})`;
    await driver.load({ table: 'people', query: rows(1), key, sequence: 1 });
    await driver.load({ table: 'people', query: load(5), key, action: merge, sequence: 2 });
    const loaded = (await schema.rows('people')).map((row) => `${row.get('id')} ${row.get('n')}`);
    expect(loaded.sort()).toEqual(['Anna 6', 'anna 5']);
  });

  it('is rolled back if others have changed the number of rows during the load', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const onFile = async () => {
      await schema.query(`DELETE FROM "people" WHERE id = 'p9'`);
    };
    const load = driver.load({ table: 'people', query: upserts(12), key, action: merge, sequence: 2, onFile });
    await expect(load).rejects.toMatchObject({ code: 'table_moved', message: expect.stringContaining('12 rows, 13') });
    expect([await driver.sequence('people'), (await schema.rows('people')).length]).toEqual([1, 9]);
  });

  it('lets one of two deliveries add the first record', async () => {
    const load = (sequence: number) => ({ table: 'people', query: people(10), key, sequence, before: undefined });
    await driver.load(load(1));
    await expect(driver.load({ ...load(2), action: { type: 'replace' } })).rejects.toMatchObject({ code: 'fenced' });
    expect(await driver.sequence('people')).toBe(1);
  });

  it('goes to another host if there is one, and has no NULL as a text', async () => {
    const connect = async (host: Record<string, string>) => {
      const other = await LoadDriver.open(connector, { ...place.options, ...host });
      await other.with((destination) => destination.describe('people'));
      await other.close();
    };
    await connect({});
    await connect({ host: 'acme.privatelink.snowflakecomputing.com' });
    await connect({ host: 'http://127.0.0.1:8080' });
    const [own, ...others] = schema.logins;
    expect(own).not.toHaveProperty('accessUrl');
    expect(others.map(({ accessUrl }) => accessUrl)).toEqual([
      'https://acme.privatelink.snowflakecomputing.com',
      'http://127.0.0.1:8080',
    ]);
    expect(schema.logins.map((login) => login.representNullAsStringNull)).toEqual([false, false, false]);
  });

  it('calls each function of a load in a check, and changes nothing', async () => {
    await driver.with(async (destination) => destination.tryFunctions?.(connector));
    const called = schema.statements.filter((sql) => sql.includes('MD5('));
    expect(called).toHaveLength(1);
    expect(steps(0)).toEqual([]);
    for (const name of ['MD5', 'TO_NUMBER', 'SUBSTR', 'DATEDIFF', 'DATE_PART', 'TO_VARCHAR', 'PARSE_JSON', 'SUM'])
      expect(called[0]).toMatch(new RegExp(`^SELECT .*\\b${name}\\(`));
  });

  it('has nothing secret in it', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(schema.logins.map((login) => login.password)).toContain(password);
    expect(schema.statements.join('\n')).not.toContain(password);
  });
});

describe('responses of Snowflake', () => {
  it('reports a refused login without the password', async () => {
    const stranger = await LoadDriver.open(connector, { ...place.options, password: 'wrong-0815' });
    try {
      const refused = stranger.with((destination) =>
        destination.state({ destination: 'target', stream: 'people', table: 'people' }),
      );
      await expect(refused).rejects.toMatchObject({
        code: 'destination_login',
        kind: 'auth',
        message: 'Snowflake refuses the login: Incorrect username or password was specified. (390100)',
      });
    } finally {
      await stranger.close();
    }
  });

  it('reports a missing grant with the statements that give it', async () => {
    const options = await place.withoutPermission?.();
    const reader = await LoadDriver.open(connector, options ?? {});
    try {
      const refused = reader.load({ table: 'people', query: people(1), key, sequence: 1 });
      await expect(refused).rejects.toMatchObject({
        code: 'destination_permission',
        hint: expect.stringContaining('GRANT USAGE, CREATE TABLE, CREATE STAGE ON SCHEMA'),
      });
    } finally {
      await reader.close();
    }
  });
});

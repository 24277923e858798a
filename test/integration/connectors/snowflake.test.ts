import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { FakeSnowflake, password, type SnowflakeSchema } from '../../fixtures/snowflake.js';
import { TableDriver } from '../../fixtures/table-driver.js';

const fake = new FakeSnowflake();
const connector = snowflakeConnector(async () => fake);
const key = ['id'];
const people = (to: number) => `SELECT 'p' || i AS id, i AS n, {'a': i} AS nested FROM range(${to}) t(i)`;
const upserts = (to: number) => `SELECT 'upsert' AS _op, * FROM (${people(to)})`;

let place: Awaited<ReturnType<FakeSnowflake['place']>>;
let schema: SnowflakeSchema;
let driver: TableDriver;
beforeEach(async () => {
  place = await fake.place();
  schema = place.schema;
  driver = await TableDriver.open(connector, place.options);
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

describe('what Snowflake is sent', () => {
  it('is files, then their rows, then one transaction without DDL', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = schema.statements.length;
    const action = { type: 'merge', absent: 'delete' } as const;
    await driver.load({ table: 'people', query: upserts(8), key, action, sequence: 2, chunk: 4 });
    expect(steps(from)).toEqual([
      'CREATE OR REPLACE TEMPORARY STAGE CDSYNC',
      'CREATE OR REPLACE TEMPORARY TABLE',
      'PUT',
      'PUT',
      'COPY INTO',
      'BEGIN TRANSACTION',
      'UPDATE',
      'MERGE INTO',
      'DELETE FROM',
      'COMMIT',
      'DROP STAGE IF EXISTS CDSYNC',
      'DROP TABLE IF EXISTS',
    ]);
    expect(schema.implicitCommits).toEqual([]);
    expect(await schema.rows('people')).toHaveLength(8);
  });

  it('replaces all rows within the transaction', async () => {
    await driver.load({ table: 'people', query: people(10), key, sequence: 1 });
    const from = schema.statements.length;
    await driver.load({ table: 'people', query: people(3), key, action: { type: 'replace' }, sequence: 2 });
    expect(steps(from).slice(4, 8)).toEqual(['BEGIN TRANSACTION', 'UPDATE', 'INSERT OVERWRITE INTO', 'COMMIT']);
    expect(await schema.rows('people')).toHaveLength(3);
  });

  it('has nothing secret in it', async () => {
    await driver.load({ table: 'people', query: people(1), key, sequence: 1 });
    expect(schema.logins.map((login) => login.password)).toContain(password);
    expect(schema.statements.join('\n')).not.toContain(password);
  });
});

describe('what Snowflake answers', () => {
  it('is told of a refused login without the password', async () => {
    const stranger = await TableDriver.open(connector, { ...place.options, password: 'wrong-0815' });
    try {
      const refused = stranger.with((destination) => destination.watermarks());
      await expect(refused).rejects.toMatchObject({
        code: 'destination_login',
        kind: 'auth',
        message: 'Snowflake refuses the login: Incorrect username or password was specified. (390100)',
      });
    } finally {
      await stranger.close();
    }
  });

  it('is told of a missing grant with the statements that give it', async () => {
    const options = await place.withoutPermission?.();
    const reader = await TableDriver.open(connector, options ?? {});
    try {
      const refused = reader.with((destination) => destination.watermarks());
      await expect(refused).rejects.toMatchObject({
        code: 'destination_permission',
        hint: expect.stringContaining('GRANT USAGE, CREATE TABLE, CREATE STAGE ON SCHEMA'),
      });
    } finally {
      await reader.close();
    }
  });
});

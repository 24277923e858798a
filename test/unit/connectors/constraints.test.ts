import { describe, expect, it } from 'vitest';
import { refusal } from '../../../connectors/duckdb/errors.js';
import { mysqlError } from '../../../connectors/mysql/errors.js';
import { postgresError } from '../../../src/sdk/postgres/errors.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();
await session.run('CREATE TABLE people (id VARCHAR NOT NULL, "e mail" VARCHAR)');
await session.run('CREATE UNIQUE INDEX own ON people ("e mail")');
await session.run("INSERT INTO people VALUES ('1', 'ann@example.com')");

const rights = { product: 'PostgreSQL', user: 'u', database: 'd', schema: 's' };
const theirs = { message: 'duplicate key: (email)=(ann@example.com)' };

describe('a constraint of the user that a row does not meet', () => {
  it.each([
    ['PostgreSQL, NOT NULL', postgresError({ ...theirs, code: '23502' }, rights), 'give the column a DEFAULT'],
    ['PostgreSQL, UNIQUE', postgresError({ ...theirs, code: '23505' }, rights), 'remove the constraint'],
    ['MySQL, NOT NULL', mysqlError({ ...theirs, errno: 1048 }, rights), 'give the column a DEFAULT'],
    ['MySQL, no default', mysqlError({ message: "Field 'x'", errno: 1364 }, rights), 'give the column a DEFAULT'],
    ['MySQL, a generated column', mysqlError({ message: "column 'x'", errno: 3105 }, rights), 'change it back'],
    ['MySQL, UNIQUE', mysqlError({ ...theirs, errno: 1062 }, rights), 'remove the constraint'],
  ])('has a remedy, and no value is shown: %s', (_, error, remedy) => {
    expect(error).toMatchObject({ code: 'destination_refused', hint: expect.stringContaining(remedy) });
    expect(`${error.message} ${error.hint}`).not.toContain('ann@');
  });

  it.each([
    ["INSERT INTO people VALUES ('2', 'ann@example.com')", 'a unique index already has the value (column "e mail")'],
    [
      "INSERT INTO people SELECT range::VARCHAR, 'bob@example.com' FROM range(5, 7)",
      'a unique index already has the value',
    ],
    ["INSERT INTO people VALUES (NULL, 'bob@example.com')", 'a column that must have a value has none (column "id")'],
  ])('is named where DuckDB refuses: %s', async (sql, words) => {
    const cause = await session.run(sql).catch((error: Error) => error.cause ?? error);
    expect(refusal(cause)).toMatchObject({
      code: 'destination_refused',
      message: `DuckDB refuses a row: ${words}`,
      hint: expect.stringContaining('drop the index'),
    });
  });
});

it.each([
  ['2BP01', 'cannot drop table s.people because other objects depend on it', 'drop them first'],
  ['25006', 'cannot execute DROP TABLE in a read-only transaction', 'name the primary server'],
  ['57014', 'canceling statement due to statement timeout', 'statement_timeout = 0'],
  ['42804', 'collations are not supported by type uuid', 'change it back'],
  ['42883', 'operator does not exist: integer = boolean', 'change it back'],
  ['428C9', 'column "num" can only be updated to DEFAULT', 'change it back'],
])('a statement that PostgreSQL refuses has a remedy: %s', (code, message, remedy) => {
  expect(postgresError({ code, message }, rights).hint).toContain(remedy);
});

it('rows that a policy hides are no right that is missing', () => {
  const message = 'new row violates row-level security policy for table "people"';
  const { code, hint } = postgresError({ code: '42501', message }, rights);
  expect([code, hint]).toEqual([
    'destination_permission',
    'an owner can let this user see and write all rows: CREATE POLICY cdsync ON "s"."people" TO "u" USING (true);',
  ]);
});

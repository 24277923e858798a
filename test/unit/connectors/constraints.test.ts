import { describe, expect, it } from 'vitest';
import { mysqlError } from '../../../connectors/mysql/errors.js';
import { postgresError } from '../../../connectors/postgres/errors.js';

const rights = { user: 'u', database: 'd', schema: 's' };
const theirs = { message: 'duplicate key: (email)=(ann@example.com)' };

describe('a constraint of the user that a row does not meet', () => {
  it.each([
    ['PostgreSQL, NOT NULL', postgresError({ ...theirs, code: '23502' }, rights), 'give the column a DEFAULT'],
    ['PostgreSQL, UNIQUE', postgresError({ ...theirs, code: '23505' }, rights), 'remove the constraint'],
    ['MySQL, NOT NULL', mysqlError({ ...theirs, errno: 1048 }, rights), 'give the column a DEFAULT'],
    ['MySQL, no default', mysqlError({ message: "Field 'x'", errno: 1364 }, rights), 'give the column a DEFAULT'],
    ['MySQL, UNIQUE', mysqlError({ ...theirs, errno: 1062 }, rights), 'remove the constraint'],
  ])('has a remedy, and no value is shown: %s', (_, error, remedy) => {
    expect(error).toMatchObject({ code: 'destination_refused', hint: expect.stringContaining(remedy) });
    expect(`${error.message} ${error.hint}`).not.toContain('ann@');
  });
});

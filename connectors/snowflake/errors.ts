import { CdsyncError, loginRefused, printable, serverErrors, valueRefused } from '../../src/sdk/index.js';
import type { SnowflakeFailure } from './sdk.js';

/** The user, role, database and schema that a grant is for, by their names in the configuration. */
export interface Rights {
  readonly user: string;
  readonly role: string | undefined;
  readonly database: string;
  readonly schema: string;
}

function grants({ role = '<role>', database, schema }: Rights): string {
  const place = `${database}.${schema}`;
  return [
    `GRANT USAGE ON DATABASE ${database} TO ROLE ${role};`,
    `GRANT USAGE, CREATE TABLE, CREATE STAGE ON SCHEMA ${place} TO ROLE ${role};`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${place} TO ROLE ${role};`,
  ].join(' ');
}

/** Temporary: cancelled, waited too long for a lock or in a queue, or unavailable for a while. */
const passing = new Set([
  ...['000604', '000625', '000630', '000603', '000605', '090073', '300002', '300005', '604', '625', '630'],
]);

function serverError(error: SnowflakeFailure, code: string, rights: Rights): CdsyncError {
  const errors = serverErrors('Snowflake', `${printable(error.message)} (${code})`, error);
  if (/^39\d{4}$/.test(code))
    return errors.login('check `account`, `username`, the key, token or password, and `role`');
  if (code === '000606')
    return errors.login('name a warehouse with `warehouse:`, and GRANT USAGE ON WAREHOUSE … to the role');
  if (code === '003001' || error.sqlState === '42501')
    return errors.permission(`an administrator can grant all that is needed: ${grants(rights)}`);
  if (code === '002003' || code === '002043')
    return errors.permission(`it does not exist, or the role may not see it: ${grants(rights)}`);
  // Errors of conversions and files: their messages quote values of rows.
  if (/^100\d{3}$/.test(code) || (error.sqlState ?? '').startsWith('22'))
    return valueRefused(`Snowflake refuses a value (${code})`, error);
  return passing.has(code) ? errors.passing() : errors.statement();
}

/** Any failure of snowflake-sdk as an error of cdsync. */
export function snowflakeError(thrown: unknown, rights: Rights): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const error = thrown as SnowflakeFailure;
  const code = String(error.code ?? '');
  // The driver's own codes: 401… and 402… concern the network, 405…, 406… and 407… a lost connection, 404… its options.
  if (/^40(1|2|5|6|7)\d{3}$/.test(code) || /^E[A-Z]+$/.test(code))
    return serverErrors('Snowflake', printable(error.message), thrown).gone();
  if (/^404\d{3}$/.test(code))
    return loginRefused(`snowflake-sdk refuses an option: ${printable(error.message)}`, { cause: thrown });
  return serverError(error, code, rights);
}

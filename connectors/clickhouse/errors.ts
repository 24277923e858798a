import { ClickHouseError } from '@clickhouse/client';
import {
  CdsyncError,
  connectionLost,
  loadRefused,
  loginRefused,
  serverErrors,
  untrusted,
  valueRefused,
} from '../../src/sdk/index.js';
import { identifier } from './types.js';

/** The user and the database that a grant is for. */
export interface Rights {
  readonly user: string;
  readonly database: string;
}

/** The rights that loads need. */
export const neededRights = ['SELECT', 'INSERT', 'ALTER', 'CREATE TABLE', 'DROP TABLE'];

function grant({ user, database }: Rights): string {
  return `GRANT ${neededRights.join(', ')} ON ${identifier(database)}.* TO ${identifier(user)};`;
}

/** The hint of a check that finds missing permissions. */
export function grantHint(rights: Rights): string {
  return `an administrator can grant it: ${grant(rights)}`;
}

const loginErrors = new Set(['192', '193', '194', '516', '746']);
const permissionErrors = new Set(['497', '164', '291']);
/** Temporary: timeouts, memory, disk space, connections, merges that lag behind, unavailable Keeper and replicas. */
const passingErrors = new Set([
  ...['3', '74', '75', '159', '160', '173', '198', '202', '203', '209', '210', '225', '236', '241', '242', '243'],
  ...['252', '254', '279', '285', '286', '289', '305', '319', '341', '364', '394', '415', '416', '439', '473', '517'],
  ...['519', '571', '667', '668', '669', '677', '999'],
]);
/** Errors about values; their messages quote them. */
const valueErrors = new Set([
  ...['6', '26', '27', '33', '38', '41', '53', '69', '70', '72', '117', '131', '190', '321', '349', '407', '434'],
]);

const goneCodes = new Set([...connectionLost, 'UND_ERR_SOCKET']);

function serverError(error: ClickHouseError, rights: Rights): CdsyncError {
  const { code, type = '' } = error;
  const message = `${error.message.trim().replace(/\.$/, '')} (${type})`;
  const errors = serverErrors('ClickHouse', message, error);
  if (loginErrors.has(code))
    return errors.login('check `username` and `password`, and from which hosts the user may log in');
  if (code === '81')
    return loginRefused(`ClickHouse: ${message}`, { hint: 'create the database, or correct `database`', cause: error });
  if (permissionErrors.has(code))
    return errors.permission(`an administrator can grant all that is needed: ${grant(rights)}`);
  if (valueErrors.has(code)) return valueRefused(`ClickHouse refuses a value (${type})`, error);
  return passingErrors.has(code) ? errors.passing() : errors.statement();
}

/** Any failure of ClickHouse as an error of cdsync. It keeps the server's message unless that quotes values of rows. */
export function clickhouseError(thrown: unknown, rights: Rights): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  if (thrown instanceof ClickHouseError) return serverError(thrown, rights);
  const { code = '', message } = thrown as { readonly code?: string; readonly message: string };
  const errors = serverErrors('ClickHouse', message, thrown);
  if (untrusted.test(code))
    return errors.encryption('for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file');
  if (goneCodes.has(code) || /timeout|socket hang up|aborted|closed/i.test(message)) return errors.gone();
  return loadRefused(`the response is not from a ClickHouse server: ${message}`, {
    hint: 'is `url` the HTTP interface, port 8123 or 8443?',
    cause: thrown,
  });
}

import {
  CdsyncError,
  connectionLost,
  type MissingRight,
  serverErrors,
  unavailable,
  untrusted,
  valueRefused,
} from '../../src/sdk/index.js';

/** An error of the server, as mysql2 passes it on. */
export interface ServerError {
  readonly code?: string;
  readonly errno?: number;
  readonly sqlState?: string;
  readonly message: string;
  readonly fatal?: boolean;
}

/** The user and the database that a grant is for. */
export interface Rights {
  /** As the server knows the user: `loader@%`. */
  readonly user: string;
  readonly database: string;
}

/** The privileges that loads need. */
export const needed = 'SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, CREATE TEMPORARY TABLES';

/** The statement that grants all permissions that cdsync needs. */
function grant({ user, database }: Rights): string {
  const at = user.lastIndexOf('@');
  const account = at < 0 ? [user] : [user.slice(0, at), user.slice(at + 1)];
  const to = account.map((part) => `'${part.replaceAll("'", "''")}'`).join('@');
  return `GRANT ${needed} ON \`${database.replaceAll('`', '``')}\`.* TO ${to};`;
}

/** The finding of a check for missing privileges. */
export function permissionLack(privileges: string, rights: Rights): MissingRight {
  return {
    message: `${rights.user} lacks ${privileges} on database ${rights.database}`,
    hint: `an administrator can grant it: ${grant(rights)}`,
  };
}

/** How an administrator allows LOAD DATA LOCAL. */
export const localInfile = 'SET GLOBAL local_infile = 1; or local_infile=1 under [mysqld] in its configuration';

/** By number, because MySQL and MariaDB give some of them different names. */
const loginErrors = new Set([1045, 1130, 1251, 1698, 1862, 1872, 3118, 4151]);
const permissionErrors = new Set([1044, 1142, 1143, 1227, 1370, 1410]);
const localInfileErrors = new Set([1148, 3948, 3950, 4166]);
/** Temporary: too many connections, lock timeouts, deadlocks, shutdown, memory, a server that is read-only for now. */
const passingErrors = new Set([
  1040, 1041, 1053, 1077, 1079, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1290, 1836, 1927, 3024, 3032, 4031,
]);
const fullErrors = new Set([1021, 1114]);

const goneCodes = new Set([...connectionLost, 'PROTOCOL_CONNECTION_LOST', 'PROTOCOL_SEQUENCE_TIMEOUT']);

const dataWords: Readonly<Record<number, string>> = {
  1048: 'a column that must have a value has none',
  1062: 'a unique index already has the value',
  1118: 'the row is too large: InnoDB takes about 8,000 bytes besides its long texts',
  1263: 'a column that must have a value has none',
  1264: 'a number is out of range',
  1265: 'the column cannot hold the value',
  1292: 'the column cannot hold the value',
  1301: 'a value would be longer than max_allowed_packet',
  1366: 'the column cannot hold the value',
  1406: 'a text is too long',
  1451: 'another table refers to the row',
  1452: 'a foreign key refers to nothing',
  3140: 'the server does not accept the JSON, such as a number beyond a double',
  3819: 'a check is not met',
  3157: 'JSON is nested deeper than the server accepts',
  4025: 'a check is not met',
  4038: 'JSON is nested deeper than the server accepts',
};

const withoutValue =
  'cdsync fills only its own columns: give the column a DEFAULT, or allow NULL; if it was renamed, rename it back';
const generated =
  'the column is generated there: change it back; or cdsync push --recreate drops the table and loads it';
const ofTheTable = 'the table may not ask for more than the source has: remove the constraint';

/** The remedy if the table asks for more than the source has. */
const remedies: Readonly<Record<number, string>> = {
  1048: withoutValue,
  1062: ofTheTable,
  1263: withoutValue,
  1364: withoutValue,
  1451: ofTheTable,
  1452: ofTheTable,
  1906: generated,
  3105: generated,
  3730: ofTheTable,
  3819: ofTheTable,
  4025: ofTheTable,
};

/** The server's number of an error; 0 if it is none of the server's. */
export function errnoOf(error: unknown): number {
  return ((error as Error).cause as ServerError | undefined)?.errno ?? 0;
}

/** Why a row was refused, without any of its values. */
export function dataReason(errno = 0): string {
  return dataWords[errno] ?? `a value was refused (error ${errno})`;
}

/** Whether the message of an error quotes values of rows. */
function quotesValues({ errno = 0, sqlState = '' }: ServerError): boolean {
  return errno in dataWords || /^2[23]/.test(sqlState);
}

/** Any failure of the server as an error of cdsync. It keeps the server's message unless that quotes values of rows. */
export function mysqlError(thrown: unknown, rights: Rights): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const { code = '', errno = 0, message, fatal = false } = thrown as ServerError;
  const errors = serverErrors('MySQL', message, thrown);
  if (errno === 1049) return errors.login('create the database, or correct the URL');
  if (loginErrors.has(errno))
    return errors.login('check user and password of the URL, and from which hosts the user may log in');
  if (permissionErrors.has(errno)) return errors.permission(`an administrator can grant it: ${grant(rights)}`);
  if (localInfileErrors.has(errno)) return errors.permission(`the server must allow LOAD DATA LOCAL: ${localInfile}`);
  if (quotesValues(thrown as ServerError))
    return valueRefused(`MySQL refuses a row: ${dataReason(errno)}`, thrown, remedies[errno]);
  if (fullErrors.has(errno)) return unavailable(`MySQL has no space left: ${message}`, { cause: thrown });
  if (/^HANDSHAKE_(SSL_ERROR|NO_SSL_SUPPORT)$/.test(code) || untrusted.test(code))
    return errors.encryption(
      'for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file; `tls: required` checks no certificate, `tls: off` does not encrypt',
    );
  if (fatal || goneCodes.has(code) || passingErrors.has(errno) || /closed state/.test(message)) return errors.gone();
  return errors.statement(remedies[errno]);
}

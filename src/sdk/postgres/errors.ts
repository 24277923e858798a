import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { postgresEncryptionHint } from '../encryption.js';
import { connectionLost, loadRefused, serverErrors, untrusted, valueRefused } from '../errors.js';

/** An error of the server, as pg passes it on. */
export interface ServerError {
  readonly code?: string;
  readonly message: string;
  /** For COPY: `COPY members, line 3, column email: "…"`. */
  readonly where?: string;
  readonly table?: string;
  readonly column?: string;
  readonly constraint?: string;
}

/** The product, and the user, database and schema that a grant is for, by their names in SQL. */
export interface Rights {
  readonly product: string;
  readonly user: string;
  readonly database: string;
  readonly schema: string;
}

function grant(message: string, { user, database, schema }: Rights): string {
  const to = `TO ${quoteIdentifier(user)}`;
  if (/temporary tables/.test(message)) return `GRANT TEMPORARY ON DATABASE ${quoteIdentifier(database)} ${to}`;
  if (/for database/.test(message)) return `GRANT CREATE ON DATABASE ${quoteIdentifier(database)} ${to}`;
  if (/for function/.test(message)) return `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog ${to}`;
  if (/for schema/.test(message)) return `GRANT USAGE, CREATE ON SCHEMA ${quoteIdentifier(schema)} ${to}`;
  const owned = /must be owner of (?:table|relation) (.*)$/.exec(message)?.[1];
  const qualified = (table: string) => `${quoteIdentifier(schema)}.${quoteIdentifier(table)}`;
  if (owned !== undefined) return `ALTER TABLE ${qualified(owned)} OWNER ${to}`;
  const table = /for (?:table|relation|view) (.*)$/.exec(message)?.[1];
  const on = table === undefined ? `ALL TABLES IN SCHEMA ${quoteIdentifier(schema)}` : qualified(table);
  return `GRANT SELECT, INSERT, UPDATE, DELETE ON ${on} ${to}`;
}

const goneCodes = new Set([...connectionLost, 'ERR_STREAM_PREMATURE_CLOSE']);

/** SQLSTATE classes and codes of temporary failures: connection, resources, deadlock, shutdown, lock timeout. */
const passing = /^(08|40|53|55P03|57P|58)/;

const noTls = /does not support SSL|establishing an SSL connection/;

const dataWords: Record<string, string> = {
  '22003': 'a number is out of range',
  '22021': 'a character cannot be stored',
  '22P05': 'a character cannot be stored in JSON',
  '22001': 'a text is too long',
  '23502': 'a column that must have a value has none',
  '23503': 'a foreign key refers to nothing',
  '23505': 'a unique constraint already has the value',
  '23514': 'a check constraint is not met',
  '54000': 'a row is too large',
};

const ofTheTable = 'the table may not ask for more than the source has: remove the constraint';

/** The remedy if the table asks for more than the source has. */
const remedies: Record<string, string> = {
  '23502':
    'cdsync fills only its own columns: give the column a DEFAULT, or allow NULL; if it was renamed, rename it back',
  '23503': ofTheTable,
  '23505': ofTheTable,
  '23514': ofTheTable,
};

const tooWide =
  'a row has at most 8,160 bytes besides long texts, which is some 1,000 numbers or 400 texts: leave columns out with `columns:` of the destination (drop: true)';

/** Why a row was refused, without any of its values. */
export function dataReason({ code = '', constraint }: ServerError): string {
  const words = dataWords[code] ?? `a value was refused (SQLSTATE ${code})`;
  return constraint === undefined ? words : `${words} (${constraint})`;
}

/** SQLSTATEs of a value that does not go into a column's type, or into a generated column. */
const misfits = new Set(['42804', '42846', '428C9']);

/** The remedy for a refused statement, if there is one. */
function statementRemedy(code: string, message: string): string | undefined {
  if (code === '2BP01')
    return 'views, foreign keys or other objects need it: drop them first, and make them again afterwards';
  if (misfits.has(code) || (code === '42883' && message.startsWith('operator')))
    return 'the column has another type there, or is generated: change it back; or cdsync push --recreate drops the table and loads it';
  if (code === '25006')
    return 'transactions are read-only there: name the primary server in the URL, or ALTER ROLE … SET default_transaction_read_only = off';
  if (code === '57014' && message.includes('statement timeout'))
    return 'give the user more time: ALTER ROLE … SET statement_timeout = 0';
  return undefined;
}

/** The statement by which an owner gives a missing permission. */
function permissionRemedy(message: string, rights: Rights): string {
  // Policies hide rows, and the right to the table is there.
  const secured = /row-level security policy for table "(.*)"$/.exec(message)?.[1];
  if (secured === undefined) return `an owner can grant it: ${grant(message, rights)};`;
  const table = `${quoteIdentifier(rights.schema)}.${quoteIdentifier(secured)}`;
  return `an owner can let this user see and write all rows: CREATE POLICY cdsync ON ${table} TO ${quoteIdentifier(rights.user)} USING (true);`;
}

/** Any failure of the server as an error of cdsync. It keeps the server's message unless that holds values of rows. */
export function postgresError(thrown: unknown, rights: Rights): CdsyncError {
  if (thrown instanceof CdsyncError) return thrown;
  const { code = '', message, column, table } = thrown as ServerError;
  const { product } = rights;
  const errors = serverErrors(product, message, thrown);
  if (code === '3D000') return errors.login('create the database, or correct the URL');
  if (code.startsWith('28')) return errors.login('check user and password of the URL');
  if (noTls.test(message) || untrusted.test(code)) return errors.encryption(postgresEncryptionHint);
  if (code === '42501') return errors.permission(permissionRemedy(message, rights));
  if (code === '54000' && message.startsWith('row is too big'))
    return loadRefused(`${product} cannot hold a row of the stream: ${message}`, { hint: tooWide, cause: thrown });
  if (/^(22|23|54)/.test(code)) {
    const where = [table && `table "${table}"`, column && `column "${column}"`].filter(Boolean).join(', ');
    const reason = dataReason(thrown as ServerError);
    return valueRefused(`${product} refuses a row: ${reason}${where && ` (${where})`}`, thrown, remedies[code]);
  }
  const isGone =
    goneCodes.has(code) || /terminated unexpectedly|not queryable|timeout expired|Connection ended/i.test(message);
  return isGone || passing.test(code) ? errors.gone() : errors.statement(statementRemedy(code, message));
}

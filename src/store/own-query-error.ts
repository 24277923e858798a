import { CdsyncError } from '../core/errors.js';
import { queryError, saidOf } from './duckdb-errors.js';

/** Messages about a text or a number that could not become another type: they quote it. */
const ofValue =
  /^Conversion Error: (Could not convert string|Could not cast value|invalid \w+ (field|value)|\w+ field value out of range|Type \w+ with value)/i;

/** The literals of a query: strings and numbers. */
function literalsOf(sql: string): string[] {
  const strings = [...sql.matchAll(/'((?:[^']|'')*)'/g)].map(([, text = '']) => text.replaceAll("''", "'"));
  const numbers = [...sql.matchAll(/\b\d[\d_.]*/g)].map(([text]) => text);
  return [...strings, ...numbers].sort((a, b) => b.length - a.length);
}

/** Whether a message about a value quotes nothing but literals of the query. */
function quotesOwnLiteral(message: string, sql: string): boolean {
  if (!ofValue.test(message)) return false;
  let rest = message;
  for (const literal of literalsOf(sql)) {
    rest = rest.replaceAll(`'${literal}'`, '').replaceAll(`"${literal}"`, '').replaceAll(`value ${literal} `, 'value ');
  }
  const left = rest.replace(/\b(U?INT|FLOAT|DECIMAL)\d+\b/g, '').replace(/\([A-Z]{4}-[A-Z]{2}(-[A-Z]{2})?.*?\)/g, '');
  return rest !== message && !/['"\d]/.test(left);
}

/** DuckDB's message, and below it the line of the query that it marks with a caret. */
function parted(said: string): { message: string; line: string | undefined } {
  const at = said.search(/\n+LINE \d+: /);
  if (at < 0) return { message: said, line: undefined };
  // A tab would be shown as two characters, and the caret would point beside its place.
  return { message: said.slice(0, at).trim(), line: said.slice(at).trim().replaceAll('\t', ' ') };
}

const hint = 'the tables: cdsync query "show tables"';

/**
 * The error for the author of a query on the command line. What DuckDB says of the query's own text is shown, with its literals and
 * the line that it marks; a message that quotes a stored value is not, unless values are asked for.
 */
export function ownQueryError(thrown: unknown, sql: string, showsValues: boolean): CdsyncError {
  const error = queryError(thrown, hint, 'configuration');
  if (error.code !== 'sql_failed') return error;
  const { cause } = error;
  const { message, line } = parted(saidOf(cause));
  // The general form leaves out messages about values, and says so.
  const [, hidden] = /^DuckDB refused the query( \(.*\))$/.exec(error.message) ?? [];
  const isShown = hidden === undefined || showsValues || quotesOwnLiteral(message, sql);
  return new CdsyncError(`DuckDB refused the query${isShown ? `: ${message}` : hidden?.replace('--verbose ', '')}`, {
    code: error.code,
    kind: error.kind,
    hint: line === undefined ? hint : `${line}\n${hint}`,
    cause,
    causeQuotesValues: true,
  });
}

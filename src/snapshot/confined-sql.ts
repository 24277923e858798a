import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api';
import { CdsyncError } from '../core/errors.js';
import { withoutLiterals } from '../sdk/duckdb/errors.js';
import { StatementType } from '../sdk/duckdb/node-api.js';

/** The statements of a confined query: reading, and those that prepare it (variables, macros, temporary tables). */
const allowedStatements: ReadonlySet<StatementType> = new Set([
  StatementType.SELECT,
  StatementType.EXPLAIN,
  StatementType.SET,
  StatementType.CREATE,
]);

/** Why statements of this kind are refused; undefined if they are not. */
function refusedStatement(type: StatementType): string | undefined {
  return allowedStatements.has(type) ? undefined : `a statement of type ${StatementType[type] ?? 'UNKNOWN'}`;
}

/** Table functions that only calculate, or show the contents of the published file. */
const allowedTableFunctions =
  'range generate_series unnest repeat repeat_row summary json_each json_tree query_table histogram histogram_values duckdb_columns ' +
  'duckdb_constraints duckdb_databases duckdb_dependencies duckdb_functions duckdb_keywords duckdb_schemas duckdb_settings duckdb_tables ' +
  'duckdb_types duckdb_variables duckdb_views icu_calendar_names pg_timezone_names pragma_database_size pragma_show pragma_storage_info ' +
  'pragma_table_info pragma_version table_info storage_info show database_size version collations';

/** Of the functions whose result depends on more than their arguments, those that change nothing. */
const allowedVolatile =
  'uuid uuidv4 uuidv7 gen_random_uuid random error stats current_connection_id current_query current_query_id current_transaction_id';

function listed(names: string): string {
  return names
    .split(' ')
    .map((name) => `'${name}'`)
    .join(', ');
}

/** DuckDB's own functions that a confined query may not call: all that are not allowed, also those of its later versions. */
async function refusedFunctions(connection: DuckDBConnection): Promise<readonly string[]> {
  const reader = await connection.runAndReadAll(
    `SELECT DISTINCT lower(function_name) AS name FROM system.main.duckdb_functions() WHERE internal AND (
       (function_type NOT IN ('scalar', 'aggregate', 'macro') AND function_name NOT IN (${listed(allowedTableFunctions)}))
       OR (function_type = 'scalar' AND coalesce(stability, 'VOLATILE') = 'VOLATILE' AND function_name NOT IN (${listed(allowedVolatile)})))
     EXCEPT SELECT lower(function_name) FROM system.main.duckdb_functions()
       WHERE internal AND (function_name IN (${listed(`${allowedTableFunctions} ${allowedVolatile}`)})
         OR (function_type IN ('scalar', 'aggregate', 'macro') AND stability <> 'VOLATILE'))`,
  );
  return reader.getRows().map(([name]) => String(name));
}

/** The text that DuckDB ignores between a name and its bracket, and the quote that ends a name. */
const between = /["\s\p{Z}\p{C}]/u;

/**
 * The first of these functions that a query may call; undefined if it calls none. It reads the text as it is, strings and comments
 * included, so that no way of writing hides a call from it.
 */
function calledFunction(sql: string, names: readonly string[]): string | undefined {
  if (/u&\s*"/i.test(sql)) return 'a name with escapes, U&"…"';
  if (names.length === 0) return undefined;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_$])(?:${names.join('|')})(?![\\p{L}\\p{N}_$])`, 'giu');
  for (const match of sql.matchAll(pattern)) {
    let at = match.index + match[0].length;
    while (at < sql.length && between.test(sql[at] as string)) at += 1;
    if (/^(\(|\/\*|--)/.test(sql.slice(at, at + 2))) return `the function ${match[0].toLowerCase()}`;
  }
  return undefined;
}

/** Statements whose rows are the purpose of a query. */
const queries: ReadonlySet<StatementType> = new Set([StatementType.SELECT, StatementType.EXPLAIN]);

/**
 * Runs the statements of a query, but the last.
 * @param isConfined whether only statements of the allowed kinds may run
 * @returns the last
 * @throws {CdsyncError} `sql_not_allowed`; `sql_failed` if one before the last has rows, which no reader would see
 */
export async function lastStatement(
  connection: DuckDBConnection,
  sql: string,
  isConfined: boolean,
): Promise<DuckDBPreparedStatement> {
  // Before anything is prepared: a table function may act as soon as it is bound.
  const called = isConfined ? calledFunction(sql, await refusedFunctions(connection)) : undefined;
  if (called !== undefined) throw notAllowedError(called);
  const statements = await connection.extractStatements(sql);
  let unseen: CdsyncError | undefined;
  for (let at = 0; ; at += 1) {
    const statement = await statements.prepare(at);
    const refused = isConfined ? refusedStatement(statement.statementType) : undefined;
    if (refused !== undefined) throw notAllowedError(refused);
    if (at === statements.count - 1) {
      if (unseen !== undefined) throw unseen;
      return statement;
    }
    if (queries.has(statement.statementType)) unseen ??= severalQueries(at + 1, statements.count);
    else if (unseen === undefined) await statement.run();
  }
}

function severalQueries(number: number, count: number): CdsyncError {
  return new CdsyncError(`statement ${number} of ${count} is a query too, and only the rows of the last are shown`, {
    code: 'sql_failed',
    kind: 'configuration',
    hint: 'run one query at a time; statements before it may prepare it: SET VARIABLE, CREATE TEMP TABLE, CREATE MACRO',
  });
}

/** DuckDB's words for what its settings forbid. */
const refusals = /Permission Error|configuration has been locked|in-memory database in read-only|in read-only mode/;

export function notAllowed(thrown: unknown): CdsyncError | undefined {
  if (thrown instanceof CdsyncError) return thrown;
  const said = thrown instanceof Error ? thrown.message : String(thrown);
  return refusals.test(said) ? notAllowedError(withoutLiterals(said.trim()), thrown) : undefined;
}

function notAllowedError(reason: string, cause?: unknown): CdsyncError {
  return new CdsyncError(`a query reads the published tables and nothing else; this one was refused: ${reason}`, {
    code: 'sql_not_allowed',
    hint: 'for SQL that you trust, --allow-files opens other files; the published tables stay read-only',
    cause,
    causeQuotesValues: true,
  });
}

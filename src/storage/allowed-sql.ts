import { type DuckDBConnection, StatementType } from '@duckdb/node-api';

/** What a confined query consists of: reading, and what prepares it (variables, macros, temporary tables). */
const allowedStatements: ReadonlySet<StatementType> = new Set([
  StatementType.SELECT,
  StatementType.EXPLAIN,
  StatementType.SET,
  StatementType.CREATE,
]);

/** Why statements of this kind are refused; undefined if they are not. */
export function refusedStatement(type: StatementType): string | undefined {
  return allowedStatements.has(type) ? undefined : `a statement of type ${StatementType[type] ?? 'UNKNOWN'}`;
}

/** Table functions that only calculate, or show what is in the published file. */
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
export async function refusedFunctions(connection: DuckDBConnection): Promise<readonly string[]> {
  const reader = await connection.runAndReadAll(
    `SELECT DISTINCT lower(function_name) AS name FROM duckdb_functions() WHERE internal AND (
       (function_type NOT IN ('scalar', 'aggregate', 'macro') AND function_name NOT IN (${listed(allowedTableFunctions)}))
       OR (function_type = 'scalar' AND coalesce(stability, 'VOLATILE') = 'VOLATILE' AND function_name NOT IN (${listed(allowedVolatile)})))
     EXCEPT SELECT lower(function_name) FROM duckdb_functions()
       WHERE internal AND (function_name IN (${listed(`${allowedTableFunctions} ${allowedVolatile}`)})
         OR (function_type IN ('scalar', 'aggregate', 'macro') AND stability <> 'VOLATILE'))`,
  );
  return reader.getRows().map(([name]) => String(name));
}

/** What DuckDB reads as nothing between a name and its bracket, and the quote that ends a name. */
const between = /["\s\p{Z}\p{C}]/u;

/**
 * The first of these functions that a query may call; undefined if it calls none. It reads the text as it is, strings and comments
 * included, so that no way of writing hides a call from it.
 */
export function calledFunction(sql: string, names: readonly string[]): string | undefined {
  if (/u&\s*"/i.test(sql)) return 'a name with escapes, U&"…"';
  if (names.length === 0) return undefined;
  const found = new RegExp(`(?<![\\p{L}\\p{N}_$])(?:${names.join('|')})(?![\\p{L}\\p{N}_$])`, 'giu');
  for (const match of sql.matchAll(found)) {
    let at = match.index + match[0].length;
    while (at < sql.length && between.test(sql[at] as string)) at += 1;
    if (/^(\(|\/\*|--)/.test(sql.slice(at, at + 2))) return `the function ${match[0].toLowerCase()}`;
  }
  return undefined;
}

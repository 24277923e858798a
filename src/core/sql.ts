/** A name, quoted as an identifier of DuckDB's SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * The name of a column that cdsync adds to rows of a stream while it works on them. No attribute can have it: the names of columns
 * have at most 63 bytes.
 */
export function internalName(name: string): string {
  return `_cdsync_${name}`.padEnd(64, '_');
}

/** A text as SQL: a literal, or an expression in brackets if it has U+0000, which SQL text cannot carry. */
export function sqlText(text: string): string {
  if (text.includes('\0')) return `(${text.split('\0').map(sqlText).join(' || chr(0) || ')})`;
  return `'${text.replaceAll("'", "''")}'`;
}

/** The path of one file for DuckDB's functions that read files: they take `*`, `?` and `[` for patterns of other names. */
export function filePattern(path: string): string {
  return path.replace(/[*?[]/g, '[$&]');
}

/** The same as a SQL literal. */
export function fileText(path: string): string {
  return sqlText(filePattern(path));
}

/** The same for several files, as a SQL list literal. */
export function fileTexts(paths: Iterable<string>): string {
  return `[${[...paths].map(fileText).join(', ')}]`;
}

/** A list of texts as a SQL list literal. */
export function sqlTexts(texts: Iterable<string>): string {
  return `[${[...texts].map(sqlText).join(', ')}]`;
}

/**
 * Begins each alias and helper column of a statement that has columns of data in scope. No column of data has such a name: DuckDB would
 * take `o."id"` for the member of a struct that is called `o`, and `to_json(r)` for a column `r`.
 */
export const ownPrefix = '_cdsync_';

/** The helper column with a row's key as text. */
export const keyColumn = `${ownPrefix}key`;

/** DuckDB's reader of Parquet adds it to the columns of a file, and refuses a file that has one of that name. */
const rowNumberColumn = 'file_row_number';

/** That column, and DuckDB's name for the position of a row in a table. */
export const rowNumberColumns: readonly string[] = [rowNumberColumn, 'rowid'];

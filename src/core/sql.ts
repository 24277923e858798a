/** A name, quoted as an identifier of DuckDB's SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text as a SQL literal. */
export function sqlText(text: string): string {
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

/** DuckDB's reader of Parquet adds it to the columns of a file, and refuses a file that has one of that name. */
export const rowNumberColumn = 'file_row_number';

/** What DuckDB says, of a statement or of its COMMIT, where something does not fit into the memory that it may use. */
export const outOfMemory =
  /^(TransactionContext Error: Failed to commit: )?(Out of Memory Error|failed to (pin|allocate))/;

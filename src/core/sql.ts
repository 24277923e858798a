/** A name, quoted as an identifier of DuckDB's SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text as a SQL literal. */
export function sqlText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A list of texts as a SQL list literal. */
export function sqlTexts(texts: Iterable<string>): string {
  return `[${[...texts].map(sqlText).join(', ')}]`;
}

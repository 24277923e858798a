import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { fileTexts, quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import type { ParquetFile } from '../storage/parquet.js';

/** Above this many bytes, DuckDB keeps a text in its own blocks instead of beside the others of its column. */
export const largeBytes = 4096;

/** Whether one of the texts in these files is large, also within a list or struct. */
export async function hasLargeTexts(
  session: Session,
  files: readonly ParquetFile[],
  columns: readonly StoredColumn[],
): Promise<boolean> {
  const lengths = ColumnSet.restore(columns).list.flatMap(({ name, type }) => {
    const column = quoteIdentifier(name);
    if (type === 'VARCHAR' || type === 'JSON') return `strlen(${column})`;
    return type.includes('VARCHAR') ? `strlen(${column}::VARCHAR)` : [];
  });
  if (files.length === 0 || lengths.length === 0) return false;
  const paths = fileTexts(files.map(({ path }) => path));
  const longest = `greatest(0, ${lengths.join(', ')})`;
  return (await session.number(`SELECT max(${longest}) FROM read_parquet(${paths})`)) > largeBytes;
}

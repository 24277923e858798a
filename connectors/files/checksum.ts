import { parseColumnType, type TableColumn } from '../../src/sdk/index.js';
import { identifier } from './types.js';

/** SQL for the text of a value, whose MD5 goes into the sum; undefined for types that are only counted. */
function checkedText({ name, type }: TableColumn): string | undefined {
  const column = identifier(name);
  const { kind } = parseColumnType(type);
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `${column}::VARCHAR`;
  if (kind === 'date') return `strftime(${column}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `epoch_us(${column})::VARCHAR` : undefined;
}

/** A query of one row: each column's number of values (`n0`, …), and the sum of their hashes (`s0`, …) as text, or NULL. */
export function checksumSql(rows: string, columns: readonly TableColumn[], live: boolean): string {
  const sums = columns.map((column, index) => {
    const text = checkedText(column);
    const sum =
      text === undefined ? 'NULL' : `coalesce(sum(('0x' || substr(md5(${text}), 1, 8))::UBIGINT), 0)::VARCHAR`;
    return `count(${identifier(column.name)}) AS n${index}, ${sum} AS s${index}`;
  });
  return `SELECT ${sums.join(', ')} FROM (${rows})${live ? ` WHERE ${identifier('_deleted_at')} IS NULL` : ''}`;
}

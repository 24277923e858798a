import { type CsvFormulas, csvLine } from './csv.js';
import { table } from './table.js';

type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/** A result as DuckDB's client gives it: names, and rows in chunks. */
export interface RowChunks {
  deduplicatedColumnNames(): string[];
  columnTypes(): readonly { toString(): string }[];
  yieldRowsJson(): AsyncIterableIterator<unknown[][]>;
}

export type RowFormat = 'table' | 'csv' | 'json';

function text(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** DuckDB's client gives 64-bit integers as text. Those that JSON readers can represent exactly become numbers. */
function exact(value: JsonValue | undefined, type: string): JsonValue {
  if (typeof value === 'string' && /^U?BIGINT$/.test(type) && Number.isSafeInteger(Number(value))) return Number(value);
  return value ?? null;
}

/** Writes rows as they arrive, and no faster than they are taken; a table waits for the last, to know its widths. */
export async function printRows(
  result: RowChunks,
  format: RowFormat,
  csvFormulas: CsvFormulas,
  write: (text: string) => Promise<void>,
): Promise<void> {
  const names = result.deduplicatedColumnNames();
  const types = result.columnTypes().map(String);
  if (format === 'csv') await write(`${csvLine(names, csvFormulas)}\n`);
  if (format === 'json') await write('[');
  const held: string[][] = [];
  let count = 0;
  for await (const chunk of result.yieldRowsJson()) {
    const lines: string[] = [];
    for (const row of chunk as JsonValue[][]) {
      if (format === 'csv') lines.push(`${csvLine(row.map(text), csvFormulas)}\n`);
      else if (format === 'table') held.push(row.map(text));
      else {
        const object = Object.fromEntries(names.map((name, column) => [name, exact(row[column], types[column] ?? '')]));
        lines.push(`${count === 0 ? '' : ',\n '}${JSON.stringify(object)}`);
      }
      count += 1;
    }
    if (lines.length > 0) await write(lines.join(''));
  }
  if (format === 'json') await write(']\n');
  if (format === 'table') await write(`${table(names, held).join('\n')}\n(${count} ${count === 1 ? 'row' : 'rows'})\n`);
}

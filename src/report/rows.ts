import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import { type CsvFormulas, csvLine } from './csv.js';
import { markdownLine, markdownRule } from './markdown.js';
import type { RowFormat } from './row-formats.js';
import { fittedTable } from './table.js';
import { jsonOf, textOf } from './values.js';

/** A result as DuckDB's client gives it: names, and rows in chunks. */
export interface RowChunks {
  deduplicatedColumnNames(): string[];
  columnTypes(): readonly DuckDBType[];
  yieldRows(): AsyncIterableIterator<DuckDBValue[][]>;
}

export interface RowOptions {
  readonly format: RowFormat;
  readonly csvFormulas: CsvFormulas;
  /** Cells of the terminal, which a table must fit; undefined if it goes to a file or a program, where nothing is cut. */
  readonly width?: number | undefined;
}

const numericType = /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)|BIGNUM)$/;

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** The table, and what of it is not shown. */
function tableText(titles: readonly string[], rows: readonly (readonly string[])[], options: RowOptions): string {
  const { lines, shown } = fittedTable(titles, rows, options.width);
  const left = titles.length - shown;
  const note = left === 0 ? '' : `; ${shown} of ${counted(titles.length, 'column')} fit here: --format csv has all`;
  return `${lines.join('\n')}\n(${counted(rows.length, 'row')}${note})\n`;
}

/** Writes rows as they arrive, and no faster than they are taken; a table waits for the last, to know its widths. */
export async function printRows(
  result: RowChunks,
  options: RowOptions,
  write: (text: string) => Promise<void>,
): Promise<void> {
  const { format, csvFormulas } = options;
  const names = result.deduplicatedColumnNames();
  const types = result.columnTypes();
  const texts = (row: readonly DuckDBValue[]) => row.map((value, column) => textOf(value, types[column] as DuckDBType));
  if (format === 'csv') await write(`${csvLine(names, csvFormulas)}\n`);
  if (format === 'json') await write('[');
  if (format === 'markdown')
    await write(`${markdownLine(names)}\n${markdownRule(types.map((type) => numericType.test(String(type))))}\n`);
  const held: string[][] = [];
  let count = 0;
  for await (const chunk of result.yieldRows()) {
    const lines: string[] = [];
    for (const row of chunk) {
      if (format === 'csv') lines.push(`${csvLine(texts(row), csvFormulas)}\n`);
      else if (format === 'markdown') lines.push(`${markdownLine(texts(row))}\n`);
      else if (format === 'table') held.push(texts(row));
      else {
        const object = names.map((name, column) => [name, jsonOf(row[column] ?? null, types[column] as DuckDBType)]);
        lines.push(`${count === 0 ? '' : ',\n '}${JSON.stringify(Object.fromEntries(object))}`);
      }
      count += 1;
    }
    if (lines.length > 0) await write(lines.join(''));
  }
  if (format === 'json') await write(']\n');
  if (format === 'table') await write(tableText(names, held, options));
}

import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import { visible } from '../core/printable.js';
import {
  DuckDBArrayValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  DuckDBUnionValue,
} from '../sdk/duckdb/node-api.js';
import type { PublishedRows } from '../snapshot/published.js';
import { type CsvFormulas, csvLine, type RowFormat } from './row-formats.js';
import { PrintedTable } from './table.js';

type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/** The shortest text that gives the same 32-bit number. */
function shortestFloat(value: number): number {
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Integers that a reader of JSON can represent exactly are numbers, the others text; so are what JSON has no number for. */
function numberOf(value: number | bigint, type: DuckDBType): JsonValue {
  if (typeof value === 'bigint') {
    return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : String(value);
  }
  if (!Number.isFinite(value)) return String(value);
  return type.typeId === DuckDBTypeId.FLOAT ? shortestFloat(value) : value;
}

/** The machine's time zone must not move a time: as everywhere in cdsync it is UTC. */
function utc(time: DuckDBTimestampTZValue): string {
  const text = new DuckDBTimestampValue(time.micros).toString();
  return time.isFinite ? `${text}+00` : text;
}

/**
 * A value of DuckDB as JSON. Lists, structs and maps become arrays and objects, a union an object with its tag. What JSON has no form
 * for (decimals, times, intervals, UUIDs, bits, bytes) is text, as DuckDB writes it.
 */
export function jsonOf(value: DuckDBValue, type: DuckDBType): JsonValue {
  if (value === null) return null;
  if (typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return numberOf(value, type);
  if (value instanceof DuckDBTimestampTZValue) return utc(value);
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) {
    const { valueType } = type as { valueType: DuckDBType };
    return value.items.map((item) => jsonOf(item, valueType));
  }
  if (value instanceof DuckDBStructValue) {
    const { entryNames, entryTypes } = type as { entryNames: readonly string[]; entryTypes: readonly DuckDBType[] };
    const fields = entryNames.map((name, index) => {
      return [name, jsonOf(value.entries[name] ?? null, entryTypes[index] as DuckDBType)] as const;
    });
    return Object.fromEntries(fields);
  }
  if (value instanceof DuckDBMapValue) {
    const { keyType, valueType } = type as { keyType: DuckDBType; valueType: DuckDBType };
    const entries = value.entries.map(({ key, value }) => [textOf(key, keyType), jsonOf(value, valueType)] as const);
    return Object.fromEntries(entries);
  }
  if (value instanceof DuckDBUnionValue) return { [value.tag]: memberOf(value, type) };
  return String(value);
}

function memberOf({ tag, value }: DuckDBUnionValue, type: DuckDBType): JsonValue {
  const { memberTags, memberTypes } = type as { memberTags: readonly string[]; memberTypes: readonly DuckDBType[] };
  return jsonOf(value, memberTypes[memberTags.indexOf(tag)] as DuckDBType);
}

/** A value as text in a cell: nested ones as JSON, a union as the value that it holds, NULL as nothing. */
function textOf(value: DuckDBValue, type: DuckDBType): string {
  const json = value instanceof DuckDBUnionValue ? memberOf(value, type) : jsonOf(value, type);
  if (json === null) return '';
  if (Object.is(json, -0)) return '-0.0';
  return typeof json === 'object' ? JSON.stringify(json) : String(json);
}

/** What Markdown would take for more than text. */
const marks = /[\\`*|<[\]~]/g;

function cell(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => visible(line).replace(marks, '\\$&'))
    .join('<br>');
}

/** One line of a Markdown table, without its end. */
function markdownLine(cells: readonly string[]): string {
  return `| ${cells.map(cell).join(' | ')} |`;
}

/** The line below the titles: numbers are aligned to the right. */
function markdownRule(numeric: readonly boolean[]): string {
  return `| ${numeric.map((right) => (right ? '---:' : '---')).join(' | ')} |`;
}

interface RowOptions {
  readonly format: Exclude<RowFormat, 'arrow'>;
  readonly csvFormulas: CsvFormulas;
  /** Cells of the terminal, which a table must fit; undefined if it goes to a file or a program, and nothing is cut. */
  readonly width?: number | undefined;
}

const numericType = /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)|BIGNUM)$/;

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** The values and columns that a table leaves out. */
function leftOut(columns: number, { shown, cut }: PrintedTable): string {
  const notes = [
    ...(shown === columns ? [] : [`${shown} of ${counted(columns, 'column')} fit here`]),
    ...(cut === 0 ? [] : [`${counted(cut, 'value')} cut`]),
  ];
  return notes.length === 0 ? '' : `; ${notes.join(', ')}: --format csv has all`;
}

function linesOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** Characters of lines that are written together. */
const charactersAtOnce = 1_000_000;

/** Writes rows as they arrive, and no faster than they are taken; a table waits for the first ones, to choose its widths. */
export async function printRows(
  result: PublishedRows,
  options: RowOptions,
  write: (text: string) => Promise<void>,
): Promise<void> {
  const { format, csvFormulas } = options;
  const { names, types } = result;
  const texts = (row: readonly DuckDBValue[]) => row.map((value, column) => textOf(value, types[column] as DuckDBType));
  if (format === 'csv') await write(`${csvLine(names, csvFormulas)}\n`);
  if (format === 'json') await write('[');
  if (format === 'markdown')
    await write(`${markdownLine(names)}\n${markdownRule(types.map((type) => numericType.test(String(type))))}\n`);
  const table = new PrintedTable(names, options.width);
  let count = 0;
  const lineOf = (row: readonly DuckDBValue[]): string => {
    if (format === 'table') return linesOf(table.add(texts(row)));
    if (format === 'csv') return `${csvLine(texts(row), csvFormulas)}\n`;
    if (format === 'markdown') return `${markdownLine(texts(row))}\n`;
    const object = names.map((name, column) => [name, jsonOf(row[column] ?? null, types[column] as DuckDBType)]);
    return `${count === 0 ? '' : ',\n '}${JSON.stringify(Object.fromEntries(object))}`;
  };
  for await (const chunk of result.chunks()) {
    let lines: string[] = [];
    let length = 0;
    for (const row of chunk) {
      const line = lineOf(row);
      lines.push(line);
      length += line.length;
      count += 1;
      if (length < charactersAtOnce) continue;
      await write(lines.join(''));
      [lines, length] = [[], 0];
    }
    if (length > 0) await write(lines.join(''));
  }
  if (format === 'json') await write(']\n');
  if (format !== 'table') return;
  await write(linesOf(table.end()));
  await write(`(${counted(count, 'row')}${leftOut(names.length, table)})\n`);
}

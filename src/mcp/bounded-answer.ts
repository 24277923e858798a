import type { DuckDBType, DuckDBValue } from '@duckdb/node-api';
import type { CdsyncError } from '../core/errors.js';
import { jsonOf } from '../output/rows.js';
import type { Published, PublishedRows } from '../snapshot/published.js';

/** What one call may use and return. No caller can raise it. */
export const limits = {
  rows: 200,
  /** Of the text of a result, as it is written in the message. */
  bytes: 256 * 1024,
  queryMs: 10_000,
  cellCharacters: 4000,
  errorCharacters: 2000,
} as const;

/** The rows of a query, as far as the limits let them through. */
interface BoundedRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly (readonly unknown[])[];
  /** Why there are no more rows than these; null if these are all. */
  readonly ended_early: string | null;
  /** Columns in which a long value was cut. */
  readonly cut: readonly string[];
}

/** A result is a text in a message of JSON: its quotes and line ends are escaped once more. */
function bytesInMessage(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(JSON.stringify(value)));
}

function cutText(text: string, characters: number): string {
  return `${text.slice(0, characters).replace(/[\uD800-\uDBFF]$/, '')}… (${text.length} characters)`;
}

interface Cell {
  readonly cell: unknown;
  readonly isCut: boolean;
}

/** A value of DuckDB as JSON, and whether it was cut: a long one becomes a text. */
function cellOf(value: DuckDBValue, type: DuckDBType, characters: number): Cell {
  if (typeof value === 'string' && value.length > characters) return { cell: cutText(value, characters), isCut: true };
  const cell = jsonOf(value, type);
  const text = cell === null || typeof cell !== 'object' ? cell : JSON.stringify(cell);
  const isCut = typeof text === 'string' && text.length > characters;
  return { cell: isCut ? cutText(text, characters) : cell, isCut };
}

/** Types whose values have few characters. DuckDB cuts those of all others before they are here. */
const shortTypes =
  /^(BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|DATE|TIME.*|UUID|INTERVAL)$/;
const isShort = (type: DuckDBType) => shortTypes.test(String(type));

/** Of a value that may be long: the value unless it is, else its first characters, and how many it has. */
function cutColumns(types: readonly DuckDBType[], characters: number): string {
  const columns = types.map((type, index) => {
    const [value, text] = [`c${index}`, `c${index}::VARCHAR`];
    if (isShort(type)) return value;
    return `CASE WHEN length(${text}) <= ${characters} THEN ${value} END, CASE WHEN length(${text}) > ${characters} THEN left(${text}, ${characters}) END, length(${text})`;
  });
  return columns.join(', ');
}

/** The cells of a row of {@link cutColumns}. */
function cutCells(row: readonly DuckDBValue[], types: readonly DuckDBType[], characters: number): Cell[] {
  let at = 0;
  return types.map((type) => {
    const value = row[at] ?? null;
    if (isShort(type)) {
      at += 1;
      return cellOf(value, type, characters);
    }
    const [, start, length] = row.slice(at, at + 3);
    at += 3;
    if (typeof start !== 'string') return cellOf(value, type, characters);
    return { cell: `${start}… (${length} characters)`, isCut: true };
  });
}

/** Takes rows until one of the limits; what follows is not read. */
export async function boundedRows(published: Published, sql: string): Promise<BoundedRows> {
  let characters: number = limits.cellCharacters;
  const { names, types, isShaped, chunks } = await published.rows(sql, (queryTypes) => {
    // A row of many columns is within the limit too.
    characters = Math.max(100, Math.min(characters, Math.floor(limits.bytes / 2 / queryTypes.length)));
    return { columns: cutColumns(queryTypes, characters), maxRows: limits.rows + 1 };
  });
  const columns = names.map((name, column) => ({ name, type: String(types[column]) }));
  const rows: unknown[][] = [];
  const cut = new Set<string>();
  const ended = (why: string | null): BoundedRows => ({ columns, rows, ended_early: why, cut: [...cut] });
  let bytes = bytesInMessage(ended(null)) + bytesInMessage(names);
  for await (const chunk of chunks())
    for (const row of chunk) {
      if (rows.length === limits.rows)
        return ended(`an answer has ${limits.rows} rows at most: aggregate, or use LIMIT`);
      const cells = isShaped
        ? cutCells(row, types, characters)
        : row.map((value, column) => cellOf(value, types[column] as DuckDBType, characters));
      const values = cells.map(({ cell }) => cell);
      bytes += bytesInMessage(values) + 1;
      if (bytes > limits.bytes)
        return ended(`an answer has ${limits.bytes / 1024} KiB at most: ask for fewer columns or rows`);
      rows.push(values);
      for (const [column, { isCut }] of cells.entries()) if (isCut) cut.add(names[column] as string);
    }
  return ended(null);
}

/** All rows of a query of ours, each an object: integers that JSON has exactly are numbers. */
export async function allRows({ names, types, chunks }: PublishedRows): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  for await (const chunk of chunks())
    for (const row of chunk) {
      const cells = names.map((name, at) => [name, jsonOf(row[at] ?? null, types[at] as DuckDBType)] as const);
      rows.push(Object.fromEntries(cells));
    }
  return rows;
}

/** The text of a result. One that is too long says so in place of itself. */
export function answerText(result: unknown): string {
  if (bytesInMessage(result) <= limits.bytes) return JSON.stringify(result);
  return JSON.stringify({ ended_early: `the answer has more than ${limits.bytes / 1024} KiB`, rows: [] });
}

/** Advice of the command line that no caller of a tool can take, and the words for a tool. */
const advice = [
  [': --show-values)', ')'],
  ['cdsync query "show tables"', 'see the tool streams'],
  ['for SQL that you trust, --allow-files opens other files; ', ''],
] as const;

/** An error for the person who runs the model: without stored values, as those of a query have none unless they may be shown. */
export function errorText({ code, message, hint }: CdsyncError): string {
  const said = `${code}: ${message}${hint === undefined ? '' : `\n${hint}`}`;
  const text = advice.reduce((text, [from, to]) => text.replace(from, to), said);
  return text.length > limits.errorCharacters ? cutText(text, limits.errorCharacters) : text;
}

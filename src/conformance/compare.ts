import type { DuckDBConnection } from '@duckdb/node-api';
import { quoteIdentifier } from '../core/sql.js';
import { isNested, parseColumnType, streamType } from '../sdk/column-type.js';
import { openInstance } from '../sdk/duckdb/node-api.js';
import { jsonText } from '../sdk/json-text.js';
import type { ComparedRow } from './harness.js';

/** SQL that returns the rows of a query in the form that the suite compares: every value as text. */
function comparedSql(columns: readonly { readonly name: string; readonly type: string }[], sql: string): string {
  const texts = columns.map(({ name, type }) => {
    const value = quoteIdentifier(name);
    const columnType = parseColumnType(type);
    const { kind } = columnType;
    if (kind === 'timestamp') return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
    if (kind === 'date') return `strftime(${value}, '%Y-%m-%d')`;
    if (kind === 'double')
      return `CASE WHEN ${value} = 0 AND signbit(${value}) THEN '-0' ELSE to_json(${value})::VARCHAR END`;
    if (isNested(columnType)) return jsonText(`(${value})::${streamType(type)}`, columnType);
    return `${value}::VARCHAR`;
  });
  return `SELECT ${texts.join(', ')} FROM (${sql})`;
}

/** Runs `work` on a DuckDB in memory. */
export async function inMemory<T>(work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
  const instance = await openInstance(':memory:', { threads: '2', temp_directory: '' });
  const connection = await instance.connect();
  try {
    await connection.run("SET TimeZone = 'UTC'");
    return await work(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The rows of a query, as {@link ComparedRow}s. */
export async function selectCompared(connection: DuckDBConnection, sql: string): Promise<ComparedRow[]> {
  const described = (await connection.runAndReadAll(`DESCRIBE ${sql}`)).getRowObjects();
  const columns = described.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }));
  const rows = (await connection.runAndReadAll(comparedSql(columns, sql))).getRows();
  return rows.map((values) => {
    const texts = values.map((value) => (value === null ? null : String(value)));
    return new Map(columns.map(({ name }, index) => [name, texts[index] ?? null]));
  });
}

/** The same for a query that reads only files. */
export function comparedRows(sql: string): Promise<ComparedRow[]> {
  return inMemory((connection) => selectCompared(connection, sql));
}

/** Whether two numbers, given as text, have the same value; integers are compared digit for digit. */
function sameNumber(a: string, b: string): boolean {
  if (a === b) return true;
  const integer = /^-?\d+$/;
  if (integer.test(a) && integer.test(b)) return BigInt(a) === BigInt(b);
  return Number(a) === Number(b);
}

/** Parses JSON, but keeps its numbers as text. */
function parsed(text: string): unknown {
  return JSON.parse(
    text.replace(/("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)/g, (_, quoted, number) =>
      quoted === undefined ? JSON.stringify({ $number: number }) : (quoted as string),
    ),
  );
}

function isNumber(value: unknown): value is { $number: string } {
  return typeof value === 'object' && value !== null && '$number' in value;
}

function sameParsed(a: unknown, b: unknown): boolean {
  if (isNumber(a) && isNumber(b)) return sameNumber(a.$number, b.$number);
  // Where no part of a value can be JSON, it is text.
  if (typeof a === 'object' && typeof b === 'string' && /^[[{]/.test(b)) return sameParsed(a, parsed(b));
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, i) => sameParsed(item, b[i]));
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const [x, y] = [a as Record<string, unknown>, b as Record<string, unknown>];
  // A NULL member equals a missing one.
  const keys = new Set([...Object.keys(x), ...Object.keys(y)]);
  return [...keys].every((key) => sameParsed(x[key] ?? null, y[key] ?? null));
}

/** Whether two JSON texts have the same value; integers are compared digit for digit, other numbers as doubles. */
function sameJson(a: string, b: string): boolean {
  try {
    return sameParsed(parsed(a), parsed(b));
  } catch {
    return false;
  }
}

/** Whether two values of {@link ComparedRow}s are the same. */
function sameValue(a: string | null | undefined, b: string | null | undefined): boolean {
  if ((a ?? null) === (b ?? null)) return true;
  if (a == null || b == null) return false;
  const number = /^-?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?$/;
  if (number.test(a) && number.test(b)) return sameNumber(a, b) && /^-0*(\.0*)?$/.test(a) === /^-0*(\.0*)?$/.test(b);
  return /^[[{"]/.test(a) && sameJson(a, b);
}

/** The first 10 differences between expected and found rows, a line each; `key` identifies a row. */
export function differences(
  expected: readonly ComparedRow[],
  actualRows: readonly ComparedRow[],
  key: readonly string[] = ['id'],
): string[] {
  const keyOf = (row: ComparedRow) => JSON.stringify(key.map((name) => row.get(name)));
  const actual = new Map(actualRows.map((row) => [keyOf(row), row]));
  const lines: string[] = [];
  if (actualRows.length !== expected.length) lines.push(`${actualRows.length} rows, not ${expected.length}`);
  for (const row of expected) {
    const other = actual.get(keyOf(row));
    actual.delete(keyOf(row));
    if (other === undefined) {
      lines.push(`${keyOf(row)} is missing`);
      continue;
    }
    for (const [name, value] of row) {
      if (!sameValue(value, other.get(name)))
        lines.push(`${keyOf(row)}: ${name} is ${JSON.stringify(other.get(name))}, not ${JSON.stringify(value)}`);
    }
  }
  for (const surplus of actual.keys()) lines.push(`${surplus} should not be there`);
  return lines.slice(0, 10);
}

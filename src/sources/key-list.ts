import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { fileText, sqlText } from '../core/sql.js';
import { queryError } from '../sdk/duckdb/errors.js';
import type { Row, Session } from '../storage/duckdb.js';
import type { SourceContext } from './declaration.js';
import type { KeyListOptions } from './key-options.js';

/** Names that the column of ids may have: in a CSV file, and in any table of several columns. */
const idColumns = ['id', 'profile_id'];

const maxHeader = 4096;

function broken(path: string, line: number | undefined, what: string): CdsyncError {
  return new CdsyncError(`${path}${line === undefined ? '' : `:${line}`}: ${what}`, {
    code: 'key_file_invalid',
    hint: 'correct the file and run again; no record was asked for',
  });
}

async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    throw new CdsyncError(`${path} cannot be read (${cause.code ?? 'error'})`, {
      code: 'key_file_unreadable',
      hint: 'relative paths are relative to the YAML file',
      cause,
    });
  });
  if (!isUtf8(bytes)) {
    const lines = bytes.toString('latin1').split('\n');
    const line = lines.findIndex((line) => !isUtf8(Buffer.from(line, 'latin1')));
    throw broken(path, line + 1, 'this line is not UTF-8');
  }
  return bytes.toString('utf8').replace(/^\uFEFF/, '');
}

async function textLines(path: string): Promise<string[]> {
  const lines = (await readText(path)).split('\n').map((line) => line.replace(/^[ \t]+|(?<![ \t\r])[ \t\r]+$/g, ''));
  return lines.filter((line) => line !== '');
}

async function jsonLines(path: string): Promise<Row[]> {
  return (await readText(path)).split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      throw broken(path, index + 1, 'this line is no JSON');
    }
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isMap) throw broken(path, index + 1, 'this line is no JSON object');
    const isUnicode = Object.values(value as Row).every((text) => typeof text !== 'string' || text.isWellFormed());
    if (!isUnicode) throw broken(path, index + 1, 'this line has half of a surrogate pair');
    return [value as Row];
  });
}

/** The rows of a file as a table. An error leaves out DuckDB's message, which would quote the line. */
async function tableRows(session: Session, path: string, sql: string): Promise<Row[]> {
  try {
    return await session.rows(sql);
  } catch (error) {
    const cause = String((error as Error).cause ?? '');
    const line = /Line:\s*(\d+)/i.exec(cause)?.[1];
    throw broken(path, line === undefined ? undefined : Number(line), 'the file cannot be read as a table');
  }
}

async function fileRows(session: Session, path: string, { isOfIds = false } = {}): Promise<Row[]> {
  const kind = extname(path).toLowerCase();
  if (kind === '.jsonl' || kind === '.ndjson') return jsonLines(path);
  if (kind === '.parquet') return tableRows(session, path, `SELECT * FROM read_parquet(${fileText(path)})`);
  const columns = headerOf(path, await readText(path));
  // The name of the only column may be the first id.
  if (isOfIds && !columns.some(isIdColumn))
    throw broken(path, 1, `the first line names no column ${idColumns.join(' or ')}`);
  // DuckDB guesses nothing about the file: a wrong guess may leave out lines.
  return tableRows(
    session,
    path,
    `SELECT * FROM read_csv(${fileText(path)}, header = true, auto_detect = false, columns = {${columns
      .map((name) => `${sqlText(name)}: 'VARCHAR'`)
      .join(', ')}}, delim = ',', quote = '"', escape = '"')`,
  );
}

/** Names of the columns by the first line of a CSV file. */
function headerOf(path: string, text: string): string[] {
  const [line = ''] = text.split(/\r?\n/, 1);
  if (line.length > maxHeader) throw broken(path, 1, `a header of more than ${maxHeader} characters`);
  const cells = line.match(/(?<=^|,)("(?:[^"]|"")*"|[^,]*)(?=,|$)/g) ?? [];
  const names = cells.map((cell) => cell.replace(/^"|"$/g, '').replaceAll('""', '"').trim());
  if (names.some((name) => name === '')) throw broken(path, 1, 'a column has no name');
  if (new Set(names).size < names.length) throw broken(path, 1, 'two columns have one name');
  // Of a file without a header the first key would be lost, and of one with other separators every line would be one key.
  if (/[;\t|]/.test(names[0] ?? '')) throw broken(path, 1, 'columns are separated by commas, not by ; or tabs');
  if (!names.every((name) => /^\p{L}[\p{L}\p{N}_. -]*$/u.test(name)))
    throw broken(path, 1, 'this is no header: the first line names the columns');
  return names;
}

async function queryRows(session: Session, sql: string): Promise<Row[]> {
  try {
    return await session.rows(sql);
  } catch (error) {
    throw queryError(
      error,
      'it sees the streams of its job by their names, and files with paths relative to the YAML file',
    );
  }
}

/** A value as the text that is asked for. @throws {CdsyncError} `key_file_invalid` if another value has the same text */
function keyText(value: unknown, place: string, number: number): string {
  const isObject =
    typeof value === 'object' &&
    value !== null &&
    [Object.prototype, Array.prototype].includes(Object.getPrototypeOf(value));
  const isInexact = typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value);
  if (!isObject && !isInexact) return String(value);
  throw new CdsyncError(
    `${place}: row ${number} has ${isObject ? 'a list or an object' : 'an inexact number'} as a key`,
    {
      code: 'key_file_invalid',
      hint: 'write keys as text; no record was asked for',
    },
  );
}

function idOf(row: Row, column: string, place: string, number: number): string {
  const value = row[column];
  if (value !== null && value !== undefined && value !== '') return keyText(value, place, number);
  throw new CdsyncError(`${place}: row ${number} has no ${column}`, {
    code: 'key_missing',
    hint: 'leave such rows out',
  });
}

function isIdColumn(name: string): boolean {
  return idColumns.includes(name.toLowerCase());
}

function idsOf(rows: readonly Row[], place: string): string[] {
  const [first] = rows;
  if (first === undefined) return [];
  const names = Object.keys(first);
  const column = names.find(isIdColumn) ?? (names.length === 1 ? names[0] : undefined);
  if (column === undefined) {
    throw new CdsyncError(`${place}: which of the columns ${names.join(', ')} holds the ids?`, {
      code: 'key_file_invalid',
      hint: `call it ${idColumns.join(' or ')}, or leave out the other columns`,
    });
  }
  return rows.map((row, index) => idOf(row, column, place, index + 1));
}

function keysOf(rows: readonly Row[], place: string): Record<string, string>[] {
  return rows.map((row, index) => {
    const entries = Object.entries(row).filter(([, value]) => value !== null && value !== undefined && value !== '');
    if (entries.length > 0)
      return Object.fromEntries(entries.map(([name, value]) => [name, keyText(value, place, index + 1)]));
    throw new CdsyncError(`${place}: row ${index + 1} has no key at all`, {
      code: 'key_missing',
      hint: 'leave such rows out',
    });
  });
}

/** A file without a key is rather a job that failed before this one than a wish for no rows. */
function empty(path: string, what: 'ids' | 'keys'): CdsyncError {
  return new CdsyncError(`${path} has no ${what}`, {
    code: 'key_file_invalid',
    hint: 'if that may be, set `guards: { min_rows: 0 }` for the stream',
  });
}

type KeyContext = Pick<SourceContext, 'session' | 'mayBeEmpty'>;

function distinct<K>(keys: readonly K[]): K[] {
  return [...new Map(keys.map((key) => [JSON.stringify(key), key])).values()];
}

/**
 * The ids that a stream asks for, each once, in their order.
 * @throws {CdsyncError} `key_file_unreadable`, `key_file_invalid`, `key_missing`, with file and line
 */
export async function readIds({ session, mayBeEmpty }: KeyContext, list: KeyListOptions<string>): Promise<string[]> {
  if (!('file' in list || 'sql' in list)) return distinct(list as readonly string[]);
  if (list.sql !== undefined) return distinct(idsOf(await queryRows(session, list.sql), 'the query of ids'));
  const path = String(list.file);
  const isTable = ['.csv', '.parquet', '.jsonl', '.ndjson'].includes(extname(path).toLowerCase());
  const rows = isTable ? await fileRows(session, path, { isOfIds: true }) : undefined;
  const texts = rows === undefined ? await textLines(path) : idsOf(rows, basename(path));
  if (texts.length === 0 && !mayBeEmpty) throw empty(path, 'ids');
  return distinct(texts);
}

/**
 * The identity keys that a stream looks up, each map once, in their order.
 * @throws {CdsyncError} `key_file_unreadable`, `key_file_invalid`, `key_missing`, with file and line
 */
export async function readIdentityKeys(
  { session, mayBeEmpty }: KeyContext,
  list: KeyListOptions<Readonly<Record<string, string>>>,
): Promise<Readonly<Record<string, string>>[]> {
  if (!('file' in list || 'sql' in list)) return distinct(list as readonly Record<string, string>[]);
  if (list.sql !== undefined) return distinct(keysOf(await queryRows(session, list.sql), 'the query of keys'));
  const path = String(list.file);
  const keys = keysOf(await fileRows(session, path), basename(path));
  if (keys.length === 0 && !mayBeEmpty) throw empty(path, 'keys');
  return distinct(keys);
}

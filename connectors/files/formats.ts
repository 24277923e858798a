import { isNested, parseColumnType, type TableColumn } from '../../src/sdk/index.js';
import type { Format } from './manifest.js';
import { identifier } from './types.js';

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A file on this machine, with the values of the partition columns, which the file itself lacks. */
export interface LocalFile {
  readonly path: string;
  readonly partition?: Readonly<Record<string, string | null>> | undefined;
}

export interface ReadTask {
  readonly files: readonly LocalFile[];
  readonly format: Format;
  /** The columns to read, with the types to read them as. */
  readonly columns: readonly TableColumn[];
  readonly partitionBy: readonly string[];
}

/** In bytes; DuckDB allocates buffers of this size. */
const longestRow = 16 * 1024 * 1024;
const fileColumn = '_cdsync_file';

const csv = `HEADER true, DELIMITER ',', QUOTE '"', ESCAPE '"', NULLSTR ''`;

const copyOptions: Readonly<Record<Format, string>> = {
  parquet: 'FORMAT parquet, COMPRESSION zstd',
  // Empty text is written in quotes, NULL without.
  csv: `FORMAT csv, ${csv}`,
  jsonl: 'FORMAT json, ARRAY false',
};

function isoText(column: string): string {
  // For years before 1 no ISO 8601 form exists that every reader accepts.
  return `CASE WHEN ${column} >= '0001-01-01'::TIMESTAMPTZ THEN strftime(${column}, '%Y-%m-%dT%H:%M:%S.%fZ') ELSE ${column}::VARCHAR END`;
}

function written({ name, type }: TableColumn, format: Format): string {
  const column = identifier(name);
  const parsed = parseColumnType(type);
  if (format === 'parquet') return column;
  if (parsed.kind === 'timestamp') return `${isoText(column)} AS ${column}`;
  // JSON has no NaN and no infinity: they become NULL.
  if (format === 'jsonl')
    return parsed.kind === 'double' ? `CASE WHEN isfinite(${column}) THEN ${column} END AS ${column}` : column;
  if (isNested(parsed)) return `CASE WHEN ${column} IS NOT NULL THEN to_json(${column})::VARCHAR END AS ${column}`;
  return parsed.kind === 'json' ? `${column}::VARCHAR AS ${column}` : column;
}

/** SQL that writes rows with these columns into a file. */
export function writeSql(rows: string, columns: readonly TableColumn[], format: Format, path: string): string {
  const selected = columns.map((column) => written(column, format)).join(', ');
  return `COPY (SELECT ${selected} FROM ${rows}) TO ${literal(path)} (${copyOptions[format]})`;
}

function sourceOf({ files, format, columns, partitionBy }: ReadTask): string {
  const paths = `[${files.map(({ path }) => literal(path)).join(', ')}]`;
  const own = columns.filter(({ name }) => !partitionBy.includes(name));
  if (format === 'parquet')
    return `read_parquet(${paths}, union_by_name = true, hive_partitioning = false, filename = '${fileColumn}')`;
  if (format === 'jsonl') {
    const types = own.map(({ name, type }) => `${literal(name)}: ${literal(type)}`).join(', ');
    return `read_json(${paths}, format = 'newline_delimited', columns = {${types}}, hive_partitioning = false,
      maximum_object_size = ${longestRow}, filename = '${fileColumn}')`;
  }
  return `read_csv(${paths}, header = true, all_varchar = true, union_by_name = true, delim = ',', quote = '"', escape = '"',
    nullstr = '', allow_quoted_nulls = false, comment = '', skip = 0, parallel = false, hive_partitioning = false,
    max_line_size = ${longestRow}, buffer_size = ${2 * longestRow}, filename = '${fileColumn}')`;
}

/** SQL for a table of each file's path with its values of the partition columns. */
function partitionsOf({ files, partitionBy }: ReadTask): string {
  const rows = files.map(({ path, partition }) => {
    const values = partitionBy.map((name) => {
      const value = partition?.[name] ?? null;
      return value === null ? 'NULL::VARCHAR' : literal(value);
    });
    return `(${[literal(path), ...values].join(', ')})`;
  });
  const names = [fileColumn, ...partitionBy].map(identifier).join(', ');
  return `(VALUES ${rows.join(', ')}) AS parts(${names})`;
}

function typed({ name, type }: TableColumn, format: Format): string {
  const column = identifier(name);
  const asJson = format === 'csv' && isNested(parseColumnType(type));
  return `${asJson ? `${column}::JSON` : column}::${type} AS ${column}`;
}

/** A query that returns these columns and no rows. */
export function nothingSql(columns: readonly TableColumn[]): string {
  return `SELECT ${columns.map(({ name, type }) => `NULL::${type} AS ${identifier(name)}`).join(', ')} WHERE false`;
}

/** All columns but those of the partition; a file without rows has those too. */
function ownColumns(partitionBy: readonly string[]): string {
  return `COLUMNS(lambda c: NOT list_contains([${partitionBy.map(literal).join(', ')}], c))`;
}

/** A query that reads the rows of files. A column that a file lacks is NULL. */
export function readSql(task: ReadTask): string {
  const { files, format, columns, partitionBy } = task;
  if (files.length === 0) return nothingSql(columns);
  const none = nothingSql(format === 'csv' ? columns.map(({ name }) => ({ name, type: 'VARCHAR' })) : columns);
  const joined =
    partitionBy.length === 0
      ? `SELECT * EXCLUDE (${fileColumn}) FROM ${sourceOf(task)}`
      : `SELECT f.* EXCLUDE (${fileColumn}), parts.* EXCLUDE (${fileColumn}) FROM (SELECT ${ownColumns(partitionBy)} FROM ${sourceOf(task)}) AS f
         JOIN ${partitionsOf(task)} USING (${fileColumn})`;
  return `SELECT ${columns.map((column) => typed(column, format)).join(', ')} FROM (${none} UNION ALL BY NAME ${joined})`;
}

/** The folders of a partition, in Hive's form: `country=DE/`. */
export function partitionPath(partition: Readonly<Record<string, string | null>>): string {
  return Object.entries(partition)
    .map(([name, value]) => `${hiveText(name)}=${value === null ? '__HIVE_DEFAULT_PARTITION__' : hiveText(value)}/`)
    .join('');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are among those to escape.
const difficult = /[\x00-\x1f\x7f"#%'*/:=?\\{}[\]^]/g;

function hiveText(text: string): string {
  return text.replace(difficult, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

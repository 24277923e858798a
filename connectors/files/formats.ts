import {
  canonicalText,
  escapeCsvFormula,
  escapeCsvFormulaSql,
  filePattern,
  freeAlias,
  isNested,
  jsonText,
  objectText,
  parseColumnType,
  quoteIdentifier,
  type SqlDialect,
  sqlText,
  type TableColumn,
  unescapeCsvFormulaSql,
} from '../../src/sdk/index.js';
import { ExactJson, needsExactJson } from './exact-json.js';
import type { Format, Layout } from './manifest.js';

/** A file on this machine, with the values of the partition columns, which the file itself lacks. */
export interface LocalFile {
  readonly path: string;
  readonly partition?: Readonly<Record<string, string | null>> | undefined;
}

export interface ReadTask {
  readonly files: readonly LocalFile[];
  readonly layout: Layout;
  /** The columns to read, with the types to read them as. */
  readonly columns: readonly TableColumn[];
}

/** In bytes; DuckDB allocates buffers of this size. */
const maxRowBytes = 16 * 1024 * 1024;

/** Names that no column of the rows has: DuckDB takes a column for the table of the same name. */
function ownNames({ columns, layout }: ReadTask): { readonly file: string; readonly f: string; readonly p: string } {
  const names = new Set(
    columns.flatMap(({ name }) => [name, nameInFile(name, layout)]).map((name) => name.toLowerCase()),
  );
  return { file: freeAlias('_cdsync_file', names), f: freeAlias('f', names), p: freeAlias('p', names) };
}

const csv = `HEADER true, DELIMITER ',', QUOTE '"', ESCAPE '"', NULLSTR ''`;

const copyOptions: Readonly<Record<Exclude<Format, 'jsonl'>, string>> = {
  parquet: 'FORMAT parquet, COMPRESSION zstd',
  // Empty text is written in quotes, NULL without.
  csv: `FORMAT csv, ${csv}`,
};

/** One column of texts, as they are. */
const linesOptions = String.raw`FORMAT csv, HEADER false, DELIMITER '\x01', QUOTE '', ESCAPE ''`;

function isoText(column: string): string {
  // For years before 1 no ISO 8601 form exists that every reader accepts.
  return `CASE WHEN ${column} >= '0001-01-01'::TIMESTAMPTZ THEN strftime(${column}, '%Y-%m-%dT%H:%M:%S.%fZ') ELSE ${column}::VARCHAR END`;
}

/** Whether text is escaped, so that spreadsheet programs run no formula. */
function escapes({ format, csv_formulas }: Layout): boolean {
  return format === 'csv' && csv_formulas === 'escape';
}

/** A column's name as the files have it: it is the first cell of its column. */
function nameInFile(name: string, layout: Layout): string {
  return escapes(layout) ? escapeCsvFormula(name) : name;
}

function written({ name, type }: TableColumn, layout: Layout): string {
  const { format } = layout;
  const column = quoteIdentifier(name);
  const parsed = parseColumnType(type);
  if (format === 'parquet') return column;
  if (parsed.kind === 'timestamp') return `${isoText(column)} AS ${quoteIdentifier(nameInFile(name, layout))}`;
  const as = quoteIdentifier(nameInFile(name, layout));
  if (isNested(parsed)) return `${jsonText(column, parsed)} AS ${as}`;
  if (parsed.kind === 'json') return `${column}::VARCHAR AS ${as}`;
  return `${parsed.kind === 'text' && escapes(layout) ? escapeCsvFormulaSql(column) : column} AS ${as}`;
}

/** SQL that writes rows with these columns into a file. */
export function writeSql(rows: string, columns: readonly TableColumn[], layout: Layout, path: string): string {
  if (layout.format === 'jsonl') {
    const members = columns.map(({ name, type: spelled }) => {
      const [value, type] = [quoteIdentifier(name), parseColumnType(spelled)];
      return type.kind === 'timestamp'
        ? { name, value: isoText(value), type: { kind: 'text' } as const }
        : { name, value, type };
    });
    return `COPY (SELECT ${objectText(members)} FROM ${rows}) TO ${sqlText(path)} (${linesOptions})`;
  }
  const selected = columns.map((column) => written(column, layout)).join(', ');
  return `COPY (SELECT ${selected} FROM ${rows}) TO ${sqlText(path)} (${copyOptions[layout.format]})`;
}

/** Whether lines of JSON are read as texts, because DuckDB's own reading would lose digits. */
function readsTexts({ layout, columns }: Pick<ReadTask, 'layout' | 'columns'>): boolean {
  return layout.format === 'jsonl' && columns.some(({ type }) => needsExactJson(parseColumnType(type)));
}

function isInJson(type: string): boolean {
  const parsed = parseColumnType(type);
  return isNested(parsed) || parsed.kind === 'json';
}

/** A table of lines of JSON: values with parts in their types, others as text. */
function exactLines(paths: string, file: string, columns: readonly TableColumn[]): string {
  const exact = new ExactJson();
  const structure = Object.fromEntries(columns.map(({ name, type }) => [name, isInJson(type) ? 'JSON' : 'VARCHAR']));
  const values = columns.map(({ name, type }) => {
    const marked = `(r).${quoteIdentifier(name)}`;
    const value = isInJson(type) ? exact.value(marked, parseColumnType(type), type) : exact.plain(marked);
    return `${value} AS ${quoteIdentifier(name)}`;
  });
  return `(SELECT ${[...values, quoteIdentifier(file)].join(', ')} FROM (SELECT ${quoteIdentifier(file)},
    from_json(${exact.marked('json')}, ${sqlText(JSON.stringify(structure))}) AS r
    FROM read_json_objects(${paths}, format = 'newline_delimited', maximum_object_size = ${maxRowBytes}, filename = '${file}')))`;
}

function sourceOf(task: ReadTask): string {
  const { files, layout, columns } = task;
  const { format, partition_by } = layout;
  const { file } = ownNames(task);
  const paths = `[${files.map(({ path }) => sqlText(filePattern(path))).join(', ')}]`;
  const storedColumns = columns.filter(({ name }) => !partition_by.includes(name));
  if (format === 'parquet')
    return `read_parquet(${paths}, union_by_name = true, hive_partitioning = false, filename = '${file}')`;
  if (readsTexts(task)) return exactLines(paths, file, storedColumns);
  if (format === 'jsonl') {
    const types = storedColumns.map(({ name, type }) => `${sqlText(name)}: ${sqlText(type)}`).join(', ');
    return `read_json(${paths}, format = 'newline_delimited', columns = {${types}}, hive_partitioning = false,
      maximum_object_size = ${maxRowBytes}, filename = '${file}')`;
  }
  return `read_csv(${paths}, header = true, all_varchar = true, union_by_name = true, delim = ',', quote = '"', escape = '"',
    nullstr = '', allow_quoted_nulls = false, comment = '', skip = 0, parallel = false, hive_partitioning = false,
    max_line_size = ${maxRowBytes}, buffer_size = ${2 * maxRowBytes}, filename = '${file}')`;
}

/** SQL for a table of each file's path with its values of the partition columns. */
function partitionsOf(task: ReadTask): string {
  const { files, layout } = task;
  const { file, p } = ownNames(task);
  const { partition_by: partitionBy } = layout;
  const rows = files.map(({ path, partition }) => {
    const values = partitionBy.map((name) => {
      const value = partition?.[name] ?? null;
      return value === null ? 'NULL::VARCHAR' : sqlText(value);
    });
    return `(${[sqlText(path), ...values].join(', ')})`;
  });
  const names = [file, ...partitionBy.map((name) => nameInFile(name, layout))].map(quoteIdentifier).join(', ');
  return `(VALUES ${rows.join(', ')}) AS ${p}(${names})`;
}

function typed({ name, type }: TableColumn, layout: Layout): string {
  const column = quoteIdentifier(nameInFile(name, layout));
  const parsed = parseColumnType(type);
  const asJson = layout.format === 'csv' && isNested(parsed);
  // The folder's name has the value of a partition column as it is.
  const isEscaped = escapes(layout) && parsed.kind === 'text' && !layout.partition_by.includes(name);
  const value = isEscaped ? unescapeCsvFormulaSql(column) : column;
  if (asJson && needsExactJson(parsed)) {
    const exact = new ExactJson();
    return `CASE WHEN ${value} IS NOT NULL THEN ${exact.value(exact.marked(value), parsed, type)} END AS ${quoteIdentifier(name)}`;
  }
  return `(${asJson ? `${value}::JSON` : value})::${type} AS ${quoteIdentifier(name)}`;
}

/** A query that returns these columns and no rows. */
function nothingSql(columns: readonly TableColumn[]): string {
  return `SELECT ${columns.map(({ name, type }) => `NULL::${type} AS ${quoteIdentifier(name)}`).join(', ')} WHERE false`;
}

/** All columns but those of the partition; a file without rows has those too. */
function ownColumns(partitionBy: readonly string[]): string {
  return `COLUMNS(lambda c: NOT list_contains([${partitionBy.map(sqlText).join(', ')}], c))`;
}

/** A query that reads the rows of files. A column that a file lacks is NULL. */
export function readSql(task: ReadTask): string {
  const { files, layout, columns } = task;
  const { format, partition_by: partitionBy } = layout;
  if (files.length === 0) return nothingSql(columns);
  const asText = columns.map(({ name }) => ({ name: nameInFile(name, layout), type: 'VARCHAR' }));
  const inParts = columns.map((column, index) => (isInJson(column.type) ? column : (asText[index] as TableColumn)));
  const none = nothingSql(format === 'csv' ? asText : readsTexts(task) ? inParts : columns);
  const { file, f, p } = ownNames(task);
  const inFile = partitionBy.map((name) => nameInFile(name, layout));
  const joined =
    partitionBy.length === 0
      ? `SELECT * EXCLUDE (${file}) FROM ${sourceOf(task)}`
      : `SELECT ${f}.* EXCLUDE (${file}), ${p}.* EXCLUDE (${file}) FROM (SELECT ${ownColumns(inFile)} FROM ${sourceOf(task)}) AS ${f}
         JOIN ${partitionsOf(task)} USING (${file})`;
  return `SELECT ${columns.map((column) => typed(column, layout)).join(', ')} FROM (${none} UNION ALL BY NAME ${joined})`;
}

/** Kinds whose values JSON cannot always hold: of NaN and of JSON's own null a line has `null`. */
const inexactInJson: ReadonlySet<string> = new Set(['double', 'json', 'list', 'struct']);

/** SQL of texts by which values are compared; none for those that files of the format may hold otherwise. */
export function canonicalIn(
  format: Format,
  bench: { readonly viewed: { readonly format: Format } | undefined },
): SqlDialect['canonical'] {
  return (column, kind) => {
    if (format === 'jsonl' && inexactInJson.has(kind.kind)) return undefined;
    return bench.viewed?.format === 'csv' && isNested(kind) ? column : canonicalText(column, kind);
  };
}

/** Columns as they are compared: the cell of a list or an object is its canonical text, which would take many times its size as a value. */
export function compared(columns: readonly TableColumn[], { format }: Layout): readonly TableColumn[] {
  if (format !== 'csv') return columns;
  return columns.map(({ name, type }) => ({ name, type: isNested(parseColumnType(type)) ? 'VARCHAR' : type }));
}

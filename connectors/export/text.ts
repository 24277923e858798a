import {
  type ColumnMapping,
  decimalText,
  escapeCsvFormula,
  escapeCsvFormulaSql,
  isNested,
  jsonText,
  loadRefused,
  objectText,
  printable,
  type StreamColumn,
  sqlText,
} from '../../src/sdk/index.js';
import { windows1252 } from './letters.js';
import type { ExportOptions } from './names.js';

const letters: Readonly<Record<ExportOptions['csv']['encoding'], string | undefined>> = {
  'utf-8': undefined,
  'utf-16le': undefined,
  latin1: String.raw`[^\x{0}-\x{ff}]`,
  'windows-1252': String.raw`[^\x{0}-\x{7f}\x{a0}-\x{ff}${windows1252.replaceAll('\0', '')}]`,
};

export function isDelimited({ format }: ExportOptions): boolean {
  return format === 'csv' || format === 'tsv';
}

function delimiterOf({ format, csv }: ExportOptions): string {
  return csv.delimiter ?? (format === 'tsv' ? '\t' : ',');
}

/** A pattern of texts that need quotes. */
function needsQuote(options: ExportOptions, others = ''): string {
  return `[${others}"\\r\\n${delimiterOf(options).replace(/[\\\]^-]/g, '\\$&')}]`;
}

/** A number of double precision with plain digits: programs that read files take no exponents. */
function plainDouble(value: string): string {
  const text = `(${value})::VARCHAR`;
  const digits = `regexp_replace(split_part(${text}, 'e', 1), '[-.]', '', 'g')`;
  const exponent = `split_part(${text}, 'e', 2)::INTEGER`;
  const sign = `CASE WHEN ${value} < 0 THEN '-' ELSE '' END`;
  const large = `rpad(${digits}, greatest(strlen(${digits}), 1 + ${exponent})::INTEGER, '0')`;
  const small = `'0.' || repeat('0', -1 - ${exponent}) || ${digits}`;
  return `CASE WHEN contains(${text}, 'e') THEN ${sign} || CASE WHEN ${exponent} > 0 THEN ${large} ELSE ${small} END ELSE ${text} END`;
}

/** A moment as ISO 8601 with its offset, or by a pattern, in the time zone. */
function momentText(value: string, { csv, timeZone }: ExportOptions): string {
  // Without DuckDB's calendar of time zones, UTC takes a third of the time.
  const local = timeZone === 'UTC' ? `make_timestamp(epoch_us(${value}))` : `timezone(${sqlText(timeZone)}, ${value})`;
  if (csv.timestamp !== 'iso') return `strftime(${local}, ${sqlText(csv.timestamp)})`;
  // Before the year 1, the text of a time is not ISO 8601.
  const whole = `CASE WHEN ${local} >= TIMESTAMP '0001-01-01' THEN replace(${local}::VARCHAR, ' ', 'T') ELSE strftime(${local}, '%Y-%m-%dT%H:%M:%S.%f') END`;
  if (timeZone === 'UTC') return `${whole} || 'Z'`;
  const minutes = `(date_diff('minute', timezone('UTC', ${value}), ${local}))`;
  const offset = `CASE WHEN ${minutes} < 0 THEN '-' ELSE '+' END || printf('%02d:%02d', abs(${minutes}) // 60, abs(${minutes}) % 60)`;
  return `${whole} || ${offset}`;
}

/** SQL of a value as it is written in a file with delimiters. */
function delimitedText(value: string, { type }: Pick<StreamColumn, 'type'>, options: ExportOptions): string {
  const { csv } = options;
  switch (type.kind) {
    case 'text':
      return csv.formulas === 'escape' ? escapeCsvFormulaSql(value) : value;
    case 'timestamp':
      return momentText(value, options);
    case 'date':
      return csv.date === 'iso' ? `(${value})::VARCHAR` : `strftime(${value}, ${sqlText(csv.date)})`;
    case 'double':
      return plainDouble(value);
    case 'decimal':
      return decimalText(value);
    case 'json':
      return `(${value})::VARCHAR`;
    default:
      return isNested(type) ? jsonText(value, type) : `(${value})::VARCHAR`;
  }
}

function notFinite(value: string) {
  return [{ reason: 'not a finite number or time', when: `NOT isfinite(${value})` }];
}

/** Which parts of a column a file cannot hold. */
export function mapColumn(options: ExportOptions, column: StreamColumn): ColumnMapping {
  const { type } = column;
  const hasInfinity = type.kind === 'double' || type.kind === 'date' || type.kind === 'timestamp';
  if (!isDelimited(options))
    return { type: '', limits: hasInfinity && options.format !== 'parquet' ? { others: notFinite } : {} };
  const { csv } = options;
  const isText = type.kind === 'text' || type.kind === 'json' || isNested(type);
  const foreign = letters[csv.encoding];
  const others = (value: string) => {
    const text = delimitedText(value, column, options);
    return [
      ...(hasInfinity ? notFinite(value) : []),
      ...(foreign !== undefined && isText
        ? [
            {
              reason: `a letter that ${csv.encoding} does not have`,
              when: `regexp_matches(${text}, ${sqlText(foreign)})`,
            },
          ]
        : []),
      ...(csv.quote === 'none'
        ? [
            {
              reason: 'it needs quotes, and `quote: none` writes none',
              when: `regexp_matches(${text}, ${sqlText(needsQuote(options))})`,
            },
          ]
        : []),
    ];
  };
  return { type: '', limits: { others, ...(isText ? { nul: 'refused' as const } : {}) } };
}

export function lineEnd({ csv }: ExportOptions): string {
  return csv.lineEnd === 'crlf' ? '\r\n' : '\n';
}

/** Whether the text of a value may be a word of the dialect, or have a character that needs quotes. */
function mayNeedQuotes({ kind }: StreamColumn['type'], options: ExportOptions): boolean {
  const { csv } = options;
  if (kind === 'text' || kind === 'json' || kind === 'list' || kind === 'struct') return true;
  if ((kind === 'date' && csv.date !== 'iso') || (kind === 'timestamp' && csv.timestamp !== 'iso')) return true;
  return csv.null !== '' || /[\w.:+() -]/.test(delimiterOf(options));
}

/**
 * SQL of the texts that a value's place in a line is made of, NULL as it is configured. Quotes are texts of their own: to put them
 * together for each value takes as long as all the rest.
 * @param isAlone whether the line has no other value: readers skip lines without any character
 */
function cellTexts(at: number, column: StreamColumn, options: ExportOptions, isAlone: boolean): string[] {
  const { quote, null: nullText } = options.csv;
  const text = delimitedText(`c${at}`, column, options);
  const none = sqlText(isAlone && quote !== 'none' && nullText === '' ? '""' : nullText);
  if (quote === 'none') return [`coalesce(${text}, ${none})`];
  const mayNeed = mayNeedQuotes(column.type, options);
  const inside = mayNeed ? `replace(${text}, '"', '""')` : text;
  if (quote === 'all')
    return [
      `CASE WHEN c${at} IS NULL THEN ${none} ELSE '"' END`,
      inside,
      `CASE WHEN c${at} IS NULL THEN '' ELSE '"' END`,
    ];
  if (!mayNeed) return [`coalesce(${text}, ${none})`];
  // Some readers take lines that begin with # for comments.
  const isNeeded = `regexp_matches(${text}, ${sqlText(needsQuote(options, '#'))}) OR ${text} = ${sqlText(nullText)}`;
  return [`CASE WHEN ${isNeeded} THEN '"' || ${inside} || '"' ELSE coalesce(${text}, ${none}) END`];
}

/** SQL of a row's line in a file of text. */
function lineText(columns: readonly StreamColumn[], options: ExportOptions): string {
  if (!isDelimited(options)) {
    const members = columns.map(({ name, type }, at) =>
      type.kind === 'timestamp'
        ? { name, value: momentText(`c${at}`, options), type: { kind: 'text' } as const }
        : { name, value: `c${at}`, type },
    );
    return objectText(members);
  }
  const delimiter = sqlText(delimiterOf(options));
  const texts = columns.flatMap((column, at) => [
    ...(at === 0 ? [] : [delimiter]),
    ...cellTexts(at, column, options, columns.length === 1),
  ]);
  return `concat(${texts.join(', ')})`;
}

/** The rows of a file, in no order. */
interface SortedRows {
  /** Their columns `c0`, `c1` …, and those of the order. */
  readonly query: string;
  /** SQL of what they are sorted by. */
  readonly order: string;
}

/**
 * SQL that writes rows into a file, in their order.
 * @param above the text above them; DuckDB then ends a text of no rows with a line end too many
 */
export function copySql(
  { query, order }: SortedRows,
  columns: readonly StreamColumn[],
  options: ExportOptions,
  path: string,
  above = '',
): string {
  const to = `TO ${sqlText(path)}`;
  if (options.format === 'parquet') {
    const values = columns.map(({ name, duckdbType }, at) => {
      // Parquet has no integers of 128 bits: DuckDB would write doubles.
      const value = duckdbType === 'HUGEINT' ? `c${at}::DECIMAL(38,0)` : `c${at}`;
      return `${value} AS "${name.replaceAll('"', '""')}"`;
    });
    return `COPY (SELECT ${values.join(', ')} FROM (${query}) ORDER BY ${order}) ${to} (FORMAT parquet, COMPRESSION zstd)`;
  }
  const form = [
    String.raw`FORMAT csv, HEADER false, DELIMITER '\x01', QUOTE '', ESCAPE ''`,
    `NEW_LINE ${isDelimited(options) && options.csv.lineEnd === 'crlf' ? String.raw`'\r\n'` : String.raw`'\n'`}`,
    // It takes the place of the last line end.
    ...(above === '' ? [] : [`PREFIX ${sqlText(above)}`, `SUFFIX ${sqlText(lineEnd(options))}`]),
  ];
  // To sort lines takes half the time of sorting columns, and half the memory.
  const lines = `SELECT ${lineText(columns, options)} AS line, ${order} FROM (${query})`;
  return `COPY (SELECT line FROM (${lines}) ORDER BY ${order}) ${to} (${form.join(', ')})`;
}

/** The line of names above the rows, without its end. @throws {CdsyncError} `destination_refused` */
export function headerLine(columns: readonly StreamColumn[], options: ExportOptions): string | undefined {
  const { csv } = options;
  if (!isDelimited(options) || !csv.header) return undefined;
  const delimiter = delimiterOf(options);
  const cells = columns.map((column) => {
    const name = csv.formulas === 'escape' ? escapeCsvFormula(column.name) : column.name;
    const isNeeded = /["\r\n]/.test(name) || name.includes(delimiter);
    if (isNeeded && csv.quote === 'none')
      throw loadRefused(`"${printable(name)}" needs quotes as the name of a column, and \`quote: none\` writes none`, {
        hint: 'give the column another name: columns: { …: { rename: … } }',
      });
    const needs = csv.quote === 'all' || (csv.quote === 'needed' && (isNeeded || name.startsWith('#')));
    return needs ? `"${name.replaceAll('"', '""')}"` : name;
  });
  return cells.join(delimiter);
}

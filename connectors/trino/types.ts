import {
  type ColumnMapping,
  type ColumnType,
  trinoIdentifier,
  trinoText,
  type ValueLimits,
} from '../../src/sdk/former/index.js';

/** The days that DATE and TIMESTAMP hold reliably, whatever the catalog keeps them in. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Types are spelled as in `information_schema.columns`. */
export const momentType = 'timestamp(6) with time zone';

/** What columns of one kind of catalog are like. */
export interface ColumnTraits {
  /** The type of moments. */
  readonly moment: string;
  readonly text?: ValueLimits;
}

export const usualTraits: ColumnTraits = { moment: momentType };

export function mapColumn(type: ColumnType, { moment, text }: ColumnTraits = usualTraits): ColumnMapping {
  const limits = text === undefined ? {} : { limits: text };
  switch (type.kind) {
    case 'boolean':
      return { type: 'boolean' };
    case 'int64':
      return { type: 'bigint' };
    case 'int128':
      return { type: 'decimal(38,0)' };
    case 'decimal':
      return { type: `decimal(${type.precision},${type.scale})` };
    case 'double':
      return { type: 'double' };
    case 'timestamp':
      return { type: moment, limits: { days } };
    case 'date':
      return { type: 'date', limits: { days } };
    case 'text':
      return { type: 'varchar', ...limits };
    case 'json':
    case 'list':
    case 'struct':
      // Not the type JSON: it stores numbers beyond 64 bits as doubles, and few catalogs have it.
      return { type: 'varchar', as: 'JSON', ...limits };
  }
}

function decimal(type: string): { precision: number; scale: number } | undefined {
  const [, precision, scale] = /^decimal\((\d+),(\d+)\)$/.exec(type) ?? [];
  return precision === undefined ? undefined : { precision: Number(precision), scale: Number(scale) };
}

/** What `ALTER COLUMN … SET DATA TYPE` can do in Iceberg; other catalogs can do this much, or nothing. */
export function widens(from: string, to: string): boolean {
  if (/^(tinyint|smallint|integer)$/.test(from)) return to === 'bigint';
  if (from === 'real') return to === 'double';
  if (/^varchar\(\d+\)$/.test(from)) return to === 'varchar';
  const [a, b] = [decimal(from), decimal(to)];
  return a !== undefined && b !== undefined && a.scale === b.scale && a.precision <= b.precision;
}

/** SQL for the text of a value, as {@link valueText} writes it, in the type of its column. */
export function typed(text: string, type: string): string {
  return type === 'varchar' ? text : `CAST(${text} AS ${type})`;
}

const doubles: Readonly<Record<string, string>> = { inf: 'Infinity', '-inf': '-Infinity', nan: 'NaN', '-nan': 'NaN' };

/** A value of a CSV file of DuckDB as the text that Trino casts to the type. */
export function valueText(text: string, type: string): string {
  if (type === 'double' || type === 'real') return doubles[text] ?? text;
  if (!type.startsWith('timestamp')) return text;
  const zone = /([+-]\d\d)(:\d\d)?$/.exec(text);
  const moment = zone === null ? text : text.slice(0, zone.index);
  if (!type.endsWith('with time zone')) return moment;
  return zone === null || zone[1] === '+00' ? `${moment} UTC` : `${moment} ${zone[1]}${zone[2] ?? ':00'}`;
}

/** SQL of a moment, given as ISO 8601 in UTC. */
export function momentSql(iso: string, type: string): string {
  return typed(trinoText(valueText(`${iso.slice(0, 23).replace('T', ' ')}+00`, type)), type);
}

/** SQL for the text of a value that `verify: checksum` sums over; undefined for types without a sum. */
export function checkedText(name: string, kind: ColumnType['kind']): string | undefined {
  const value = trinoIdentifier(name);
  if (kind === 'text') return value;
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'date')
    return `CAST(${value} AS varchar)`;
  if (kind !== 'timestamp') return undefined;
  // Microseconds since 1970, digit for digit: whole seconds are exact as a double, the fraction comes from the text.
  const moment = `CAST(${value} AS timestamp(6))`;
  const seconds = `CAST(to_unixtime(date_trunc('second', ${moment})) AS bigint)`;
  return `CAST(${seconds} * 1000000 + CAST(substr(CAST(${moment} AS varchar), -6) AS bigint) AS varchar)`;
}

import {
  type ColumnMapping,
  type ColumnType,
  canonicalTexts,
  mapsColumns,
  sqlText,
  type ValueLimits,
} from '../../src/sdk/index.js';

/** The days that DATE and TIMESTAMP hold reliably, whatever the catalog keeps them in. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Types are spelled as in `information_schema.columns`. */
export const momentType = 'timestamp(6) with time zone';

/** What columns of one kind of catalog are like. */
export interface ColumnTraits {
  /** The type of moments. */
  readonly moment: string;
  readonly text?: ValueLimits;
  /** Whether a decimal can be given more digits by DDL. */
  readonly widensDecimals?: boolean;
}

export const usualTraits: ColumnTraits = { moment: momentType };

export function mapColumn(type: ColumnType, { moment, text }: ColumnTraits = usualTraits): ColumnMapping {
  const limits = text === undefined ? {} : { limits: text };
  return mapsColumns({
    boolean: 'boolean',
    int64: 'bigint',
    int128: 'decimal(38,0)',
    decimal: ({ precision, scale }) => `decimal(${precision},${scale})`,
    double: 'double',
    timestamp: { type: moment, limits: { days } },
    date: { type: 'date', limits: { days } },
    text: { type: 'varchar', ...limits },
    // Not the type JSON: it stores numbers beyond 64 bits as doubles, and few catalogs have it.
    json: { type: 'varchar', as: 'JSON', ...limits },
  })(type);
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
  return typed(sqlText(valueText(`${iso.slice(0, 23).replace('T', ' ')}+00`, type)), type);
}

/** The same texts as `canonicalText`. */
export const canonical = canonicalTexts((value) => `CAST(${value} AS varchar)`, {
  double: (value) => `lower(to_hex(to_ieee754_64(CASE WHEN ${value} = 0 THEN DOUBLE '0' ELSE ${value} END)))`,
  date: (value) => `CAST(date_diff('day', DATE '1970-01-01', ${value}) AS varchar)`,
  timestamp: (value) => {
    // Whole seconds are exact as a double, the fraction is taken from the text.
    const moment = `CAST(${value} AS timestamp(6))`;
    const seconds = `CAST(to_unixtime(date_trunc('second', ${moment})) AS bigint)`;
    return `CAST(${seconds} * 1000000 + CAST(substr(CAST(${moment} AS varchar), -6) AS bigint) AS varchar)`;
  },
  text: (value) => value,
  json: (value) => value,
});

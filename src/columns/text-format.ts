import { sqlText } from '../core/sql.js';
import { type DoubleStyle, doubleMismatchSql, doubleStyles, doubleTextSql, matchesDouble } from './double-text.js';
import { doubleName, parseTextCode, plainText, writeTextCode } from './text-code.js';
import {
  fewDigits,
  matchesDecimal,
  matchesInteger,
  matchesTemplate,
  maxDigits,
  parseTemplate,
  years,
} from './text-format-bytes.js';

/**
 * The common notation of all texts of a column: a type, and for some types a format. A value of the type gives its text back, byte
 * for byte. An empty text is NULL.
 */
export interface TextFormat {
  /** `BIGINT`, `DECIMAL(18,2)`, `DOUBLE 5`, `BOOLEAN true`, `DATE %Y-%m-%d`, `TIMESTAMP %Y-%m-%dT%H:%M:%S`. */
  readonly name: string;
  /** DuckDB type in tables. */
  readonly type: string;
  /** DuckDB type in Parquet files. */
  readonly fileType: string;
  /** The format of DuckDB's `strftime`; undefined if a cast to text gives the text back. */
  readonly format: string | undefined;
  readonly fits: TextCheck;
  /** SQL for the text of a value; NULL stays NULL. */
  text(value: string): string;
  /** SQL for the value of a text that fits or is empty; NULL stays NULL. */
  typed(text: string, form: 'table' | 'file'): string;
}

/** Whether the bytes from `from` to `to` are a text of one format. */
type TextCheck = (bytes: Uint8Array, from: number, to: number) => boolean;

function filled(text: string): string {
  return `nullif(${text}, '')`;
}

/** Numbers with more decimal places stay text. */
const maxPlaces = 15;
function integerFormat(name: 'BIGINT' | 'HUGEINT'): TextFormat {
  const isHuge = name === 'HUGEINT';
  const fileType = isHuge ? 'DECIMAL(38,0)' : name;
  return {
    name,
    type: name,
    fileType,
    format: undefined,
    fits: (bytes, from, to) => matchesInteger(bytes, from, to, isHuge),
    text: (value) => `(${value})::VARCHAR`,
    typed: (text, form) => `${filled(text)}::${form === 'table' ? name : fileType}`,
  };
}

function decimalFormat(digits: number, places: number): TextFormat {
  const type = `DECIMAL(${digits},${places})`;
  return {
    name: type,
    type,
    fileType: type,
    format: undefined,
    fits: (bytes, from, to) => matchesDecimal(bytes, from, to, digits, places),
    text: (value) => `(${value})::VARCHAR`,
    typed: (text) => `${filled(text)}::${type}`,
  };
}

function doubleFormat(style: DoubleStyle): TextFormat {
  return {
    name: doubleName([style]),
    type: 'DOUBLE',
    fileType: 'DOUBLE',
    format: undefined,
    fits: (bytes, from, to) => matchesDouble(bytes, from, to, style),
    text: (value) => doubleTextSql(value, style),
    typed: (text) => `${filled(text)}::DOUBLE`,
  };
}

const booleanWords = [
  ['true', 'false'],
  ['True', 'False'],
  ['TRUE', 'FALSE'],
] as const;

function booleanFormat([yes, no]: (typeof booleanWords)[number]): TextFormat {
  // By their length, from 4 on.
  const words = [yes, no].map((word) => Buffer.from(word));
  const isPlain = yes === 'true';
  return {
    name: `BOOLEAN ${yes}`,
    type: 'BOOLEAN',
    fileType: 'BOOLEAN',
    format: undefined,
    fits: (bytes, from, to) => {
      const word = words[to - from - 4];
      if (word === undefined) return false;
      for (let index = 0; index < word.length; index += 1) if (bytes[from + index] !== word[index]) return false;
      return true;
    },
    text: (value) =>
      isPlain ? `(${value})::VARCHAR` : `CASE (${value}) WHEN true THEN '${yes}' WHEN false THEN '${no}' END`,
    typed: (text) => `${filled(text)}::BOOLEAN`,
  };
}

const dates = ['%Y-%m-%d', '%Y/%m/%d', '%d.%m.%Y'];
/** Nine digits are nanoseconds, which services write by habit: a timestamp has the first six if the others are zero. */
const fractions = ['', '.%g', '.%f', '.%f000'];
const zones = ['', 'Z', '+00:00'];
const times = ['T', ' '].flatMap((between) =>
  fractions.flatMap((fraction) => zones.map((zone) => `%Y-%m-%d${between}%H:%M:%S${fraction}${zone}`)),
);

function momentFormat(format: string): TextFormat {
  const hasTime = format.includes('%H');
  const hasZone = /(Z|\+00:00)$/.test(format);
  const type = hasZone ? 'TIMESTAMP WITH TIME ZONE' : hasTime ? 'TIMESTAMP' : 'DATE';
  const template = parseTemplate(format);
  const isCast = format.startsWith('%Y-');
  return {
    name: `${hasZone ? 'TIMESTAMPTZ' : type} ${format}`,
    type,
    fileType: type,
    format,
    fits: (bytes, from, to) => matchesTemplate(bytes, from, to, template),
    text: (value) => {
      if (format === '%Y-%m-%d') return `(${value})::VARCHAR`;
      // Without DuckDB's calendar of time zones, this takes a third of the time.
      return `strftime(${hasZone ? `make_timestamp(epoch_us(${value}))` : value}, ${sqlText(format)})`;
    },
    typed: (text) => (isCast ? `${filled(text)}::${type}` : `strptime(${filled(text)}, ${sqlText(format)})::${type}`),
  };
}

/** Formats by name, each made at its first use. */
const known = new Map<string, TextFormat>();

function made(name: string): TextFormat | undefined {
  if (name === 'BIGINT' || name === 'HUGEINT') return integerFormat(name);
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(name) ?? [];
  if (digits !== undefined) return decimalFormat(Number(digits), Number(places));
  const [type, ...rest] = name.split(' ');
  const format = rest.join(' ');
  if (type === 'DOUBLE') return format === '5' || format === '5.0' ? doubleFormat(format) : undefined;
  if (type !== 'BOOLEAN') return [...dates, ...times].includes(format) ? momentFormat(format) : undefined;
  const words = booleanWords.find(([yes]) => yes === format);
  return words && booleanFormat(words);
}

/** The format with this name. @throws {TypeError} if there is none */
export function formatNamed(name: string): TextFormat {
  const format = known.get(name) ?? made(name);
  if (format === undefined) throw new TypeError(`no texts are written as ${name}`);
  known.set(name, format);
  return format;
}

/** The format of a code; undefined for {@link plainText}, and if all texts were empty. Codes with equal formats share one object. */
export function textFormatOf(code: string | undefined): TextFormat | undefined {
  if (code === undefined || code === plainText) return undefined;
  const { name } = parseTextCode(code);
  return name === undefined ? undefined : formatNamed(name);
}

/** A check that is true if a text does not change the code; undefined if no text can change it. */
export function textCheckOf(code: string | undefined): TextCheck | undefined {
  if (code === undefined || code === plainText) return undefined;
  const { name, styles, hasEmpty } = parseTextCode(code);
  if (name === undefined) return (_, from, to) => from === to;
  const { fits, type } = formatNamed(name);
  // `fits` of a format of doubles checks the first style.
  const checked = type === 'DOUBLE' ? styles.slice(1) : styles;
  if (checked.length === 0 && !hasEmpty) return fits;
  return (bytes, from, to) => {
    if (from === to) return hasEmpty;
    return fits(bytes, from, to) && checked.every((style) => matchesDouble(bytes, from, to, style));
  };
}

/** The formats of dates and times, by a text with `d` for each digit. */
const formats = new Map<string, string>();

function formatLike(text: string): string | undefined {
  if (formats.size === 0) {
    for (const format of [...dates, ...times])
      formats.set(parseTemplate(format).bytes.toString().replace('d000', 'dddd'), format);
  }
  return formats.get(text.replace(/\d/g, 'd').replace(/\+dd:dd$/, '+00:00'));
}

/** The name of the narrowest format that a text has; undefined if it has none. */
function formatNameOf(text: string, bytes: Uint8Array, styles: readonly DoubleStyle[]): string | undefined {
  const fits = (name: string) => formatNamed(name).fits(bytes, 0, bytes.length);
  if (/^-?\d+$/.test(text)) return ['BIGINT', 'HUGEINT'].find(fits);
  const places = /^-?\d+\.(\d+)$/.exec(text)?.[1]?.length ?? maxPlaces + 1;
  const decimals = places > maxPlaces ? [] : [fewDigits, maxDigits].map((digits) => `DECIMAL(${digits},${places})`);
  const decimal = decimals.find(fits);
  if (decimal !== undefined) return decimal;
  if (styles.length > 0) return doubleName(styles);
  const words = booleanWords.find((pair) => (pair as readonly string[]).includes(text));
  if (words !== undefined) return `BOOLEAN ${words[0]}`;
  const format = formatLike(text);
  if (format === undefined) return undefined;
  const { name } = momentFormat(format);
  return fits(name) ? name : undefined;
}

/** The code of one text; {@link plainText} if no typed value gives it back. */
export function inferTextFormat(text: string): string {
  if (text === '') return writeTextCode({ name: undefined, styles: [], hasEmpty: true });
  if (text.length > maxDigits + maxPlaces) return plainText;
  const bytes = Buffer.from(text);
  const styles = doubleStyles.filter((style) => matchesDouble(bytes, 0, bytes.length, style));
  const name = formatNameOf(text, bytes, styles);
  return name === undefined ? plainText : writeTextCode({ name, styles, hasEmpty: false });
}

/** SQL that is true if a text, which is not NULL, does not have the format. The opposite of {@link TextFormat.fits}. */
export function textMismatchSql(text: string, form: TextFormat): string {
  const { name, type, format } = form;
  const style = doubleStyles.find((style) => name === doubleName([style]));
  if (style !== undefined) return doubleMismatchSql(text, style);
  const words = booleanWords.find(([yes]) => name === `BOOLEAN ${yes}`);
  if (words !== undefined) return `${text} NOT IN (${words.map(sqlText).join(', ')})`;
  if (type === 'BIGINT') return `coalesce(TRY_CAST(${text} AS BIGINT)::VARCHAR <> ${text}, true)`;
  const shaped = `regexp_full_match(${text}, ${sqlText(sqlPattern(form))})`;
  if (format === undefined) return `NOT ${shaped} OR regexp_full_match(${text}, '-[0.]*')`;
  const read = `try_strptime(${text}, ${sqlText(format)})`;
  const isGivenBack = `strftime(${read}, ${sqlText(format)}) = ${text}`;
  return `coalesce(NOT (${shaped} AND year(${read}) BETWEEN ${years.first} AND ${years.last} AND ${isGivenBack}), true)`;
}

/** SQL for the value of a text; NULL if the text does not have the format. It never fails. */
export function textValueSql(text: string, form: TextFormat): string {
  const { type, format } = form;
  const isCast = format === undefined || format.startsWith('%Y-');
  const typed = isCast ? `TRY_CAST(${text} AS ${type})` : `try_strptime(${text}, ${sqlText(format)})::${type}`;
  return `CASE WHEN NOT (${textMismatchSql(text, form)}) THEN ${typed} END`;
}

function sqlPattern({ name, format }: TextFormat): string {
  if (format !== undefined) {
    return parseTemplate(format).bytes.toString().replace(/[.+]/g, '\\$&').replace(/d/g, '[0-9]');
  }
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(name) ?? [];
  if (digits === undefined) return `-?(0|[1-9][0-9]{0,${maxDigits - 1}})`;
  return `-?(0|[1-9][0-9]{0,${Number(digits) - Number(places) - 1}})\\.[0-9]{${places}}`;
}

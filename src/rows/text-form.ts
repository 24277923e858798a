import { sqlText } from '../core/sql.js';
import { fitsDecimal, fitsInteger, fitsTemplate, mostDigits, templateOf, years } from './text-bytes.js';

/**
 * How the texts of one column are written, if all are written alike: as a type, and for dates and times a format. A value of the
 * type then gives its text back, byte for byte. A form has a code, by which journals, stores and manifests name it.
 */
export interface TextForm {
  /** `BIGINT`, `HUGEINT`, `DECIMAL(18,2)`, `BOOLEAN true`, `DATE %Y-%m-%d`, `TIMESTAMP %Y-%m-%dT%H:%M:%S`. */
  readonly code: string;
  /** DuckDB type in tables. */
  readonly type: string;
  /** DuckDB type in Parquet files. */
  readonly fileType: string;
  /** The format of DuckDB's `strftime`; undefined if a cast to text gives the text back. */
  readonly format: string | undefined;
  /** Whether the bytes from `from` to `to` are a text of this form. */
  fits(bytes: Uint8Array, from: number, to: number): boolean;
  /** SQL for the text of a value; NULL stays NULL. */
  text(value: string): string;
  /** SQL for the value of a text that fits; NULL stays NULL. */
  typed(text: string, form: 'table' | 'file'): string;
}

/** The code of a column whose texts are not written alike, or are no values: it stays text for good. */
export const plainText = 'VARCHAR';

/** Decimals of up to this many digits are stored in eight bytes. */
const fewDigits = 18;
/** Numbers with more decimal places stay text. */
const mostPlaces = 15;
function integerForm(code: 'BIGINT' | 'HUGEINT'): TextForm {
  const isHuge = code === 'HUGEINT';
  const fileType = isHuge ? 'DECIMAL(38,0)' : code;
  return {
    code,
    type: code,
    fileType,
    format: undefined,
    fits: (bytes, from, to) => fitsInteger(bytes, from, to, isHuge),
    text: (value) => `(${value})::VARCHAR`,
    typed: (text, form) => `(${text})::${form === 'table' ? code : fileType}`,
  };
}

function decimalForm(digits: number, places: number): TextForm {
  const type = `DECIMAL(${digits},${places})`;
  return {
    code: type,
    type,
    fileType: type,
    format: undefined,
    fits: (bytes, from, to) => fitsDecimal(bytes, from, to, digits, places),
    text: (value) => `(${value})::VARCHAR`,
    typed: (text) => `(${text})::${type}`,
  };
}

const truths = [
  ['true', 'false'],
  ['True', 'False'],
  ['TRUE', 'FALSE'],
] as const;

function booleanForm([yes, no]: (typeof truths)[number]): TextForm {
  // By their length, from 4 on.
  const words = [yes, no].map((word) => Buffer.from(word));
  const isPlain = yes === 'true';
  return {
    code: `BOOLEAN ${yes}`,
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
    typed: (text) => `(${text})::BOOLEAN`,
  };
}

const dates = ['%Y-%m-%d', '%Y/%m/%d', '%d.%m.%Y'];
const fractions = ['', '.%g', '.%f'];
const zones = ['', 'Z', '+00:00'];
const times = ['T', ' '].flatMap((between) =>
  fractions.flatMap((fraction) => zones.map((zone) => `%Y-%m-%d${between}%H:%M:%S${fraction}${zone}`)),
);

function momentForm(format: string): TextForm {
  const hasTime = format.includes('%H');
  const hasZone = /(Z|\+00:00)$/.test(format);
  const type = hasZone ? 'TIMESTAMP WITH TIME ZONE' : hasTime ? 'TIMESTAMP' : 'DATE';
  const template = templateOf(format);
  const isCast = format.startsWith('%Y-');
  return {
    code: `${hasZone ? 'TIMESTAMPTZ' : type} ${format}`,
    type,
    fileType: type,
    format,
    fits: (bytes, from, to) => fitsTemplate(bytes, from, to, template),
    text: (value) => (format === '%Y-%m-%d' ? `(${value})::VARCHAR` : `strftime(${value}, ${sqlText(format)})`),
    typed: (text) => (isCast ? `(${text})::${type}` : `strptime(${text}, ${sqlText(format)})::${type}`),
  };
}

/** Forms by their code, as they are first asked for. */
const known = new Map<string, TextForm>();

function made(code: string): TextForm | undefined {
  if (code === 'BIGINT' || code === 'HUGEINT') return integerForm(code);
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(code) ?? [];
  if (digits !== undefined) return decimalForm(Number(digits), Number(places));
  const [type, ...rest] = code.split(' ');
  const format = rest.join(' ');
  if (type !== 'BOOLEAN') return [...dates, ...times].includes(format) ? momentForm(format) : undefined;
  const words = truths.find(([yes]) => yes === format);
  return words && booleanForm(words);
}

/** The form of a code; undefined for {@link plainText}. */
export function textForm(code: string | undefined): TextForm | undefined {
  if (code === undefined || code === plainText) return undefined;
  const found = known.get(code) ?? made(code);
  if (found === undefined) throw new TypeError(`no texts are written as ${code}`);
  known.set(code, found);
  return found;
}

function sure(code: string): TextForm {
  return textForm(code) as TextForm;
}

/** The formats of dates and times, by a text with `d` for each digit. */
const formats = new Map<string, string>();

function formatLike(text: string): string | undefined {
  if (formats.size === 0) {
    for (const format of [...dates, ...times]) formats.set(templateOf(format).bytes.toString(), format);
  }
  return formats.get(text.replace(/\d/g, 'd').replace(/\+dd:dd$/, '+00:00'));
}

/** The code of the narrowest form that a text has; {@link plainText} if it has none. */
export function formOf(text: string): string {
  if (text.length === 0 || text.length > mostDigits + mostPlaces) return plainText;
  const bytes = Buffer.from(text);
  const fits = (code: string) => sure(code).fits(bytes, 0, bytes.length);
  if (/^-?\d+$/.test(text)) return ['BIGINT', 'HUGEINT'].find(fits) ?? plainText;
  const places = /^-?\d+\.(\d+)$/.exec(text)?.[1]?.length;
  if (places !== undefined) {
    if (places > mostPlaces) return plainText;
    return [fewDigits, mostDigits].map((digits) => `DECIMAL(${digits},${places})`).find(fits) ?? plainText;
  }
  const words = truths.find((each) => (each as readonly string[]).includes(text));
  if (words !== undefined) return `BOOLEAN ${words[0]}`;
  const format = formatLike(text);
  if (format === undefined) return plainText;
  const { code } = momentForm(format);
  return fits(code) ? code : plainText;
}

/** Forms of which the second holds all texts of the first. */
function widerOf(one: string, other: string): string {
  const [narrow, wide] = [one, other].sort((a, b) => (a.length === b.length ? (a < b ? -1 : 1) : a.length - b.length));
  if (narrow === 'BIGINT' && wide === 'HUGEINT') return wide;
  const [small, large] = [one, other].map((code) => /^DECIMAL\((\d+),(\d+)\)$/.exec(code));
  if (small && large && small[2] === large[2]) return `DECIMAL(${mostDigits},${small[2]})`;
  return plainText;
}

/**
 * The form that holds the texts of both forms. Commutative, associative and idempotent; undefined, for no text at all, changes
 * nothing. So the order in which texts are seen does not matter.
 */
export function commonForm(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || one === other) return other;
  return other === undefined ? one : widerOf(one, other);
}

/** The widest form that holds the texts of a form. */
export function widestForm(code: string): string {
  if (code === 'BIGINT') return 'HUGEINT';
  return code.replace(/^DECIMAL\(\d+,/, `DECIMAL(${mostDigits},`);
}

/** The narrowest of the forms that hold texts of a form. */
export function narrower(code: string): string | undefined {
  if (code === 'HUGEINT') return 'BIGINT';
  return code.startsWith('DECIMAL') ? code.replace(/^DECIMAL\(\d+,/, `DECIMAL(${fewDigits},`) : undefined;
}

/** SQL that is true if a text, which is not NULL, has not the form. The same as {@link TextForm.fits}. */
export function misfitsForm(text: string, form: TextForm): string {
  const { code, format } = form;
  const words = truths.find(([yes]) => code === `BOOLEAN ${yes}`);
  if (words !== undefined) return `${text} NOT IN (${words.map(sqlText).join(', ')})`;
  if (code === 'BIGINT') return `coalesce(TRY_CAST(${text} AS BIGINT)::VARCHAR <> ${text}, true)`;
  const shaped = `regexp_full_match(${text}, ${sqlText(sqlPattern(form))})`;
  if (format === undefined) return `NOT ${shaped} OR regexp_full_match(${text}, '-[0.]*')`;
  const read = `try_strptime(${text}, ${sqlText(format)})`;
  const isGivenBack = `strftime(${read}, ${sqlText(format)}) = ${text}`;
  return `coalesce(NOT (${shaped} AND year(${read}) BETWEEN ${years.first} AND ${years.last} AND ${isGivenBack}), true)`;
}

function sqlPattern({ code, format }: TextForm): string {
  if (format !== undefined) {
    return templateOf(format).bytes.toString().replace(/[.+]/g, '\\$&').replace(/d/g, '[0-9]');
  }
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(code) ?? [];
  if (digits === undefined) return `-?(0|[1-9][0-9]{0,${mostDigits - 1}})`;
  return `-?(0|[1-9][0-9]{0,${Number(digits) - Number(places) - 1}})\\.[0-9]{${places}}`;
}

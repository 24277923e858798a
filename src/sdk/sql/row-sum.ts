import { type ColumnType, decimalText, isNested } from '../column-type.js';
import { jsonText } from '../json-text.js';

/**
 * A hash that both DuckDB and a server compute. With all but `md5`, a text of more than {@link shortBytes} counts by its own hash, for
 * servers that cannot join long texts.
 */
export type Digest = 'md5' | 'short_md5' | 'sha256';

/** Bytes of UTF-8 of the longest text that counts as it is with a digest other than `md5`. */
export const shortBytes = 8192;

/** How one SQL dialect computes the hash of a row from the texts of its values. Nothing here runs a statement. */
export interface RowHashing {
  /** SQL of texts one after the other; none of them is NULL. Default: with `||`. */
  join?(texts: readonly string[]): string;
  /** The hash of a text that the server is sure to have. Default: `md5`. */
  readonly digest?: Digest | undefined;
  /** SQL of this hash of a text in UTF-8, as lower-case hex digits. */
  hash(text: string): string;
  /** SQL of a text, or of its hash if it is long. Default: the text, because the dialect's own texts are short already, or count whole. */
  short?(text: string): string;
  /** SQL of the first 15 of these digits as an integer. */
  number(hex: string): string;
  /** SQL of a sum of such integers, as text; it may exceed 64 bits. */
  sum(number: string): string;
  /** SQL literals of U+001F, which separates two values, and of U+001E, which replaces NULL. Default: the characters in quotes. */
  readonly marks?: { readonly between: string; readonly nothing: string };
}

/** More parts in one expression are too deep for some parsers. */
const maxParts = 40;

function join({ join: joinTexts }: RowHashing, texts: readonly string[]): string {
  if (joinTexts !== undefined) return joinTexts(texts);
  return texts.length === 1 ? (texts[0] as string) : `(${texts.join(' || ')})`;
}

function hexOf(hashing: RowHashing, texts: readonly string[]): string {
  const { between } = hashing.marks ?? { between: "'\x1f'" };
  const parted = texts.flatMap((text, index) => (index === 0 ? [text] : [between, text]));
  if (texts.length <= maxParts) return hashing.hash(join(hashing, parted));
  const groups: string[] = [];
  for (let from = 0; from < texts.length; from += maxParts) {
    groups.push(hexOf(hashing, texts.slice(from, from + maxParts)));
  }
  return hexOf(hashing, groups);
}

/**
 * SQL of a number of 60 bits for a row: from the hash of the texts of its values, in order. The sum over rows shows if two sets
 * of rows are the same; it does not depend on their order.
 * @param texts SQL of the texts; each may be NULL
 */
export function rowNumber(hashing: RowHashing, texts: readonly string[]): string {
  const { nothing } = hashing.marks ?? { nothing: "'\x1e'" };
  const short = hashing.short ?? ((text: string) => text);
  return hashing.number(
    hexOf(
      hashing,
      texts.map((text) => `coalesce(${short(text)}, ${nothing})`),
    ),
  );
}

/**
 * DuckDB's SQL of the text by which a value is compared with the one at a destination: truths as `true` and `false`, integers and
 * decimals digit for digit, doubles as the 16 hex digits of their bits (without the sign of zero), dates as days and
 * moments as microseconds since 1970 (`infinity`, `-infinity` where they are endless), texts as they are, everything else as JSON. A dialect gives the same text for the same value.
 */
export function canonicalText(value: string, kind: ColumnType): string {
  switch (kind.kind) {
    case 'text':
      return value;
    case 'decimal':
      return decimalText(value);
    case 'double':
      return `lower(hex((CASE WHEN ${value} = 0 THEN 0.0::DOUBLE ELSE ${value} END)::BIT::BLOB))`;
    case 'date':
      return `CASE WHEN isfinite(${value}) THEN date_diff('day', DATE '1970-01-01', ${value})::VARCHAR ELSE (${value})::VARCHAR END`;
    case 'timestamp':
      return `CASE WHEN isfinite(${value}) THEN epoch_us(${value})::VARCHAR ELSE (${value})::VARCHAR END`;
    case 'json':
      return `(${value})::VARCHAR`;
    default:
      return isNested(kind) ? jsonText(value, kind) : `(${value})::VARCHAR`;
  }
}

/**
 * A dialect's texts by kind of value, where `json` also counts for lists and structs; null: the database cannot give the text.
 * @param cast the text of all other kinds
 */
export function canonicalTexts(
  cast: (value: string) => string,
  texts: {
    readonly [K in ColumnType['kind']]?: ((value: string, type: Extract<ColumnType, { kind: K }>) => string) | null;
  },
): (value: string, type: ColumnType) => string | undefined {
  return (value, type) => {
    const textOf = texts[isNested(type) ? 'json' : type.kind] as ((value: string, type: ColumnType) => string) | null;
    return textOf === null ? undefined : (textOf ?? cast)(value, type);
  };
}

/** The hash of a row in DuckDB, by the digest of the server that it is compared with. */
export const duckdbHashing = (digest: Digest = 'md5'): RowHashing => {
  const hash = (text: string) => `${digest.replace('short_', '')}(${text})`;
  return {
    digest,
    // Of `||`, DuckDB keeps the texts of each step, so the memory would grow with the square of the number of columns.
    join: (texts) => `concat(${texts.join(', ')})`,
    hash,
    ...(digest === 'md5'
      ? {}
      : { short: (text) => `CASE WHEN strlen(${text}) > ${shortBytes} THEN ${hash(text)} ELSE ${text} END` }),
    number: (hex) => `('0x' || substr(${hex}, 1, 15))::BIGINT`,
    sum: (number) => `coalesce(sum(${number}), 0)::VARCHAR`,
  };
};

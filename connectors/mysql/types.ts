import { type ColumnType, mapsColumns, widensDecimal, widensInteger } from '../../src/sdk/index.js';

/** The most digits after the decimal point in MySQL; MariaDB allows more. */
const maxDigits = 30;
const days = { first: '0001-01-01', last: '9999-12-31' };

const number = '-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?';

/** SQL of the digits of a number's text, without what its size is about. */
function digits(text: string): string {
  return `trim(regexp_replace(regexp_replace(${text}, '[eE].*$', ''), '[-.]', '', 'g'), '0')`;
}

/** MySQL's own JSON keeps integers of 64 bits, and of every other number the nearest double: SQL of texts in which that has other digits. */
export function inexactJson(json: string): { reason: string; when: string }[] {
  const long = `regexp_matches(${json}, '[0-9][0-9.]{15}')`;
  const numbers = `regexp_extract_all(regexp_replace(${json}, '"(\\\\.|[^"\\\\])*"', '', 'g'), '${number}')`;
  const isInteger = `regexp_full_match(n, '-?[0-9]+') AND coalesce(TRY_CAST(n AS BIGINT)::HUGEINT, TRY_CAST(n AS UBIGINT)) IS NOT NULL`;
  const isDouble = `${digits('n')} IS NOT DISTINCT FROM ${digits('TRY_CAST(n AS DOUBLE)::VARCHAR')}`;
  const inexact = `list_filter(${numbers}, lambda n: len(n) > 15 AND NOT (${isInteger}) AND NOT (${isDouble}))`;
  return [{ reason: 'a number in JSON has more digits than a double', when: `(${long} AND len(${inexact}) > 0)` }];
}

/**
 * {@link columnDefinition} says what `longtext` and `json` become.
 * @param packetBytes `max_allowed_packet`: a longer value cannot be joined, converted or read
 * @param hasOwnJson whether JSON is a type of the server, as in MySQL, and not its text, as in MariaDB
 */
export const mapColumnWithin = (packetBytes?: number, hasOwnJson = false) => {
  const limits = packetBytes === undefined ? {} : { maxBytes: packetBytes };
  return mapsColumns({
    boolean: { type: 'tinyint(1)', as: 'TINYINT' },
    int64: 'bigint',
    int128: 'decimal(39,0)',
    decimal: ({ precision, scale }) =>
      scale > maxDigits ? { type: 'longtext', as: 'VARCHAR' } : `decimal(${precision},${scale})`,
    double: 'double',
    text: { type: 'longtext', limits },
    timestamp: { type: 'datetime(6)', as: 'TIMESTAMP', limits: { days } },
    date: { type: 'date', limits: { days } },
    json: { type: 'json', as: 'JSON', limits: hasOwnJson ? { ...limits, others: inexactJson } : limits },
  });
};

/** The types of a server that was not asked for its limits. */
export const mapColumn = mapColumnWithin();

export function widens(declared: ColumnType, current: ColumnType): boolean {
  return widensInteger(declared, current) || widensDecimal(declared, current);
}

/** A described type names the collation of texts, and widths that are no part of a number's type; a key's text has a length. */
export function isTypeOf(actual: string, mapped: string): boolean {
  const plain = actual.replace(/ collate .*$/, '').replace(/^(?!tinyint\(1\))(\w*int)\(\d+\)/, '$1');
  return plain === mapped || (mapped === 'json' && plain === 'longtext');
}

/** Whether a described type is one of texts, or of bytes, which takes them too. */
export function holdsTexts(found: string): boolean {
  return /^(\w*(char|text|binary|blob)\b|enum\(|set\()/.test(found);
}

/** Whether a person has given a column a type in which some values of the mapped type are too large or too long. */
export function isNarrower(actual: string, mapped: string): boolean {
  if (mapped === 'bigint') return /^(tiny|small|medium)?int\b|^bigint.* unsigned/.test(actual);
  if (mapped === 'longtext' || mapped === 'json')
    return !actual.startsWith('longtext collate utf8mb4') && holdsTexts(actual);
  return mapped.startsWith('decimal') && actual.startsWith('decimal') && actual !== mapped;
}

/** Most bytes of an InnoDB key, all of its columns together. */
const keyBytes = 3072;
/** Most bytes of a key column other than a text: a decimal of 39 digits. */
const numberBytes = 20;
const bytesOfCharacter = 4;

/** Most characters of each text in a key. */
function keyCharacters(key: readonly { readonly type: string }[]): number {
  const texts = key.filter(({ type }) => isText(type)).length;
  return Math.floor((keyBytes - (key.length - texts) * numberBytes) / (texts * bytesOfCharacter));
}

function isText(type: string): boolean {
  return type === 'longtext' || type === 'json';
}

export function identifier(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

interface Definition {
  readonly name: string;
  readonly type: string;
  /** All columns of the table's key; empty if it has none. */
  readonly key: readonly { readonly name: string; readonly type: string }[];
  /** A collation under which texts are equal only if they are the same, byte for byte. */
  readonly collation: string;
}

/** SQL that defines a column. Texts of a key need a length for their index. */
export function columnDefinition({ name, type, key, collation }: Definition): string {
  const quoted = identifier(name);
  const exact = `CHARACTER SET utf8mb4 COLLATE ${collation}`;
  if (!key.some((column) => column.name === name)) {
    return `${quoted} ${type === 'longtext' ? `longtext ${exact}` : type} NULL`;
  }
  const held = isText(type) ? `varchar(${keyCharacters(key)}) ${exact}` : type;
  return `${quoted} ${held} NOT NULL${type === 'json' ? ` CHECK (json_valid(${quoted}))` : ''}`;
}

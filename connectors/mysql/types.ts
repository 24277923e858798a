import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** The most digits after the decimal point in MySQL; MariaDB allows more. */
const mostDigits = 30;
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Types are spelled as in `describe`; {@link columnDefinition} says what `longtext` and `json` become. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'tinyint(1)', as: 'TINYINT' };
    case 'int64':
      return { type: 'bigint' };
    case 'int128':
      return { type: 'decimal(39,0)' };
    case 'decimal':
      return type.scale > mostDigits
        ? { type: 'longtext', as: 'VARCHAR' }
        : { type: `decimal(${type.precision},${type.scale})` };
    case 'double':
      return { type: 'double' };
    case 'text':
      return { type: 'longtext' };
    case 'timestamp':
      return { type: 'datetime(6)', as: 'TIMESTAMP', limits: { days } };
    case 'date':
      return { type: 'date', limits: { days } };
    case 'json':
    case 'list':
    case 'struct':
      return { type: 'json', as: 'JSON' };
  }
}

/**
 * bigint may become double: a stream turns integers into doubles only if none of them exceeds 2^53. The other rules are for
 * tables that others have made.
 */
export function widens(from: string, to: string): boolean {
  if (to === 'longtext') return /^(var)?char|^(tiny|medium|long)?text/.test(from);
  if (to === 'bigint') return /^(smallint|mediumint|int)\b/.test(from) || /^tinyint(?!\(1\))/.test(from);
  if (to === 'datetime(6)') return /^datetime(\([1-5]\))?$/.test(from);
  return from === 'bigint' && (to === 'double' || to === 'decimal(39,0)');
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

/** An existing column, as the server describes it. */
export interface FoundColumn {
  readonly name: string;
  readonly type: string;
  readonly collation: string | undefined;
  /** Whether it is in an index; a text in an index has a length. */
  readonly isIndexed: boolean;
  /** Whether a check allows only JSON. */
  readonly isJson: boolean;
}

/** The type of an existing column, as {@link mapColumn} spells it if it is one of those. */
export function describedType({ type, collation, isIndexed, isJson }: FoundColumn, exact: string): string {
  // The display width is no part of an integer's type, except in tinyint(1), which is a boolean.
  const plain = type.replace(/^(?!tinyint\(1\))(\w*int)\(\d+\)/, '$1');
  if (isJson && /^(longtext|varchar)/.test(plain)) return 'json';
  if (collation === undefined) return plain;
  const isOurs = collation === exact && (plain === 'longtext' || (isIndexed && plain.startsWith('varchar')));
  return isOurs ? 'longtext' : `${plain} collate ${collation}`;
}

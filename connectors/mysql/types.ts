import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** What MySQL takes behind the point; MariaDB takes more. */
const mostDigits = 30;
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Spelled as `describe` does; {@link columnDefinition} says what is behind `longtext` and `json`. */
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

/** Integers become doubles only where the stream has seen none beyond 2^53. The rest are types of tables made by others. */
export function widens(from: string, to: string): boolean {
  if (to === 'longtext') return /^(var)?char|^(tiny|medium|long)?text/.test(from);
  if (to === 'bigint') return /^(smallint|mediumint|int)\b/.test(from) || /^tinyint(?!\(1\))/.test(from);
  if (to === 'datetime(6)') return /^datetime(\([1-5]\))?$/.test(from);
  return from === 'bigint' && (to === 'double' || to === 'decimal(39,0)');
}

/** Bytes that InnoDB keeps of a key, all of its columns together. */
const keyBytes = 3072;
/** What a column of a key that is no text takes at most: a decimal of 39 digits. */
const numberBytes = 20;
const bytesOfCharacter = 4;

/** Characters that each text of a key may have. */
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
  /** All columns of the table's key; empty where it has none. */
  readonly key: readonly { readonly name: string; readonly type: string }[];
  /** One under which texts are equal only if they are the same, byte for byte. */
  readonly collation: string;
}

/** SQL that defines a column. Texts of a key need a length, so that they can be indexed. */
export function columnDefinition({ name, type, key, collation }: Definition): string {
  const quoted = identifier(name);
  const exact = `CHARACTER SET utf8mb4 COLLATE ${collation}`;
  if (!key.some((column) => column.name === name)) {
    return `${quoted} ${type === 'longtext' ? `longtext ${exact}` : type} NULL`;
  }
  const held = isText(type) ? `varchar(${keyCharacters(key)}) ${exact}` : type;
  return `${quoted} ${held} NOT NULL${type === 'json' ? ` CHECK (json_valid(${quoted}))` : ''}`;
}

/** A column as `information_schema` knows it. */
export interface FoundColumn {
  readonly name: string;
  readonly type: string;
  readonly collation: string | undefined;
  /** It is in an index, of which a text needs a length. */
  readonly isIndexed: boolean;
  /** A check holds its values to JSON. */
  readonly isJson: boolean;
}

/** The type of a column that is there, in the words of {@link mapColumn} where it is one of those. */
export function describedType({ type, collation, isIndexed, isJson }: FoundColumn, exact: string): string {
  // How many digits are shown is no part of an integer, but for that of one digit, which is a boolean.
  const plain = type.replace(/^(?!tinyint\(1\))(\w*int)\(\d+\)/, '$1');
  if (isJson && /^(longtext|varchar)/.test(plain)) return 'json';
  if (collation === undefined) return plain;
  const isOurs = collation === exact && (plain === 'longtext' || (isIndexed && plain.startsWith('varchar')));
  return isOurs ? 'longtext' : `${plain} collate ${collation}`;
}

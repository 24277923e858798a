import { createHash } from 'node:crypto';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { emptyShape, Kind, type Shape } from './column-shape.js';
import type { Column, ColumnTreatment } from './columns.js';

/** SQL for the canonical JSON text of a typed value that is not NULL: without NULL members, with sorted names. */
export function canonicalText(value: string, shape: Shape, depth = 0): string {
  if (shape.kinds === Kind.list) {
    const element = `e${depth}`;
    const text = canonicalText(element, shape.element ?? emptyShape(), depth + 1);
    const texts = `list_transform(${value}, lambda ${element}: CASE WHEN ${element} IS NULL THEN 'null' ELSE ${text} END)`;
    return `'[' || coalesce(array_to_string(${texts}, ','), '') || ']'`;
  }
  if (shape.kinds === Kind.struct) {
    const members = [...(shape.fields ?? [])]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, field]) => {
        const member = `${value}.${quoteIdentifier(name)}`;
        const label = `to_json(${sqlText(name)})::VARCHAR || ':'`;
        return `CASE WHEN ${member} IS NULL THEN NULL ELSE ${label} || ${canonicalText(member, field, depth)} END`;
      });
    return `'{' || concat_ws(',', ${members.join(', ')}) || '}'`;
  }
  if ((shape.kinds & Kind.double) !== 0) {
    // As 5 and 5.0 are one value in a DOUBLE column, they have one text: a whole number is written like an integer.
    const whole = `${value} = trunc(${value}) AND abs(${value}) <= 9007199254740992 AND NOT (${value} = 0 AND signbit(${value}))`;
    return `CASE WHEN ${whole} THEN ${value}::BIGINT::VARCHAR ELSE to_json(${value})::VARCHAR END`;
  }
  return `to_json(${value})::VARCHAR`;
}

/** SQL for a value as plain text, the same whatever type its column has at the time: `5` for 5, 5.0 and `"5"` alike. */
function plainText(value: string, { type, shape }: Pick<Column, 'type' | 'shape'>): string {
  if (type === 'VARCHAR') return value;
  if (type === 'JSON')
    return `CASE WHEN json_type(${value}) = 'VARCHAR' THEN ${value} ->> '$' ELSE ${value}::VARCHAR END`;
  if (type.startsWith('TIMESTAMP')) return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%gZ')`;
  const isNested = type.endsWith(']') || type.startsWith('STRUCT(');
  if (isNested && shape.kinds === 0) return `to_json(${value})::VARCHAR`;
  if (isNested || type === 'DOUBLE') return canonicalText(value, type === 'DOUBLE' ? { kinds: Kind.double } : shape);
  return `${value}::VARCHAR`;
}

const normalized = {
  email: (text: string) => `lower(trim(${text}))`,
  /** Digits, and a plus where the number begins with one or with 00. */
  phone: (text: string) =>
    `regexp_replace(regexp_replace(regexp_replace(${text}, '[^0-9+]', '', 'g'), '(.)\\+', '\\1', 'g'), '^00', '+')`,
};

const masked = {
  last4: (text: string) =>
    `CASE WHEN length(${text}) <= 4 THEN repeat('*', length(${text})) ELSE repeat('*', length(${text}) - 4) || right(${text}, 4) END`,
  email: (text: string) =>
    `CASE WHEN contains(${text}, '@') THEN left(${text}, 1) || '***@' || split_part(${text}, '@', -1) ELSE '***' END`,
  all: () => `'***'`,
};

function saltMacro(salt: string): string {
  return quoteIdentifier(`cdsync_hmac_${salt}`);
}

/** SQL for a value after its treatment; NULL stays NULL. */
export function treated(
  value: string,
  column: Pick<Column, 'type' | 'shape'>,
  { hash, mask }: ColumnTreatment,
): string {
  const text = plainText(value, column);
  if (hash !== undefined) {
    const clear = hash.normalize === undefined ? text : normalized[hash.normalize](text);
    return `${saltMacro(hash.salt)}(${clear})`;
  }
  return mask === undefined ? value : `CASE WHEN ${value} IS NULL THEN NULL ELSE ${masked[mask](text)} END`;
}

/** A salt, and the text by which columns refer to it. */
export interface KnownSalt {
  readonly fingerprint: string;
  readonly bytes: Buffer;
}

const blockBytes = 64;

/**
 * Statements that create a macro for each salt, so that no other statement holds a salt. The macro computes HMAC-SHA-256
 * (RFC 2104) from DuckDB's SHA-256, for DuckDB has no HMAC.
 */
export function saltMacros(salts: Iterable<KnownSalt>): string[] {
  return [...salts].map(({ fingerprint, bytes }) => {
    const key = Buffer.alloc(blockBytes);
    (bytes.length > blockBytes ? createHash('sha256').update(bytes).digest() : bytes).copy(key);
    const [inner, outer] = [0x36, 0x5c].map((pad) => blob(key.map((byte) => byte ^ pad)));
    return `CREATE OR REPLACE MACRO ${saltMacro(fingerprint)}(value) AS
       sha256(${outer} || unhex(sha256(${inner} || encode(value))))`;
  });
}

function blob(bytes: Uint8Array): string {
  const digits = [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`);
  return `${sqlText(digits.join(''))}::BLOB`;
}

const whole = '^[+-]?[0-9]+$';

/** SQL that is true if a text is not exactly a value of the type. DuckDB's own casts round, truncate and guess. */
export function misfits(text: string, type: string): string {
  const cast = `TRY_CAST(${text} AS ${type})`;
  const matches = (pattern: string) => `NOT regexp_matches(${text}, '${pattern}') OR ${cast} IS NULL`;
  if (type === 'DATE') return matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$');
  if (type === 'BIGINT') return matches(whole);
  if (type === 'BOOLEAN') return matches('^(true|false)$');
  if (type === 'DOUBLE') return `${cast} IS NULL OR NOT isfinite(${cast})`;
  const scale = /^DECIMAL\(\d+,(\d+)\)$/.exec(type)?.[1];
  if (scale !== undefined) return matches(`^[+-]?[0-9]+(\\.[0-9]{0,${scale}}0*)?$`);
  return `${cast} IS NULL`;
}

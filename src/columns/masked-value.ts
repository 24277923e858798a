import { createHash } from 'node:crypto';
import { ownPrefix, quoteIdentifier, sqlText } from '../core/sql.js';
import { emptyShape, Kind, type Shape } from './column-shape.js';
import { type Column, type ColumnMask, isMasked } from './columns.js';

/** SQL for the canonical JSON text of a typed value that is not NULL: without NULL members, with sorted names. */
export function shapedText(value: string, shape: Shape, depth = 0): string {
  if (shape.kinds === Kind.list) {
    const element = `${ownPrefix}e${depth}`;
    const text = shapedText(element, shape.element ?? emptyShape(), depth + 1);
    const texts = `list_transform(${value}, lambda ${element}: CASE WHEN ${element} IS NULL THEN 'null' ELSE ${text} END)`;
    return `'[' || coalesce(array_to_string(${texts}, ','), '') || ']'`;
  }
  if (shape.kinds === Kind.struct) {
    const members = [...(shape.fields ?? [])]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, field]) => {
        // With a dot, DuckDB could read it as the column of a table that has the struct's name.
        const member = `struct_extract(${value}, ${sqlText(name)})`;
        const label = `to_json(${sqlText(name)})::VARCHAR || ':'`;
        return `CASE WHEN ${member} IS NULL THEN NULL ELSE ${label} || ${shapedText(member, field, depth)} END`;
      });
    return `'{' || concat_ws(',', ${members.join(', ')}) || '}'`;
  }
  if ((shape.kinds & Kind.double) !== 0) {
    // A DOUBLE column holds 5 and 5.0 as one value, so they have one text: that of the integer.
    const whole = `${value} = trunc(${value}) AND abs(${value}) <= 9007199254740992 AND NOT (${value} = 0 AND signbit(${value}))`;
    return `CASE WHEN ${whole} THEN ${value}::BIGINT::VARCHAR ELSE to_json(${value})::VARCHAR END`;
  }
  return `to_json(${value})::VARCHAR`;
}

/** SQL for a timestamp as text, to the millisecond, or to the microsecond if it has microseconds. */
export function momentText(value: string): string {
  const format = (fraction: string) => `strftime(${value}, '%Y-%m-%dT%H:%M:%S.${fraction}Z')`;
  return `CASE WHEN microsecond(${value}) % 1000 = 0 THEN ${format('%g')} ELSE ${format('%f')} END`;
}

/** SQL for a value as plain text, independent of the column's current type: `5` for 5, 5.0 and `"5"`. */
export function plainText(value: string, { type, shape }: Pick<Column, 'type' | 'shape'>): string {
  if (type === 'VARCHAR') return value;
  if (type === 'JSON')
    return `CASE WHEN json_type(${value}) = 'VARCHAR' THEN ${value} ->> '$' ELSE ${value}::VARCHAR END`;
  if (type.startsWith('TIMESTAMP')) return momentText(value);
  const isNested = type.endsWith(']') || type.startsWith('STRUCT(');
  if (type === 'DOUBLE') return shapedText(value, { kinds: Kind.double });
  if (isNested) {
    const text = shape.kinds === 0 ? `to_json(${value})::VARCHAR` : shapedText(value, shape);
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${text} END`;
  }
  return `${value}::VARCHAR`;
}

const spaces = '[\\s\\pZ\\x{0B}\\x{85}\\x{FEFF}]';

const normalized = {
  /** Removes all Unicode spaces, tabs and line breaks around the address. */
  email: (text: string) => `lower(regexp_replace(${text}, '^${spaces}+|${spaces}+$', '', 'g'))`,
  /** Digits, with a plus first if the number begins with `+` or `00`. */
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

function hmacFunction(fingerprint: string): string {
  return quoteIdentifier(`cdsync_hmac_${fingerprint}`);
}

/** SQL for the hashed or masked value; NULL stays NULL. */
export function maskedValueSql(
  value: string,
  column: Pick<Column, 'type' | 'shape'>,
  { hash, mask }: ColumnMask,
): string {
  const text = plainText(value, column);
  if (hash !== undefined) {
    const clear = hash.normalize === undefined ? text : normalized[hash.normalize](text);
    return `${hmacFunction(hash.salt)}(${clear})`;
  }
  return mask === undefined ? value : `CASE WHEN ${value} IS NULL THEN NULL ELSE ${masked[mask](text)} END`;
}

/** The effect of a mask, for readers of the column; undefined if there is none. */
export function describeMask(mask: {
  hash?: unknown;
  normalize?: string | undefined;
  mask?: string | undefined;
}): string | undefined {
  if (!isMasked(mask)) return undefined;
  if (mask.mask !== undefined) return `masked: ${mask.mask}`;
  return `hashed with HMAC-SHA-256${mask.normalize === undefined ? '' : `, normalized as ${mask.normalize}`}`;
}

/** A salt, and the identifier that columns have in its place. */
export interface SaltFingerprint {
  readonly fingerprint: string;
  readonly bytes: Buffer;
}

const blockBytes = 64;

/** The name of the function that computes the HMAC of a BLOB with a salt, not quoted. */
export function hmacBytesFunction(fingerprint: string): string {
  return `cdsync_hmac_bytes_${fingerprint}`;
}

/** The statement that creates the macro of {@link maskedValueSql} over {@link hmacBytesFunction}. */
export function saltMacro(fingerprint: string): string {
  const bytes = quoteIdentifier(hmacBytesFunction(fingerprint));
  return `CREATE OR REPLACE MACRO ${hmacFunction(fingerprint)}(value) AS ${bytes}(encode(value))`;
}

/** The key of HMAC-SHA-256 (RFC 2104) combined with its two paddings. */
export function saltPads(salt: Uint8Array): { inner: Buffer; outer: Buffer } {
  const key = Buffer.alloc(blockBytes);
  Buffer.from(salt.length > blockBytes ? createHash('sha256').update(salt).digest() : salt).copy(key);
  return { inner: key.map((byte) => byte ^ 0x36) as Buffer, outer: key.map((byte) => byte ^ 0x5c) as Buffer };
}

/** Statements that create the same macro for one connection, from the pads in `temp.cdsync_pads`: DuckDB has SHA-256, but no HMAC. */
export function saltMacroByVariables(fingerprint: string): string[] {
  const [inner, outer] = ['inner', 'outer'].map((pad) => quoteIdentifier(`cdsync_${pad}_${fingerprint}`));
  const value = (variable: string | undefined) => `getvariable(${sqlText(String(variable).slice(1, -1))})`;
  return [
    `SET VARIABLE ${inner} = (SELECT inner_pad FROM temp.cdsync_pads)`,
    `SET VARIABLE ${outer} = (SELECT outer_pad FROM temp.cdsync_pads)`,
    `CREATE OR REPLACE TEMP MACRO ${hmacFunction(fingerprint)}(value) AS
       sha256(${value(outer)} || unhex(sha256(${value(inner)} || encode(value))))`,
  ];
}

const whole = '^[+-]?[0-9]+$';
const number = '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$';
/** ISO 8601; digits of a second's fraction after the sixth must be zero. Zone names are excluded: DuckDB would keep one for the next rows. */
const moment =
  '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6}0*)?)?' +
  '(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)?)?$';
/** A double needs at most this many significant digits. */
const doubleDigits = 17;

/** SQL that is true if a text is not exactly a value of the type. DuckDB's own casts round, truncate and guess. */
export function misfits(text: string, type: string): string {
  const cast = `TRY_CAST(${text} AS ${type})`;
  const matches = (pattern: string) => `NOT regexp_matches(${text}, '${pattern}') OR ${cast} IS NULL`;
  if (type === 'DATE') return matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$');
  if (type.startsWith('TIMESTAMP')) return matches(moment);
  if (type === 'BIGINT') return matches(whole);
  if (type === 'BOOLEAN') return matches('^(true|false)$');
  if (type === 'DOUBLE') {
    // An integer must equal the double. Another number may differ from it, but must not have more digits than a double needs.
    const digits = `length(rtrim(ltrim(regexp_replace(${text}, '[eE].*|[^0-9]', '', 'g'), '0'), '0'))`;
    const isOther = `CASE WHEN regexp_matches(${text}, '${whole}')
      THEN coalesce(TRY_CAST(${text} AS HUGEINT) <> TRY_CAST(${cast} AS HUGEINT), true)
      ELSE ${digits} > ${doubleDigits} OR (${cast} = 0 AND ${digits} > 0) END`;
    return `${matches(number)} OR NOT isfinite(${cast}) OR ${isOther}`;
  }
  const scale = /^DECIMAL\(\d+,(\d+)\)$/.exec(type)?.[1];
  if (scale !== undefined) return matches(`^[+-]?[0-9]+(\\.[0-9]{0,${scale}}0*)?$`);
  return `${cast} IS NULL`;
}

/** SQL for the value of a text that fits a type; NULL for an empty text, and for one that does not fit. */
export function fitting(text: string, type: string): string {
  return `CASE WHEN ${text} = '' OR (${misfits(text, type)}) THEN NULL ELSE ${text} END::${type}`;
}

/**
 * SQL for the text of a column that had a type until a value did not fit. A text that fits is written like the typed value, so that
 * earlier rows, which kept only the value, do not change.
 */
export function formerText(text: string, type: string): string {
  const value = plainText(fitting(text, type), { type, shape: emptyShape() });
  return `CASE WHEN ${text} = '' THEN NULL WHEN ${misfits(text, type)} THEN ${text} ELSE ${value} END`;
}

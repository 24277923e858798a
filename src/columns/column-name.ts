import { createHash } from 'node:crypto';
import { ownPrefix, rowNumberColumns } from '../core/sql.js';

const maxBytes = 63;

/** Names of columns that cdsync or DuckDB adds. No attribute may have them. */
export const reservedColumns = [
  ...rowNumberColumns,
  '_op',
  '_run_id',
  '_synced_at',
  '_first_seen_at',
  '_deleted_at',
  '_valid_from',
  '_valid_to',
  // Of destinations.
  '_key',
  '_row',
  '_sequence',
];

/** The first hexadecimal digits of the SHA-256 of a name. */
export function digits(exactName: string, count: number): string {
  return createHash('sha256').update(exactName, 'utf8').digest('hex').slice(0, count);
}

/** As many whole characters of a text as fit into some bytes of UTF-8. */
export function firstBytes(text: string, bytes: number): string {
  let cut = '';
  let length = 0;
  for (const character of text) {
    length += Buffer.byteLength(character);
    if (length > bytes) break;
    cut += character;
  }
  return cut;
}

/**
 * The column name for a field of a record: the field's own name if it is free and valid.
 * - A name that equals a taken one in any case, has a NUL or a lone surrogate, or begins with {@link ownPrefix} gets `_` and 6 hex
 *   digits of the SHA-256 of the exact name. The empty name becomes `unnamed_` and those digits.
 * - A name above 63 bytes is cut to 54 bytes, then `_` and 8 digits. A name that is still taken gets more digits.
 * @param taken the names in use, in lower case
 */
export function columnName(exactName: string, taken: ReadonlySet<string>): string {
  // SQL text cannot carry NUL, UTF-8 no lone surrogate.
  const legible = exactName.toWellFormed().replaceAll('\0', '_');
  const suffixed = exactName === '' ? `unnamed_${digits(exactName, 6)}` : `${legible}_${digits(exactName, 6)}`;
  const lower = legible.toLowerCase();
  const isTaken = taken.has(lower) || lower.startsWith(ownPrefix);
  const plain = legible === exactName && exactName !== '' && !isTaken;
  const whole = plain ? legible : suffixed;
  const shortened = (count: number) => `${firstBytes(legible, maxBytes - 1 - count)}_${digits(exactName, count)}`;
  let name = Buffer.byteLength(whole) <= maxBytes ? whole : shortened(8);
  // The name of another field may equal the shortened one.
  for (let count = 10; taken.has(name.toLowerCase()); count += 2) name = shortened(count);
  return name;
}

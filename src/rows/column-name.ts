import { createHash } from 'node:crypto';
import { rowNumberColumn } from '../core/sql.js';

const maxBytes = 63;

/** Columns that cdsync or DuckDB adds; no attribute may take their names. */
export const reservedColumns = [
  rowNumberColumn,
  '_op',
  '_run_id',
  '_synced_at',
  '_first_seen_at',
  '_deleted_at',
  '_valid_from',
  '_valid_to',
];

function digits(exactName: string, count: number): string {
  return createHash('sha256').update(exactName, 'utf8').digest('hex').slice(0, count);
}

function firstBytes(text: string, bytes: number): string {
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
 * The column name for a field of a record. `taken` lists the names in use, in lower case. A free name is kept. A name that
 * equals a taken one, whatever its case, gets `_` and 6 hex digits of its exact name's SHA-256; so does a name with a NUL
 * or a lone surrogate. The empty name becomes `unnamed_` and those digits. A name longer than 63 bytes is cut to 54 bytes
 * and gets `_` and 8 digits.
 */
export function columnName(exactName: string, taken: ReadonlySet<string>): string {
  // SQL text cannot carry NUL, UTF-8 no lone surrogate.
  const legible = exactName.toWellFormed().replaceAll('\0', '_');
  const suffixed = exactName === '' ? `unnamed_${digits(exactName, 6)}` : `${legible}_${digits(exactName, 6)}`;
  const plain = legible === exactName && exactName !== '' && !taken.has(legible.toLowerCase());
  const name = plain ? legible : suffixed;
  if (Buffer.byteLength(name) <= maxBytes) return name;
  return `${firstBytes(legible, 54)}_${digits(exactName, 8)}`;
}

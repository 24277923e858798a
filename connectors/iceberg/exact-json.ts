import { randomUUID } from 'node:crypto';

/**
 * Parses JSON, and makes a bigint of each integer of 16 digits or more. Ids of snapshots have 64 bits, and JSON.parse would round
 * them.
 * @throws {SyntaxError}
 */
export function parseExact(text: string): unknown {
  const mark = randomUUID();
  const marked = text.replace(/("(?:[^"\\]|\\.)*"?)|(?<![\w.+-])(-?\d{16,})(?![\d.eE])/g, (_, quoted, digits) =>
    quoted === undefined ? `"${mark}${digits}"` : (quoted as string),
  );
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** The JSON of a value that {@link parseExact} has returned, with each bigint as the integer that it was. */
export function stringifyExact(value: unknown): string {
  const mark = randomUUID();
  const marked = JSON.stringify(value, (_, value: unknown) => (typeof value === 'bigint' ? `${mark}${value}` : value));
  return marked.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1');
}

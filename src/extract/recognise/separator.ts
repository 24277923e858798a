import { jsonBytes } from '../scan/bytes.js';
import { skipSpace } from '../scan/json-bytes.js';

const { closeBrace, closeBracket, comma, openBrace, quote } = jsonBytes;

/** How much of a record's beginning may belong to a separator. */
const longestPrefix = 64;

/**
 * The bytes between two records of a list, as far as all records have them: the closing brackets of one, the comma, and
 * the next one's beginning up to the first value (`}},{"id":`). Where they stand, a record probably ends.
 */
export interface Separator {
  readonly bytes: Buffer;
  /** How many of the bytes belong to the record before the comma. */
  readonly before: number;
  /** At which of the bytes the next record begins. */
  readonly next: number;
}

/**
 * Finds the separator of a list from two records that follow each other in it, with a comma and spaces between them.
 * @param first where the first of them begins; it ends at `end`, and the second begins at `next`
 * @returns undefined if the records are not objects that begin with a member
 */
export function separatorOf(body: Buffer, first: number, end: number, next: number): Separator | undefined {
  if (body[next] !== openBrace || !onlyCommaBetween(body, end, next)) return undefined;
  let from = end;
  while (from > first + 1 && (body[from - 1] === closeBrace || body[from - 1] === closeBracket)) from -= 1;
  const label = endOfName(body, next);
  if (from === end || label === undefined) return undefined;
  return { bytes: Buffer.from(body.subarray(from, label)), before: end - from, next: next - from };
}

function onlyCommaBetween(body: Buffer, from: number, to: number): boolean {
  const at = skipSpace(body, from);
  return body[at] === comma && skipSpace(body, at + 1) === to;
}

/** The position after the closing quote of an object's first name. */
function endOfName(body: Buffer, object: number): number | undefined {
  const open = skipSpace(body, object + 1);
  if (body[open] !== quote) return undefined;
  const close = body.indexOf(quote, open + 1);
  return close < 0 || close - object > longestPrefix ? undefined : close + 1;
}

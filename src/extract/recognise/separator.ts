import { jsonBytes } from '../scan/bytes.js';

const { closeBrace, closeBracket, comma, openBrace, quote } = jsonBytes;

/** How much of a record's beginning may belong to a separator. */
const longestPrefix = 64;

/**
 * The bytes between two records of a list, as far as all records have them: the closing brackets of one, the comma, and
 * the next one's beginning up to the first value (`}},{"id":"`). Where they stand, a record probably ends.
 */
export interface Separator {
  readonly bytes: Buffer;
  /** How many of the bytes belong to the record before the comma. */
  readonly before: number;
}

/**
 * Finds the separator of a list from two records that follow each other in it with only a comma between them.
 * @param first where the first of them begins; it ends at `comma`, where the second follows
 * @returns undefined if the records are not objects that begin with a member
 */
export function separatorOf(body: Buffer, first: number, end: number, next: number): Separator | undefined {
  if (body[end] !== comma || next !== end + 1 || body[next] !== openBrace) return undefined;
  let from = end;
  while (from > first + 1 && (body[from - 1] === closeBrace || body[from - 1] === closeBracket)) from -= 1;
  const label = endOfLabel(body, next + 1);
  if (from === end || label === undefined) return undefined;
  return { bytes: Buffer.from(body.subarray(from, label)), before: end - from };
}

/** The position after the first name's closing quote. */
function endOfLabel(body: Buffer, from: number): number | undefined {
  if (body[from] !== quote) return undefined;
  const close = body.indexOf(quote, from + 1);
  return close < 0 || close - from > longestPrefix ? undefined : close + 1;
}

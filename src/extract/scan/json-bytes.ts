import { isUtf8 } from 'node:buffer';
import { jsonBytes } from './bytes.js';

const {
  backslash,
  capitalE,
  carriageReturn,
  closeBrace,
  closeBracket,
  colon,
  comma,
  letterE,
  letterF,
  letterN,
  letterT,
  lineFeed,
  minus,
  nine,
  openBrace,
  openBracket,
  plus,
  point,
  quote,
  slash,
  space,
  tab,
  zero,
} = jsonBytes;

/* The grammar of JSON over bytes: these functions find the end of a value without parsing it. A negative position: not JSON. */

/** Records with a value nested deeper than this are rejected. */
export const maxDepth = 1000;

/** 1 for each byte that is not special inside a string: not a quote, a backslash or a control character. */
const plain = new Uint8Array(256).fill(1);
plain.fill(0, 0, 0x20);
plain[quote] = 0;
plain[backslash] = 0;

function isSpace(byte: number | undefined): boolean {
  return byte === space || byte === lineFeed || byte === carriageReturn || byte === tab;
}

export function skipSpace(bytes: Uint8Array, at: number): number {
  let position = at;
  while (isSpace(bytes[position])) position += 1;
  return position;
}

/**
 * A copy without the white space around it. A text that outlives its request must not hold the memory of its body,
 * which counts only until then, and may be much larger.
 */
export function copyTrimmed(bytes: Buffer): Buffer {
  const start = skipSpace(bytes, 0);
  let end = bytes.length;
  while (end > start && isSpace(bytes[end - 1])) end -= 1;
  return Buffer.from(bytes.subarray(start, end));
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function skipEscape(bytes: Uint8Array, at: number): number {
  const letter = bytes[at + 1];
  if (letter === 0x75) {
    for (let digit = 2; digit < 6; digit += 1) if (!isHex(bytes[at + digit])) return -1;
    return at + 6;
  }
  const isText =
    letter === quote ||
    letter === backslash ||
    letter === slash ||
    letter === 0x62 ||
    letter === letterF ||
    letter === letterN ||
    letter === 0x72 ||
    letter === letterT;
  return isText ? at + 2 : -1;
}

/** The position after the closing quote of a string; `at` is the position after its opening quote. */
export function skipString(bytes: Uint8Array, at: number): number {
  let position = at;
  for (;;) {
    while (plain[bytes[position] as number] === 1) position += 1;
    const byte = bytes[position];
    if (byte === quote) return position + 1;
    if (byte !== backslash) return -1;
    position = skipEscape(bytes, position);
    if (position < 0) return -1;
  }
}

/**
 * The same for a string without escapes, as almost all are. At an escape it stops, and returns `-2 - position` of the escape.
 * @param view a view of the same bytes, to compare four of them in one step
 */
export function skipPlainString(bytes: Uint8Array, view: DataView, at: number): number {
  let position = at;
  const last = bytes.length - 4;
  while (position <= last) {
    const word = view.getInt32(position, true);
    // Sets the high bit of each byte that is a quote, a backslash or below 0x20. A borrow can only spoil bytes after the first.
    const end =
      (((word ^ 0x22222222) - 0x01010101) | ((word ^ 0x5c5c5c5c) - 0x01010101) | (word - 0x20202020)) &
      ~word &
      0x80808080;
    if (end !== 0) {
      position += (31 - Math.clz32(end & -end)) >> 3;
      break;
    }
    position += 4;
  }
  let byte = bytes[position] as number;
  while (position > last && byte !== quote && byte !== backslash && byte >= 0x20) {
    position += 1;
    byte = bytes[position] as number;
  }
  if (byte === quote) return position + 1;
  return byte === backslash ? -2 - position : -1;
}

function skipDigits(bytes: Uint8Array, at: number): number {
  let position = at;
  for (;;) {
    const byte = bytes[position] as number;
    if (!(byte >= zero && byte <= nine)) return position;
    position += 1;
  }
}

/** The position after a number's integer part. */
export function skipInteger(bytes: Uint8Array, at: number): number {
  const first = bytes[at] === minus ? at + 1 : at;
  const end = skipDigits(bytes, first);
  if (end === first || (bytes[first] === zero && end > first + 1)) return -1;
  return end;
}

/** The position after a fraction and an exponent, both optional. */
export function skipFraction(bytes: Uint8Array, at: number): number {
  let position = at;
  if (bytes[position] === point) {
    const end = skipDigits(bytes, position + 1);
    if (end === position + 1) return -1;
    position = end;
  }
  const letter = bytes[position];
  if (letter !== letterE && letter !== capitalE) return position;
  const sign = bytes[position + 1];
  const first = sign === plus || sign === minus ? position + 2 : position + 1;
  const end = skipDigits(bytes, first);
  return end === first ? -1 : end;
}

/** The position after `word`, whose first byte is already checked. */
export function skipWord(bytes: Uint8Array, at: number, word: Uint8Array): number {
  for (let index = 1; index < word.length; index += 1) if (bytes[at + index] !== word[index]) return -1;
  return at + word.length;
}

export const nullWord = Buffer.from('null');
export const trueWord = Buffer.from('true');
export const falseWord = Buffer.from('false');

function skipScalar(bytes: Uint8Array, at: number): number {
  const byte = bytes[at] as number;
  if (byte === quote) return skipString(bytes, at + 1);
  if (byte === letterN) return skipWord(bytes, at, nullWord);
  if (byte === letterT) return skipWord(bytes, at, trueWord);
  if (byte === letterF) return skipWord(bytes, at, falseWord);
  const end = skipInteger(bytes, at);
  return end < 0 ? -1 : skipFraction(bytes, end);
}

function skipName(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== quote) return -1;
  const end = skipString(bytes, at + 1);
  if (end < 0) return -1;
  const colonAt = skipSpace(bytes, end);
  return bytes[colonAt] === colon ? skipSpace(bytes, colonAt + 1) : -1;
}

/** The extent of one value. */
interface Skipped {
  /** Position after the value; negative if it is not JSON. */
  end: number;
  depth: number;
}

/**
 * Walks over one value of any depth, without recursion, and checks all of its grammar.
 * @param at position of its first byte, after any white space
 */
export function skipValue(bytes: Uint8Array, at: number): Skipped {
  /** The open levels: 1 for an object, 0 for a list. */
  const open: number[] = [];
  let deepest = 0;
  let position = at;
  for (;;) {
    // A value begins here.
    const byte = bytes[position];
    if (byte === openBrace || byte === openBracket) {
      const isObject = byte === openBrace;
      const inside = skipSpace(bytes, position + 1);
      if (bytes[inside] === (isObject ? closeBrace : closeBracket)) position = inside + 1;
      else {
        open.push(isObject ? 1 : 0);
        deepest = Math.max(deepest, open.length);
        position = isObject ? skipName(bytes, inside) : inside;
        if (position < 0) return { end: -1, depth: deepest };
        continue;
      }
    } else {
      position = skipScalar(bytes, position);
      if (position < 0) return { end: -1, depth: deepest };
    }
    // A value ends here, and perhaps levels around it.
    for (;;) {
      const level = open.at(-1);
      if (level === undefined) return { end: position, depth: deepest };
      position = skipSpace(bytes, position);
      const next = bytes[position];
      if (next === comma) {
        position = skipSpace(bytes, position + 1);
        if (level === 1) position = skipName(bytes, position);
        if (position < 0) return { end: -1, depth: deepest };
        break;
      }
      if (next !== (level === 1 ? closeBrace : closeBracket)) return { end: -1, depth: deepest };
      position += 1;
      open.pop();
    }
  }
}

/** Whether a number has an exponent. */
export function hasExponent(bytes: Uint8Array, from: number, to: number): boolean {
  for (let index = from; index < to; index += 1) if (((bytes[index] as number) | 0x20) === letterE) return true;
  return false;
}

/** U+FFFD itself, as the service may send it. */
const sign = Buffer.from('\ufffd');

/**
 * What bytes that are no UTF-8 have become. Behind the escaped high half of a pair it stays: a low half there would make a character
 * of both that no one sent, and the high half is alone, which says enough.
 */
const replaced = /((?<=(?<!\\)(?:\\\\)*\\u[dD][89abAB][\da-fA-F]{2})\ufffd)|\ufffd/g;

/**
 * The text of JSON bytes. Where they are not UTF-8, it has half of a surrogate pair, which no UTF-8 can give: so a value with
 * such bytes is distinguished from one that has U+FFFD, and needs the same care as one with an escaped half of a pair.
 */
export function strictText(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const pieces: string[] = [];
  let from = 0;
  for (;;) {
    const at = bytes.indexOf(sign, from);
    pieces.push(bytes.toString('utf8', from, at < 0 ? bytes.length : at));
    if (at < 0) break;
    from = at + sign.length;
  }
  return pieces.map((piece) => piece.replace(replaced, (_, afterHalf) => afterHalf ?? '\udfff')).join('\ufffd');
}

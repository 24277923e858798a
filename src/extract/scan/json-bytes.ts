/** JSON's grammar over bytes: where a value ends, without making it. Positions that are negative mean "no JSON". */

const quote = 0x22;
const backslash = 0x5c;
/** Deeper than this nothing is walked into: such a value is not kept. */
export const maxDepth = 1000;

/** 1 where a byte inside a string is nothing special: not a quote, a backslash, or a control character. */
const plain = new Uint8Array(256).fill(1);
plain.fill(0, 0, 0x20);
plain[quote] = 0;
plain[backslash] = 0;

export function skipSpace(bytes: Uint8Array, at: number): number {
  let position = at;
  for (;;) {
    const byte = bytes[position];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return position;
    position += 1;
  }
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
  const known =
    letter === quote ||
    letter === backslash ||
    letter === 0x2f ||
    letter === 0x62 ||
    letter === 0x66 ||
    letter === 0x6e ||
    letter === 0x72 ||
    letter === 0x74;
  return known ? at + 2 : -1;
}

/** The place behind the closing quote of the string whose first byte behind its opening quote is at `at`. */
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
 * The same for a string without escapes, which is nearly every one: `-2 - position` of the first escape otherwise.
 * @param view of the same bytes, by which four of them are looked at in one step
 */
export function skipPlainString(bytes: Uint8Array, view: DataView, at: number): number {
  let position = at;
  const last = bytes.length - 4;
  while (position <= last) {
    const word = view.getInt32(position, true);
    // The high bit of each byte that is a quote, a backslash or below 0x20; a borrow can only spoil bytes behind the first.
    const found =
      (((word ^ 0x22222222) - 0x01010101) | ((word ^ 0x5c5c5c5c) - 0x01010101) | (word - 0x20202020)) &
      ~word &
      0x80808080;
    if (found !== 0) {
      position += (31 - Math.clz32(found & -found)) >> 3;
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
    if (!(byte >= 0x30 && byte <= 0x39)) return position;
    position += 1;
  }
}

/** The place behind a number's integer part. */
export function skipInteger(bytes: Uint8Array, at: number): number {
  const first = bytes[at] === 0x2d ? at + 1 : at;
  const end = skipDigits(bytes, first);
  if (end === first || (bytes[first] === 0x30 && end > first + 1)) return -1;
  return end;
}

/** The place behind a fraction and an exponent, if there are any. */
export function skipFraction(bytes: Uint8Array, at: number): number {
  let position = at;
  if (bytes[position] === 0x2e) {
    const end = skipDigits(bytes, position + 1);
    if (end === position + 1) return -1;
    position = end;
  }
  const letter = bytes[position];
  if (letter !== 0x65 && letter !== 0x45) return position;
  const sign = bytes[position + 1];
  const first = sign === 0x2b || sign === 0x2d ? position + 2 : position + 1;
  const end = skipDigits(bytes, first);
  return end === first ? -1 : end;
}

/** The place behind `word`, of which the first byte is known. */
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
  if (byte === 0x6e) return skipWord(bytes, at, nullWord);
  if (byte === 0x74) return skipWord(bytes, at, trueWord);
  if (byte === 0x66) return skipWord(bytes, at, falseWord);
  const end = skipInteger(bytes, at);
  return end < 0 ? -1 : skipFraction(bytes, end);
}

function skipName(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== quote) return -1;
  const end = skipString(bytes, at + 1);
  if (end < 0) return -1;
  const colon = skipSpace(bytes, end);
  return bytes[colon] === 0x3a ? skipSpace(bytes, colon + 1) : -1;
}

/** What one value was. */
export interface Skipped {
  /** Behind the value, or negative. */
  end: number;
  depth: number;
}

/**
 * Walks over one value of any depth, all of its grammar checked, without recursion.
 * @param at its first byte, behind any white space
 */
export function skipValue(bytes: Uint8Array, at: number): Skipped {
  /** 1 for an object, 0 for a list, one for each level that is open. */
  const open: number[] = [];
  let deepest = 0;
  let position = at;
  for (;;) {
    // A value begins here.
    const byte = bytes[position];
    if (byte === 0x7b || byte === 0x5b) {
      const isObject = byte === 0x7b;
      const inside = skipSpace(bytes, position + 1);
      if (bytes[inside] === (isObject ? 0x7d : 0x5d)) position = inside + 1;
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
    // A value has ended here: so may the levels around it.
    for (;;) {
      const level = open.at(-1);
      if (level === undefined) return { end: position, depth: deepest };
      position = skipSpace(bytes, position);
      const next = bytes[position];
      if (next === 0x2c) {
        position = skipSpace(bytes, position + 1);
        if (level === 1) position = skipName(bytes, position);
        if (position < 0) return { end: -1, depth: deepest };
        break;
      }
      if (next !== (level === 1 ? 0x7d : 0x5d)) return { end: -1, depth: deepest };
      position += 1;
      open.pop();
    }
  }
}

import { jsonBytes } from './bytes.js';

const { backslash, letterF, letterT, minus, nine, quote, zero } = jsonBytes;

/** Whether the bytes are already canonical text: an integer, `true`, `false`, or a string without escapes. */
function isCanonical(bytes: Uint8Array, from: number, to: number): boolean {
  const first = bytes[from] as number;
  if (first === quote) {
    for (let index = from; index < to; index += 1) if (bytes[index] === backslash) return false;
    return true;
  }
  if (first === letterT || first === letterF) return true;
  // The canonical text of -0 is 0.
  if (first === minus && bytes[from + 1] === zero) return false;
  for (let index = first === minus ? from + 1 : from; index < to; index += 1) {
    const byte = bytes[index] as number;
    if (byte < zero || byte > nine) return false;
  }
  return true;
}

/**
 * The canonical text of the scalar between `from` and `to`, as a JSON string. Does not parse the scalar: undefined if quoting
 * its bytes is not enough. See `canonicalJson`.
 */
export function decodePlainText(bytes: Uint8Array, from: number, to: number): Buffer | undefined {
  if (!isCanonical(bytes, from, to)) return undefined;
  const isString = bytes[from] === quote;
  const text = Buffer.allocUnsafe(to - from + (isString ? 4 : 2));
  let out = 0;
  text[out++] = quote;
  for (let index = from; index < to; index += 1) {
    const byte = bytes[index] as number;
    if (byte === quote) text[out++] = backslash;
    text[out++] = byte;
  }
  text[out] = quote;
  return text;
}

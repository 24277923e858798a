import { isUtf8 } from 'node:buffer';

/** U+FFFD itself, as the service may send it. */
const sign = Buffer.from('\ufffd');

/**
 * What bytes that are no UTF-8 have become. Behind the escaped high half of a pair it stays: a low half there would make a character
 * of both that nobody sent, and the high half is alone, which says enough.
 */
const replaced = /((?<=(?<!\\)(?:\\\\)*\\u[dD][89abAB][\da-fA-F]{2})\ufffd)|\ufffd/g;

/**
 * The text of JSON bytes. Where they are not UTF-8, it has half of a surrogate pair, which no UTF-8 can give: so a value with
 * such bytes is told from one that has U+FFFD, and needs the same care as one with an escaped half of a pair.
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

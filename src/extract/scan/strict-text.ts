import { isUtf8 } from 'node:buffer';

/** U+FFFD itself, as the service may send it. */
const sign = Buffer.from('\ufffd');

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
  // Two low halves: an escaped high half before them pairs with one at most, so one always stays alone.
  const escaped = pieces.some((piece) => /\\u[dD][89abAB]/.test(piece));
  return pieces.map((piece) => piece.replaceAll('\ufffd', escaped ? '\udfff\udfff' : '\udfff')).join('\ufffd');
}

/** Bytes of UTF-8 without what escapes them, and the range of bytes that each was written as. */
interface Unescaped {
  /** A character for each byte. */
  readonly bytes: string;
  readonly starts: readonly number[];
  readonly ends: readonly number[];
}

/** Names of characters in HTML. */
export const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/**
 * Spellings of other characters, over bytes: percent codes; entities of HTML; `\u0027`, `\x27` and `\n` of programs and JSON, with any
 * number of backslashes; other backslashes; quotes that SQL doubles; blanks, which a message joins and a form writes as `+`.
 */
const escapes =
  /%(?<percent>[\da-f]{2})|&(?:#(?<decimal>\d{1,9})|#x(?<hex>[\da-f]{1,7})|(?<name>amp|lt|gt|quot|apos));|(?<units>(?:\\+u[\da-f]{4})+)|\\+(?:x(?<byte>[\da-f]{2})|[nrt0])|\\+|'{2,}|[\0-\x20\x7f+]+/gi;

/** A text that is escaped more often is not understood. */
const maxDepth = 12;

function ofCode(code: number): string {
  return code > 0x10ffff ? '' : Buffer.from(String.fromCodePoint(code)).toString('latin1');
}

/** The characters of an escape; none for a blank, and for backslashes that only escape the next character. */
function meant(written: string, { percent, decimal, hex, name, units, byte }: Record<string, string | undefined>) {
  if (percent ?? byte) return String.fromCharCode(Number.parseInt(percent ?? byte ?? '', 16));
  if (decimal !== undefined) return ofCode(Number(decimal));
  if (hex !== undefined) return ofCode(Number.parseInt(hex, 16));
  if (name !== undefined) return entities[name.toLowerCase()] ?? '';
  if (units === undefined) return written.startsWith("'") ? "'" : '';
  const codes = units.split(/\\+u/i).slice(1);
  return Buffer.from(String.fromCharCode(...codes.map((code) => Number.parseInt(code, 16)))).toString('latin1');
}

function pass({ bytes, starts, ends }: Unescaped): Unescaped {
  const parts: string[] = [];
  const [from, to]: [number[], number[]] = [[], []];
  let done = 0;
  const keep = (end: number) => {
    parts.push(bytes.slice(done, end));
    for (let at = done; at < end; at += 1) {
      from.push(starts[at] as number);
      to.push(ends[at] as number);
    }
  };
  for (const { 0: written, index, groups = {} } of bytes.matchAll(escapes)) {
    keep(index);
    done = index + written.length;
    const text = meant(written, groups);
    parts.push(text);
    for (let at = 0; at < text.length; at += 1) {
      from.push(starts[index] as number);
      to.push(ends[done - 1] as number);
    }
  }
  keep(bytes.length);
  return { bytes: parts.join(''), starts: from, ends: to };
}

/**
 * A text as it was before others have written it into URLs, forms, JSON, HTML, SQL or logs, also one within the other: two spellings of
 * one text come to the same. Blanks are left out. In linear time.
 */
export function unescaped(text: Buffer): Unescaped {
  const starts = Array.from(text, (_, index) => index);
  let unescaped: Unescaped = { bytes: text.toString('latin1'), starts, ends: starts.map((start) => start + 1) };
  for (let depth = 0; depth < maxDepth; depth += 1) {
    const next = pass(unescaped);
    if (next.bytes === unescaped.bytes) break;
    unescaped = next;
  }
  return unescaped;
}

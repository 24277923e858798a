/** How one SQL dialect computes the hash of a row from the texts of its values. Nothing here runs a statement. */
export interface RowHashing {
  /** SQL of texts one after the other; none of them is NULL. Default: with `||`. */
  join?(texts: readonly string[]): string;
  /** SQL of the MD5 of a text in UTF-8, as lower-case hex digits. */
  md5(text: string): string;
  /** SQL of the first 15 of these digits as an integer. */
  number(hex: string): string;
  /** SQL of a sum of such integers, as text; it may exceed 64 bits. */
  sum(number: string): string;
  /** SQL literals of U+001F, which parts two values, and of U+001E, which stands for NULL. Default: the characters in quotes. */
  readonly marks?: { readonly between: string; readonly nothing: string };
}

/** More parts in one expression are too deep for some parsers. */
const mostJoined = 40;

function join({ join: own }: RowHashing, texts: readonly string[]): string {
  if (own !== undefined) return own(texts);
  return texts.length === 1 ? (texts[0] as string) : `(${texts.join(' || ')})`;
}

function hexOf(hashing: RowHashing, texts: readonly string[]): string {
  const { between } = hashing.marks ?? { between: "'\x1f'" };
  const parted = texts.flatMap((text, index) => (index === 0 ? [text] : [between, text]));
  if (texts.length <= mostJoined) return hashing.md5(join(hashing, parted));
  const groups: string[] = [];
  for (let from = 0; from < texts.length; from += mostJoined) {
    groups.push(hexOf(hashing, texts.slice(from, from + mostJoined)));
  }
  return hexOf(hashing, groups);
}

/**
 * SQL of a number of 60 bits for a row: from the MD5 of the texts of its values, in order. The sum over rows tells whether two sets
 * of rows are the same; it does not depend on their order.
 * @param texts SQL of the texts; each may be NULL
 */
export function rowNumber(hashing: RowHashing, texts: readonly string[]): string {
  const { nothing } = hashing.marks ?? { nothing: "'\x1e'" };
  return hashing.number(
    hexOf(
      hashing,
      texts.map((text) => `coalesce(${text}, ${nothing})`),
    ),
  );
}

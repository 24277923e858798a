const maxLength = 300;

/** Somebody else's words as part of a message: on one line, without what steers a terminal, cut where they are long. */
export function printable(words: string): string {
  const line = words
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength).toWellFormed()}…`;
}

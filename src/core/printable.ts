const maxLength = 300;

/** Who speaks may name a person; an address is the one thing by which that can be told for sure. */
const address = /[^\s@"'`<>()[\]{},;:=/]+@[^\s@"'`<>()[\]{},;:=/]+\.[\p{L}\p{N}-]+/gu;

/** A text without the addresses of people that stand in it. */
export function withoutAddresses(text: string): string {
  return text.replace(address, '[address]');
}

/**
 * Somebody else's words as part of a message: on one line, without what steers a terminal and without addresses of people,
 * cut where they are long.
 */
export function printable(words: string): string {
  const line = withoutAddresses(words)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength).toWellFormed()}…`;
}

const maxLength = 300;

/** Other people's texts may name a person; only an e-mail address can be recognised for sure. */
const address = /[^\s@"'`<>()[\]{},;:=/]+@[^\s@"'`<>()[\]{},;:=/]+\.[\p{L}\p{N}-]+/gu;

/** The text with each e-mail address replaced by `[address]`. */
export function withoutAddresses(text: string): string {
  return text.replace(address, '[address]');
}

/**
 * Text of another program, made fit for a message: on one line, without control characters for the terminal, without
 * e-mail addresses, cut after 300 characters.
 */
export function printable(words: string): string {
  const line = withoutAddresses(words)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength).toWellFormed()}…`;
}

import { withoutNotedSecrets } from './secret.js';

const maxLength = 300;

/** Other people's texts may name a person; only an e-mail address can be identified for sure. */
const word = /[^\s"'`<>()[\]{},;:=/]+/gu;
const domain = /.\.[\p{L}\p{N}-]/u;
const ending = /[\p{L}\p{N}-]/u;

/** The text with each e-mail address replaced by `[address]`. */
export function withoutAddresses(text: string): string {
  return text.replace(word, (written) => {
    // Word by word: a pattern for a whole address would look through a long text again from each of its characters.
    const parts = written.includes('@') ? written.split('@') : [];
    const hasAddress = parts.some((part, index) => index > 0 && parts[index - 1] !== '' && domain.test(part));
    if (!hasAddress) return written;
    let end = written.length;
    while (!ending.test(written.charAt(end - 1))) end -= 1;
    return `[address]${written.slice(end)}`;
  });
}

/** Secrets that can be told by their form alone, and the rest of the text that stays. */
const secretForms: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)/gs, '[secret]'],
  [/\b([Bb]earer|[Bb]asic)\s+(?=\S*[\dA-Z=])[\w.~+/=-]{12,}/g, '$1 [secret]'],
  [/\beyJ[\w-]{8,4096}\.[\w-]{4,}(?:\.[\w-]*)?/g, '[secret]'],
  [/(\w:\/\/)[^\s/@:]*:[^\s/@]+@/g, '$1[secret]@'],
  [/(hooks\.slack\.com\/\w+\/|webhook\/|webhooks\/\d+\/)[\w/@-]{8,}/g, '$1[secret]'],
  [
    /([?&;](?:sig|signature|token|access_token|refresh_token|key|api_?key|password|secret|code|x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid)=)[^\s&"'<>]+/gi,
    '$1[secret]',
  ],
  [
    /\b((?:password|passwd|pwd|passphrase|client_secret|secret_?(?:access_?)?key|account_?key|shared_?access_?key)["']?\s*[=:]\s*)(?:"[^"]+"|'[^']+'|[^\s;,&"'()]+)/gi,
    '$1[secret]',
  ],
  [/\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g, '[secret]'],
  [
    /\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk[-_](?:live_|test_)?|npm_|SG\.|AIza|ya29\.|dapi)[\w.-]{20,}/g,
    '[secret]',
  ],
];

/** The text without secrets that can be told by their form: tokens of vendors, logins in URLs, keys, signatures. */
export function withoutSecretForms(text: string): string {
  return secretForms.reduce((rest, [form, kept]) => rest.replace(form, kept), text);
}

/** Characters that a terminal obeys or hides: controls, line ends, marks that turn the direction of writing, halves of characters. */
const unseen = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u{FEFF}]/gu;
const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * The text on one line, with each character that a terminal would obey or hide shown as its number: `\x1b` for escape. Text
 * without such characters stays as it is.
 */
export function visible(text: string): string {
  return text.replace(unseen, (character) => {
    const code = character.charCodeAt(0);
    return short[character] ?? (code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`);
  });
}

/** The same value as JSON, with each such character escaped. Ends of lines, which lie between values, stay. */
export function visibleJson(json: string): string {
  return json.replace(unseen, (character) =>
    character === '\n' ? character : `\\u${hex(character.charCodeAt(0), 4)}`,
  );
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

/**
 * Text of another program, made fit for a message: on one line, without control characters for the terminal, without
 * secrets of destinations or of known forms and e-mail addresses, cut after 300 characters.
 */
export function printable(words: string): string {
  const line = withoutAddresses(withoutSecretForms(withoutNotedSecrets(words)))
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength).toWellFormed()}…`;
}

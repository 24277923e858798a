import { printable, withoutNotedSecrets } from '../../src/sdk/index.js';

const hidden = '[value]';
const emailLike = /[^\s"'<>(),;:]+@[^\s"'<>(),;:]+/g;

/** All texts and numbers of a value, and the words of texts. */
function textsIn(value: unknown, into: Set<string>): void {
  if (value === null || value === undefined || typeof value === 'boolean') return;
  if (Array.isArray(value)) for (const item of value) textsIn(item, into);
  else if (typeof value === 'object' && Object.getPrototypeOf(value) !== null && !isPlain(value))
    into.add(String(value));
  else if (typeof value === 'object') for (const member of Object.values(value)) textsIn(member, into);
  else {
    const text = String(value);
    into.add(text);
    into.add(encodeURIComponent(text.toWellFormed()));
    for (const word of text.split(/[\s/?&=]+/)) into.add(word);
    // A receiver may write quotes in another way, such as \\" or &quot;.
    if (/["'\\<>]/.test(text)) for (const word of text.split(/[\s/?&="'\\<>]+/)) into.add(word);
  }
}

function isPlain(value: object): boolean {
  return Object.getPrototypeOf(value) === Object.prototype;
}

/** The longest text of a receiver that is kept. */
const maxReason = 300;

/**
 * Removes the values of records from a text of the receiver: as they are in the row, and however a template changed them.
 * @param values parsed rows and the texts that were rendered of them
 */
export function cleaner(values: () => readonly unknown[]): (words: string) => string {
  let patterns: { long: string[]; short: RegExp | undefined } | undefined;
  return (words) => {
    if (patterns === undefined) {
      const texts = new Set<string>();
      for (const value of values()) textsIn(value, texts);
      const sorted = [...texts]
        .map((text) => text.trim())
        .filter((text) => text.length > 1)
        .sort((a, b) => b.length - a.length);
      const short = sorted.filter((text) => text.length < 4).map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
      patterns = {
        long: sorted.filter((text) => text.length >= 4).map((text) => text.toLowerCase()),
        short:
          short.length === 0
            ? undefined
            : new RegExp(`(?<![\\p{L}\\p{N}])(?:${short.join('|')})(?![\\p{L}\\p{N}])`, 'giu'),
      };
    }
    let rest = withoutNotedSecrets(unescaped(words.slice(0, 20_000))).replace(emailLike, hidden);
    for (const text of patterns.long) rest = without(rest, text);
    if (patterns.short !== undefined) rest = rest.replace(patterns.short, hidden);
    const shown = printable(rest);
    return shown.length > maxReason ? `${shown.slice(0, maxReason)}…` : shown;
  };
}

const entities: Readonly<Record<string, string>> = { quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' };

/** A text whose characters are not written as in JSON or HTML: receivers that repeat a request write values so. */
function unescaped(words: string): string {
  const character = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : '');
  return words
    .replace(/\\+u([0-9a-f]{4})/gi, (_, hex: string) => character(Number.parseInt(hex, 16)))
    .replace(/&#(?:x([0-9a-f]{1,6})|(\d{1,7}));/gi, (_, hex: string | undefined, digits: string) =>
      character(hex === undefined ? Number(digits) : Number.parseInt(hex, 16)),
    )
    .replace(/&(quot|apos|amp|lt|gt);/g, (_, name: string) => entities[name] ?? '')
    .replace(/\\+(["'/])/g, '$1');
}

/** A text without another one, in capitals or small letters. */
function without(words: string, text: string): string {
  const small = words.toLowerCase();
  if (small.length !== words.length) return words.replaceAll(text, hidden);
  let [rest, from] = ['', 0];
  for (let at = small.indexOf(text); at >= 0; at = small.indexOf(text, from)) {
    rest += words.slice(from, at) + hidden;
    from = at + text.length;
  }
  return rest + words.slice(from);
}

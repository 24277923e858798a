import { inspect } from 'node:util';
import { entities, unescaped } from './unescaped.js';

const shown = '[secret]';

const brand = Symbol.for('cdsync.secret');

/** A value that logs, errors, reports and `inspect` show as `[secret]`; only {@link Secret.reveal} returns it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** A connector may have its own copy of cdsync, with a class of this name. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }

  get [brand](): true {
    return true;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return shown;
  }

  toJSON(): string {
    return shown;
  }

  [inspect.custom](): string {
    return shown;
  }
}

/** A part of a URL, such as the user or the password, as it is meant. A bare `%` is itself. */
export function decodedLogin(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A shorter text is not looked for: it would match by chance. */
const minLetters = 4;
/** The same for a part of a secret that could be a word. */
const minPartLetters = 8;
const nameOfSecret = /key|secret|token|password|passwd|pwd|passphrase|credential|signature/i;

/** Parts of a URL that a message may quote: its login, and of one for HTTP its path with the query, where webhooks have their token. */
function partsOfUrl(value: string): string[] {
  if (!/^\w+:\/\//.test(value) || !URL.canParse(value)) return [];
  const { protocol, username, password, pathname, search, searchParams } = new URL(value);
  const login = password === '' && username.length >= minPartLetters ? [username] : [password];
  if (!/^https?:$/.test(protocol)) return [...login, ...login.map(decodedLogin)];
  const ofQuery = [...searchParams.values(), `${pathname}${search}`, search.slice(1)];
  const path = pathname.split('/').filter((name) => name.length >= 16);
  return [
    ...login,
    ...login.map(decodedLogin),
    ...[...ofQuery, ...path].filter(({ length }) => length >= minPartLetters),
  ];
}

/** Whether a text that may be a secret is one: a URL needs no login, and no token in its path or query. */
export function holdsSecret(written: string): boolean {
  if (!/^\w+:\/\//.test(written) || !URL.canParse(written)) return true;
  const { protocol, username, password, pathname, searchParams } = new URL(written);
  const isHttp = /^https?:$/.test(protocol);
  const hasToken = [username.length * 2, ...pathname.split('/').map(({ length }) => length)].some((size) => size >= 16);
  return (
    password !== '' ||
    (isHttp && hasToken) ||
    [...searchParams.keys()].some((name) => isHttp || nameOfSecret.test(name))
  );
}

/** As in `Server=tcp:h;Password=p` and `host=h password='p'`. */
const pairs = /\b(\w+)\s*=\s*['"]?([^;'"\s]+)/g;

/** Values of headers as OpenTelemetry lists them, `authorization=Bearer%20token,x-team=key`, and the words of each. */
function partsOfHeaders(value: string): string[] {
  const headers = value.split(',').map((header) => /^\s*[\w.-]+\s*=\s*(.*?)\s*$/s.exec(header)?.[1]);
  if (headers.includes(undefined)) return [];
  const texts = headers.flatMap((text = '') => [text, decodedLogin(text)]);
  return texts.flatMap((text) => [text, ...text.split(/\s+/)]).filter(({ length }) => length >= minPartLetters);
}

/** Lines of a key file, and keys, tokens and passwords of JSON credentials and connection strings. */
function partsOfDocument(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const ofLines = lines.length < 2 ? [] : lines.filter((line) => line.length >= 16 && !line.startsWith('-----'));
  const ofPairs = [...value.matchAll(pairs)].map(([, name = '', text = '']) => (nameOfSecret.test(name) ? text : ''));
  if (!value.trimStart().startsWith('{')) return [...ofLines, ...ofPairs];
  try {
    const members = Object.entries(JSON.parse(value) as object).filter(([name]) => nameOfSecret.test(name));
    return members.flatMap(([, text]) =>
      typeof text === 'string' && text.length >= minPartLetters && !/^https?:/.test(text)
        ? [text, ...partsOfDocument(text)]
        : [],
    );
  } catch {
    return ofLines;
  }
}

/** The text in base64, alone or amid others, as in `Authorization: Basic`: the letters that only its own bytes decide. */
function inBase64(text: string): string[] {
  const bytes = Buffer.from(text);
  if (bytes.length < minPartLetters) return [];
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const overlap = encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [overlap, overlap.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

function inHex(text: string): string[] {
  const digits = text.length < minPartLetters ? '' : Buffer.from(text).toString('hex');
  return digits === '' ? [] : [digits, digits.toUpperCase()];
}

/** The spellings of a text that can be looked for as they are. */
function spellings(text: string): string[] {
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  const names = new Map(Object.entries(entities).map(([name, sign]) => [sign, sign === "'" ? '#39' : name]));
  const html = text.replace(/[&<>"']/g, (sign) => `&${names.get(sign)};`);
  const plain = [text, encodeURIComponent(text.toWellFormed()), form, JSON.stringify(text).slice(1, -1), html];
  return [...plain, ...plain.flatMap((secret) => [...inBase64(secret), ...inHex(secret)])];
}

/** Replaces texts in others, however those have escaped them. @param sought as {@link unescaped} has them */
function replaceEscaped(text: string, sought: readonly string[], as: string): string {
  const source = Buffer.from(text);
  const { bytes, starts, ends } = unescaped(source);
  const ranges: [from: number, to: number][] = [];
  for (const secret of sought)
    for (let at = bytes.indexOf(secret); at >= 0; at = bytes.indexOf(secret, at + secret.length))
      ranges.push([starts[at] as number, ends[at + secret.length - 1] as number]);
  if (ranges.length === 0) return text;
  const parts: string[] = [];
  let done = 0;
  for (const [from, to] of ranges.sort(([one], [other]) => one - other)) {
    if (from >= done) parts.push(source.subarray(done, from).toString(), as);
    done = Math.max(done, to);
  }
  return parts.join('') + source.subarray(done).toString();
}

/**
 * A function that replaces the given secrets in any text, also as other programs spell them: the last line of defence for messages of a
 * server or a library.
 */
export function redactor(secrets: Iterable<Secret>, as = shown): (text: string) => string {
  const parts = new Set<string>();
  for (const secret of secrets) {
    const value = secret.reveal();
    for (const part of [value, ...partsOfUrl(value), ...partsOfDocument(value), ...partsOfHeaders(value)])
      if (part.length >= minLetters) parts.add(part);
  }
  const longestFirst = [...parts].sort((a, b) => b.length - a.length);
  const literal = [...new Set(longestFirst.flatMap(spellings))];
  const escaped = longestFirst
    .filter((part) => /[^\w.~-]/.test(part))
    .map((part) => unescaped(Buffer.from(part)).bytes)
    .filter(({ length }) => length >= minLetters);
  return (text) => {
    const rest = escaped.length === 0 ? text : replaceEscaped(text, escaped, as);
    return literal.reduce((words, secret) => words.replaceAll(secret, as), rest);
  };
}

interface Noted {
  readonly values: Set<string>;
  hide?: ((text: string) => string) | undefined;
}

/** Of all copies of cdsync in the process: a connector may have its own. */
function notedSecrets(): Noted {
  const all = globalThis as Record<symbol, unknown>;
  const name = Symbol.for('cdsync.secrets');
  all[name] ??= { values: new Set<string>() };
  return all[name] as Noted;
}

/** Has {@link withoutNotedSecrets} hide these secrets too. */
export function noteSecrets(secrets: Iterable<Secret>): void {
  const noted = notedSecrets();
  const before = noted.values.size;
  for (const secret of secrets) noted.values.add(secret.reveal());
  if (noted.values.size > before) noted.hide = undefined;
}

/**
 * The text without the secrets of all destinations that were opened. It precedes any other change of a text: a part that is cut off or
 * hidden for another reason would leave a rest that nothing finds.
 */
export function withoutNotedSecrets(text: string): string {
  const noted = notedSecrets();
  noted.hide ??= redactor([...noted.values].map((value) => new Secret(value)));
  return noted.hide(text);
}

/** Secrets in a value, however deep. */
export function secretsIn(value: unknown): Secret[] {
  if (value instanceof Secret) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}

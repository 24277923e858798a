import { inspect } from 'node:util';

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
const leastLetters = 4;
/** The same for a part of a secret that could be a word. */
const leastOfParts = 8;
const nameOfSecret = /key|secret|token|password|passwd|pwd|passphrase|credential|signature/i;

/** Parts of a URL that a message may quote: its login, and of one for HTTP its path with the query, where webhooks have their token. */
function partsOfUrl(value: string): string[] {
  if (!/^\w+:\/\//.test(value) || !URL.canParse(value)) return [];
  const { protocol, username, password, pathname, search, searchParams } = new URL(value);
  const login = password === '' && username.length >= leastOfParts ? [username] : [password];
  if (!/^https?:$/.test(protocol)) return [...login, ...login.map(decodedLogin)];
  const ofQuery = [...searchParams.values(), `${pathname}${search}`, search.slice(1)];
  const path = pathname.split('/').filter((name) => name.length >= 16);
  return [
    ...login,
    ...login.map(decodedLogin),
    ...[...ofQuery, ...path].filter(({ length }) => length >= leastOfParts),
  ];
}

/** As in `Server=tcp:h;Password=p` and `host=h password='p'`. */
const pairs = /\b(\w+)\s*=\s*['"]?([^;'"\s]+)/g;

/** Lines of a key file, and keys, tokens and passwords of JSON credentials and connection strings. */
function partsOfDocument(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const ofLines = lines.length < 2 ? [] : lines.filter((line) => line.length >= 16 && !line.startsWith('-----'));
  const ofPairs = [...value.matchAll(pairs)].map(([, name = '', text = '']) => (nameOfSecret.test(name) ? text : ''));
  if (!value.trimStart().startsWith('{')) return [...ofLines, ...ofPairs];
  try {
    const members = Object.entries(JSON.parse(value) as object).filter(([name]) => nameOfSecret.test(name));
    return members.flatMap(([, text]) =>
      typeof text === 'string' && text.length >= leastOfParts && !/^https?:/.test(text)
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
  if (bytes.length < leastOfParts) return [];
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const own = encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/**
 * A function that replaces the given secrets in any text, also as other programs spell them: the last line of defence for messages of a
 * server or a library.
 */
export function redactor(secrets: Iterable<Secret>, as = shown): (text: string) => string {
  const values = new Set<string>();
  for (const secret of secrets) {
    const value = secret.reveal();
    for (const part of [value, ...partsOfUrl(value), ...partsOfDocument(value)]) {
      if (part.length < leastLetters) continue;
      const encoded = encodeURIComponent(part.toWellFormed());
      const lowered = encoded.replace(/%[\dA-F]{2}/g, (code) => code.toLowerCase());
      const asForm = new URLSearchParams([['', part]]).toString().slice(1);
      // The last: as a JSON document spells it.
      for (const form of [part, encoded, lowered, asForm, ...inBase64(part), JSON.stringify(part).slice(1, -1)])
        values.add(form);
    }
  }
  const longestFirst = [...values].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((rest, value) => rest.replaceAll(value, as), text);
}

/** Secrets in a value, however deep. */
export function secretsIn(value: unknown): Secret[] {
  if (value instanceof Secret) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}

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

/** The password in a URL, encoded and decoded. */
function passwordOf(value: string): string[] {
  if (!/^\w+:\/\//.test(value) || !URL.canParse(value)) return [];
  const { password } = new URL(value);
  return [password, decodedLogin(password)];
}

/**
 * A function that replaces the given secrets in any text: the last line of defence for messages of a server or a
 * library. It does not look for values shorter than 4 characters: they would match by chance.
 */
export function redactor(secrets: Iterable<Secret>, as = shown): (text: string) => string {
  const values = new Set<string>();
  for (const secret of secrets) {
    const value = secret.reveal();
    for (const part of [value, ...passwordOf(value)]) {
      if (part.length < 4) continue;
      values.add(part);
      values.add(encodeURIComponent(part.toWellFormed()));
      // As a JSON document spells it.
      values.add(JSON.stringify(part).slice(1, -1));
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

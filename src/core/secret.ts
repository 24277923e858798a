import { inspect } from 'node:util';

const shown = '[secret]';

/** A value that no log, error, report or inspection shows; only {@link Secret.reveal} gives it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
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

/**
 * A function that takes the given secrets out of any text: the last line of defence for messages that come from
 * elsewhere (a server, a library). Values shorter than 4 characters are left alone: they would match by chance.
 */
export function redactor(secrets: Iterable<Secret>): (text: string) => string {
  const values = new Set<string>();
  for (const secret of secrets) {
    const value = secret.reveal();
    if (value.length < 4) continue;
    values.add(value);
    values.add(encodeURIComponent(value));
    // As it stands in a JSON document.
    values.add(JSON.stringify(value).slice(1, -1));
  }
  const longestFirst = [...values].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((rest, value) => rest.replaceAll(value, shown), text);
}

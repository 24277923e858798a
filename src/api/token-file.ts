import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { abortable } from '../core/on-abort.js';
import { Secret } from '../core/secret.js';
import { type TokenSource, usableToken } from './token-source.js';

/** The shortest time between two looks at the file. */
const lookEveryMs = 1_000;

/**
 * A token in a file that another program keeps up to date. While requests are made, the file is looked at once a second, and
 * read again if it has changed; it is also read after a 401. While it is missing or empty, as in the middle of a rotation,
 * the last token is used.
 */
export class TokenFile implements TokenSource {
  readonly #path: string;
  readonly #clock: Clock;
  #token: Secret | undefined;
  #previous: Secret | undefined;
  #version = '';
  #lookAgainAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  current(): string | undefined {
    return this.#clock.monotonic() < this.#lookAgainAt ? this.#token?.reveal() : undefined;
  }

  async obtain(signal: AbortSignal): Promise<string> {
    await abortable(this.#read(false), signal);
    return (this.#token as Secret).reveal();
  }

  async renew(refused: string, signal: AbortSignal): Promise<boolean> {
    if (this.#token?.reveal() === refused) {
      // A read that is under way may have begun before the refusal.
      if (this.#reading !== undefined) await abortable(this.#reading, signal);
      await abortable(this.#read(true), signal);
    }
    return this.#token?.reveal() !== refused;
  }

  secrets(): Iterable<Secret> {
    return [this.#token, this.#previous].filter((token) => token !== undefined);
  }

  close(): void {}

  #read(evenUnchanged: boolean): Promise<void> {
    this.#reading ??= this.#readOnce(evenUnchanged).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(evenUnchanged: boolean): Promise<void> {
    try {
      const { mtimeMs, ino, size } = await stat(this.#path);
      const version = `${mtimeMs} ${ino} ${size}`;
      if (evenUnchanged || version !== this.#version) {
        this.#take(usableToken(await readFile(this.#path, 'utf8'), `the token in ${this.#path}`));
        this.#version = version;
      }
    } catch (error) {
      if (this.#token === undefined) throw this.#unusable(error);
    }
    this.#lookAgainAt = this.#clock.monotonic() + lookEveryMs;
  }

  #take(token: string): void {
    if (token === this.#token?.reveal()) return;
    this.#previous = this.#token;
    this.#token = new Secret(token);
  }

  #unusable(error: unknown): unknown {
    if (error instanceof CdsyncError) return error;
    const code = (error as NodeJS.ErrnoException).code ?? 'an error';
    return new CdsyncError(`the token file ${this.#path} cannot be read: ${code}`, {
      code: 'token_unusable',
      hint: '`auth.token_file` must name a file that holds the access token and that this user may read',
      cause: error,
    });
  }
}

import { createInterface, type Interface } from 'node:readline/promises';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { visible } from '../core/printable.js';
import { writeLine } from './standard-streams.js';

/** Whether there is a person to ask. */
export function hasTerminal(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks the person at the terminal. Questions go to standard error, so that standard output has only results. */
export class Terminal {
  readonly #lines: Interface;
  readonly #closed = new AbortController();

  constructor() {
    this.#lines = createInterface({ input: process.stdin, output: process.stderr });
    // Ctrl-C and Ctrl-D both mean that there are no more responses.
    this.#lines.once('SIGINT', () => this.#lines.close());
    this.#lines.once('close', () => this.#closed.abort());
  }

  /** Aborts once there are no more responses. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  say(line: string): void {
    writeLine('stderr', line);
  }

  /** A heading with lines below it. */
  list(heading: string, lines: readonly string[]): void {
    for (const line of ['', heading, ...lines]) this.say(line);
  }

  /**
   * Asks until `read` accepts the response.
   * @param read turns the response (`fallback` if it is empty) into a value. Its errors of kind `configuration` are shown,
   * and the question is asked again
   * @throws {CdsyncError} `interrupted` on Ctrl-C and Ctrl-D
   */
  async ask<T>(question: string, fallback: string, read: (reply: string) => T | Promise<T>): Promise<T> {
    for (;;) {
      const line = await this.#line(`${question}${fallback === '' ? '' : ` [${fallback}]`}: `);
      try {
        return await read(line.trim() || fallback);
      } catch (thrown) {
        const error = asCdsyncError(thrown);
        if (error.kind !== 'configuration') throw error;
        this.say(`  ${error.message}${error.hint === undefined ? '' : ` (${error.hint})`}`);
      }
    }
  }

  async #line(question: string): Promise<string> {
    const { signal } = this.#closed;
    try {
      if (!signal.aborted) return await this.#lines.question(visible(question), { signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    this.say('');
    throw new CdsyncError('interrupted; nothing was written', { code: 'interrupted' });
  }

  close(): void {
    this.#lines.close();
  }
}

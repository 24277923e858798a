import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

type Row = Record<string, unknown>;

/** Another process, which reads and changes DuckDB files. */
export class DuckdbProcess {
  readonly #child: ChildProcess;
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#child = fork(join(import.meta.dirname, 'duckdb-process.mjs'), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
  }

  rows(path: string, sql: string): Promise<Row[]> {
    return this.#ask({ path, sql, writes: false });
  }

  async run(path: string, sql: string): Promise<void> {
    await this.#ask({ path, sql, writes: true });
  }

  #ask(question: { path: string; sql: string; writes: boolean }): Promise<Row[]> {
    const result = this.#last.then(async () => {
      this.#child.send(question);
      const [{ rows, error }] = (await once(this.#child, 'message')) as [{ rows?: Row[]; error?: string }];
      if (rows === undefined) throw new Error(`${error}: ${question.sql}`);
      return rows;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill();
    await exit;
  }
}

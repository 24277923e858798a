import { callEvery } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { formatCount } from '../core/quantities.js';

const maxRepeats = 10_000_000;
const tooMany = `a query may repeat a value, or fill one up, to ${formatCount(maxRepeats)} at most`;
const repeats = (count: string) => `CASE WHEN ${count} > ${maxRepeats} THEN error('${tooMany}') ELSE ${count} END`;

/**
 * SQL that puts functions with a limit in the place of those that build a value of any length in one call: DuckDB counts no memory within
 * such a call, and does not end it. The limit is within the argument, because DuckDB computes a constant call before it looks at conditions.
 */
export const boundedCalls = [
  `CREATE TEMP MACRO repeat(value, times) AS system.main.repeat(value, ${repeats('times')})`,
  ...['lpad', 'rpad'].map(
    (name) =>
      `CREATE TEMP MACRO ${name}(value, length, with_text) AS system.main.${name}(value, ${repeats('length')}, with_text)`,
  ),
];

/** The error of those functions; undefined for others. */
export function tooManyRepeats(thrown: unknown): CdsyncError | undefined {
  if (!(thrown instanceof Error && thrown.message.includes(tooMany))) return undefined;
  const hint = 'DuckDB would build the whole value in memory: give repeat, lpad or rpad a smaller number';
  return new CdsyncError(tooMany, { code: 'sql_failed', hint, cause: thrown });
}

const checkMs = 50;

/** A query may exceed `memory_mb` so far: values that wait to be taken, and memory that was freed, count too. */
const excess = 2;
const minExcessMb = 256;

/** In MB: the memory of the process outside of JavaScript. */
function nativeMb(): number {
  const { rss, heapTotal, external } = process.memoryUsage();
  return (rss - heapTotal - external) / 1_000_000;
}

/**
 * Ends the wait for a statement that takes far more memory than it may. DuckDB's limit does not count a value that one call of a function
 * builds, and DuckDB does not stop within such a call.
 */
export class MemoryWatch {
  readonly #maxMb: number;
  #settled: Promise<unknown> = Promise.resolve();
  #isStuck = false;

  /** @param memoryMb of the process */
  constructor(memoryMb: number) {
    this.#maxMb = excess * memoryMb + minExcessMb;
  }

  /** Whether a statement was under way when it was no longer waited for. */
  get isStuck(): boolean {
    return this.#isStuck;
  }

  /** Resolves when that statement has ended. */
  get settled(): Promise<unknown> {
    return this.#settled;
  }

  /** @throws {CdsyncError} `memory_exceeded`, while the work continues */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const working = work();
    this.#settled = working.catch(() => undefined);
    let timer: NodeJS.Timeout | undefined;
    const exceeded = new Promise<never>((_, reject) => {
      timer = callEvery(checkMs, () => {
        if (nativeMb() <= this.#maxMb) return;
        this.#isStuck = true;
        reject(this.#error());
      });
    });
    return Promise.race([working, exceeded]).finally(() => clearInterval(timer));
  }

  #error(): CdsyncError {
    return new CdsyncError(`the query took more than ${formatCount(this.#maxMb)} MB, and was ended`, {
      code: 'memory_exceeded',
      hint: 'one value of it is very large, or many are: ask for shorter ones, or raise `resources.memory_mb`',
    });
  }
}

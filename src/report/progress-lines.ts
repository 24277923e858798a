import { formatCount, formatDuration } from '../core/quantities.js';

/** What is shown of one stream in mid-run. */
export interface StreamView {
  readonly name: string;
  readonly phase: string;
  readonly rows: number;
  readonly requests: number;
  /** Probably comes in all; undefined where nobody knows. */
  readonly expectedRows: number | undefined;
}

interface Seen {
  readonly at: number;
  readonly rows: number;
  readonly requests: number;
}

/** Turns counters into rates: what happened since the line before. */
export class ProgressLines {
  readonly #limitPerSecond: number;
  readonly #seen = new Map<string, Seen>();

  readonly #startedAt: number;

  /** @param startedAt in the milliseconds of {@link ProgressLines.line} */
  constructor(limitPerSecond: number, startedAt: number) {
    this.#limitPerSecond = limitPerSecond;
    this.#startedAt = startedAt;
  }

  /** One line for a stream; `at` in milliseconds. */
  line(view: StreamView, at: number): string {
    const { name, phase, rows, requests, expectedRows } = view;
    const before = this.#seen.get(name) ?? { at: this.#startedAt, rows: 0, requests: 0 };
    this.#seen.set(name, { at, rows, requests });
    if (phase !== 'reading') return `${name}: ${phase}, ${formatCount(rows)} rows read`;
    const seconds = (at - before.at) / 1000;
    const rate = seconds > 0 ? (rows - before.rows) / seconds : 0;
    const share = seconds > 0 ? (requests - before.requests) / seconds / this.#limitPerSecond : 0;
    const parts = [
      `${formatCount(rows)} rows`,
      `${formatCount(Math.round(rate))}/s`,
      `${Math.round(share * 100)} % of the budget`,
    ];
    if (expectedRows !== undefined && rate > 0 && expectedRows > rows) {
      parts.push(`about ${formatDuration(((expectedRows - rows) / rate) * 1000)} left`);
    }
    return `${name}: ${parts.join(', ')}`;
  }
}

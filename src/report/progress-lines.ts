import type { BudgetShare } from '../client/budget.js';
import { formatCount, formatDuration } from '../core/quantities.js';

/** The facts that a progress line shows of one stream. */
export interface StreamView {
  readonly name: string;
  readonly phase: string;
  readonly rows: number;
  readonly requests: number;
  /** Estimate of all rows; undefined if unknown. */
  readonly expectedRows: number | undefined;
}

/** One line for a stream on its way to a destination. */
export function deliveryLine(view: {
  readonly destination: string;
  readonly stream: string;
  readonly phase: string;
  readonly rows: number;
  readonly total: number | undefined;
}): string {
  const { destination, stream, phase, rows, total } = view;
  const of = total === undefined ? '' : ` of ${formatCount(total)}`;
  return `${stream} to ${destination}: ${phase}${rows === 0 && total === undefined ? '' : `, ${formatCount(rows)}${of} rows`}`;
}

/** One line about the budget, if this process does not have all of it. */
export function shareLines(share: BudgetShare | undefined): string[] {
  if (share === undefined || (share.otherProcesses === 0 && share.part >= 1)) return [];
  return [shareLine(share)];
}

export function shareLine({ part, otherProcesses: others }: BudgetShare): string {
  const shared = others === 0 ? '' : `, shared with ${others === 1 ? '1 other process' : `${others} other processes`}`;
  const why = others === 0 && part < 1 ? ', because the service answered 429' : '';
  return `share of the budget: ${Math.round(part * 100)} %${shared}${why}`;
}

interface Seen {
  readonly at: number;
  readonly rows: number;
  readonly requests: number;
}

/** Turns counters into rates since the previous line. */
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
    const { name, phase, rows } = view;
    const { rate, share, leftMs } = this.#figures(view, at);
    if (phase !== 'reading') return `${name}: ${phase}, ${formatCount(rows)} rows read`;
    const parts = [
      `${formatCount(rows)} rows`,
      `${formatCount(Math.round(rate))}/s`,
      `${Math.round(share * 100)} % of the budget`,
    ];
    if (leftMs !== undefined) parts.push(`about ${formatDuration(leftMs)} left`);
    return `${name}: ${parts.join(', ')}`;
  }

  /** The same for machines. */
  facts(view: StreamView, at: number): Readonly<Record<string, unknown>> {
    const { name, phase, rows, requests } = view;
    const { rate, share, leftMs } = this.#figures(view, at);
    const facts = { stream: name, phase, rows, requests };
    if (phase !== 'reading') return facts;
    const seconds = leftMs === undefined ? null : Math.round(leftMs / 1000);
    return {
      ...facts,
      rows_per_second: Math.round(rate),
      share_of_budget: Number(share.toFixed(3)),
      seconds_left: seconds,
    };
  }

  #figures({ name, rows, requests, expectedRows }: StreamView, at: number) {
    const before = this.#seen.get(name) ?? { at: this.#startedAt, rows: 0, requests: 0 };
    this.#seen.set(name, { at, rows, requests });
    const seconds = (at - before.at) / 1000;
    const rate = seconds > 0 ? (rows - before.rows) / seconds : 0;
    const share = seconds > 0 ? (requests - before.requests) / seconds / this.#limitPerSecond : 0;
    const isLeft = expectedRows !== undefined && rate > 0 && expectedRows > rows;
    return { rate, share, leftMs: isLeft ? ((expectedRows - rows) / rate) * 1000 : undefined };
  }
}

import { cpus, totalmem } from 'node:os';

/** A measured figure, with the targets it should reach. */
export interface Figure {
  readonly what: string;
  readonly measured: string;
  readonly reach?: string;
  readonly stretch?: string;
}

export function machine(): string {
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} x ${cpus()[0]?.model.trim()}, ${memory} GiB, Node ${process.versions.node}`;
}

export function markdown(figures: readonly Figure[]): string {
  const rows = figures.map(
    ({ what, measured, reach = '', stretch = '' }) => `| ${what} | ${measured} | ${reach} | ${stretch} |`,
  );
  return [`Machine: ${machine()}.`, '', '| what | measured | reach | stretch |', '|---|---|---|---|', ...rows, ''].join(
    '\n',
  );
}

/** Of an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/** Rounds of one machine differ by less when it is quiet. */
const quiet = 0.05;

/** From the least value to the most, as ` (2.1 to 2.4)`; empty if they differ by 5 % at most. */
export function spread(values: readonly number[], digits: number): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return most - least <= quiet * least ? '' : ` (${least.toFixed(digits)} to ${most.toFixed(digits)})`;
}

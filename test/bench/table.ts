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

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

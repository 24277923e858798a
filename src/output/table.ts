import { visible } from '../core/printable.js';
import { fitColumns, gap } from './fit.js';
import { shortened, textWidth } from './text-width.js';

/** Where nothing may be cut, a wider cell moves the rest of its own line instead of all other lines. */
const widestColumn = 200;

/** A table as it is shown. */
interface FittedTable {
  readonly lines: string[];
  /** Number of columns in it. */
  readonly shown: number;
  /** Number of values that are shortened. */
  readonly cut: number;
}

/** Lines with columns as wide as their widest cell; numbers are aligned to the right. A cell never breaks a line. */
export function table(titles: readonly string[], cells: readonly (readonly string[])[]): string[] {
  return fittedTable(titles, cells, undefined).lines;
}

/**
 * The same, no wider than a terminal: wide columns are shortened and, if that is not enough, some are left out.
 * @param room cells of a line; undefined if nothing may be cut
 */
export function fittedTable(
  titles: readonly string[],
  cells: readonly (readonly string[])[],
  room: number | undefined,
): FittedTable {
  const header = titles.map(visible);
  const rows = cells.map((row) => row.map(visible));
  const full = header.map((title, column) => {
    const widest = rows.reduce((most, row) => Math.max(most, textWidth(row[column] ?? '')), textWidth(title));
    return room === undefined ? Math.min(widest, widestColumn) : widest;
  });
  let cut = 0;
  const { shown, widths } = fitColumns(full, room ?? Number.POSITIVE_INFINITY);
  const numeric = header.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,%-]*$/.test(row[column] ?? '')),
  );
  const line = (row: readonly string[]) =>
    shown
      .map((column, index) => {
        const width = widths[index] as number;
        const whole = row[column] ?? '';
        const text = room === undefined ? whole : shortened(whole, width);
        if (text !== whole && row !== header) cut += 1;
        const pad = ' '.repeat(Math.max(0, width - textWidth(text)));
        return numeric[column] ? pad + text : text + pad;
      })
      .join(' '.repeat(gap))
      .trimEnd();
  const lines = [line(header), ...rows.map(line)];
  return { lines, shown: shown.length, cut };
}

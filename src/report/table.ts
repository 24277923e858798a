import { visible } from '../core/printable.js';
import { fitColumns, gap } from './fit.js';
import { shortened, textWidth } from './text-width.js';

/** Lines with columns as wide as their widest cell; numbers are aligned to the right. A cell never breaks a line. */
export function table(titles: readonly string[], cells: readonly (readonly string[])[]): string[] {
  return fittedTable(titles, cells, undefined).lines;
}

/**
 * The same, no wider than a terminal: wide columns are shortened and, if that is not enough, some are left out.
 * @param room cells of a line; undefined if nothing may be cut
 * @returns the lines, and how many columns they show
 */
export function fittedTable(
  titles: readonly string[],
  cells: readonly (readonly string[])[],
  room: number | undefined,
): { lines: string[]; shown: number } {
  const header = titles.map(visible);
  const rows = cells.map((row) => row.map(visible));
  const full = header.map((title, column) => {
    return rows.reduce((most, row) => Math.max(most, textWidth(row[column] ?? '')), textWidth(title));
  });
  const { shown, widths } = fitColumns(full, room ?? Number.POSITIVE_INFINITY);
  const numeric = header.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,%-]*$/.test(row[column] ?? '')),
  );
  const line = (row: readonly string[]) =>
    shown
      .map((column, index) => {
        const width = widths[index] as number;
        const text = shortened(row[column] ?? '', width);
        const pad = ' '.repeat(Math.max(0, width - textWidth(text)));
        return numeric[column] ? pad + text : text + pad;
      })
      .join(' '.repeat(gap))
      .trimEnd();
  return { lines: [line(header), ...rows.map(line)], shown: shown.length };
}

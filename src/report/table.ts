import { visible } from '../core/printable.js';

/** Lines with columns as wide as their widest cell; numbers are aligned to the right. A cell never breaks a line. */
export function table(titles: readonly string[], cells: readonly (readonly string[])[]): string[] {
  const header = titles.map(visible);
  const rows = cells.map((row) => row.map(visible));
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const numeric = header.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,%-]*$/.test(row[column] ?? '')),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        numeric[column] ? cell.padStart(widths[column] as number) : cell.padEnd(widths[column] as number),
      )
      .join('  ')
      .trimEnd();
  return [line(header), ...rows.map(line)];
}

import { escapeCsvFormula } from '../core/csv-formulas.js';

/** How rows of a query can be printed. */
export const rowFormats = ['table', 'csv', 'json', 'markdown', 'arrow'] as const;
export type RowFormat = (typeof rowFormats)[number];

/** What happens to text that a spreadsheet program would run as a formula. */
export const csvFormulas = ['escape', 'keep'] as const;
export type CsvFormulas = (typeof csvFormulas)[number];

/** One line of comma-separated values, without its end. */
export function csvLine(cells: readonly string[], formulas: CsvFormulas): string {
  return cells.map((cell) => quoted(formulas === 'escape' ? escapeCsvFormula(cell) : cell)).join(',');
}

function quoted(value: string): string {
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

import { visible } from '../core/printable.js';

/** What Markdown would take for more than text. */
const marks = /[\\`*|<[\]~]/g;

function cell(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => visible(line).replace(marks, '\\$&'))
    .join('<br>');
}

/** One line of a Markdown table, without its end. */
export function markdownLine(cells: readonly string[]): string {
  return `| ${cells.map(cell).join(' | ')} |`;
}

/** The line below the titles: numbers are aligned to the right. */
export function markdownRule(numeric: readonly boolean[]): string {
  return `| ${numeric.map((right) => (right ? '---:' : '---')).join(' | ')} |`;
}

import { sqlText } from './sql.js';

/**
 * Spreadsheet programs run a cell of a CSV file as a formula if its text begins with one of a few characters. This is the one
 * rule for text in CSV that such programs may open: text that begins so gets an apostrophe before it. Numbers such as `-1.5`
 * stay as they are. Text that begins with apostrophes before such a character gets one more, so that the rule can be undone.
 */

/** Apostrophes, then what begins a formula: `= + - @`, a tab, a line break, and the full-width forms, which some programs fold. */
const formula = `^'*[=+\\-@\\t\\r\\n\\x{FF1D}\\x{FF0B}\\x{FF0D}\\x{FF20}]`;
const number = '[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?';

const isFormula = new RegExp(formula.replace(/\\x\{(\w+)\}/g, '\\u$1'));
const isNumber = new RegExp(`^${number}$`);

/** The text as a cell that no spreadsheet program takes for a formula. */
export function escapeCsvFormula(text: string): string {
  return isFormula.test(text) && !isNumber.test(text) ? `'${text}` : text;
}

/**
 * The same as DuckDB's SQL.
 * @param value SQL of a text
 */
export function escapeCsvFormulaSql(value: string): string {
  const escapes = `regexp_matches(${value}, ${sqlText(formula)}) AND NOT regexp_full_match(${value}, ${sqlText(number)})`;
  return `CASE WHEN ${escapes} THEN '''' || ${value} ELSE ${value} END`;
}

/**
 * DuckDB's SQL for the text as it was before {@link escapeCsvFormulaSql}.
 * @param value SQL of a text
 */
export function unescapeCsvFormulaSql(value: string): string {
  const escaped = sqlText(formula.replace("'*", "'+"));
  return `CASE WHEN regexp_matches(${value}, ${escaped}) THEN substr(${value}, 2) ELSE ${value} END`;
}

import { visible } from '../core/printable.js';

/** Cells between two columns. */
const gap = 2;
/** A shortened column keeps at least this many cells: enough to distinguish two values. */
const minWidth = 12;

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + gap * Math.max(0, widths.length - 1);
}

/** The widest columns give way first, down to a least width. */
function shortenedWidths(widths: readonly number[], space: number): number[] {
  const cells = space - gap * (widths.length - 1);
  let [low, high] = [minWidth, Math.max(minWidth, ...widths)];
  while (low < high) {
    const most = Math.ceil((low + high) / 2);
    if (widths.reduce((sum, width) => sum + Math.min(width, most), 0) <= cells) low = most;
    else high = most - 1;
  }
  const fitted = widths.map((width) => Math.min(width, low));
  let spare = cells - fitted.reduce((sum, width) => sum + width, 0);
  return fitted.map((width, column) => {
    const more = Math.min(Math.max(0, spare), (widths[column] as number) - width, 1);
    spare -= more;
    return width + more;
  });
}

/**
 * Fits columns into a width: shortens wide ones; if that is not enough, leaves out those in the middle, because the first identify a row
 * and the last are often computed from it.
 * @returns the positions of the columns that are shown, in their order, and their widths
 */
export function fitColumns(
  widths: readonly number[],
  space: number,
): { shown: readonly number[]; widths: readonly number[] } {
  const all = widths.map((_, column) => column);
  if (total(widths) <= space) return { shown: all, widths };
  const least = (columns: readonly number[]) =>
    total(columns.map((column) => Math.min(minWidth, widths[column] as number)));
  let shown = all;
  while (shown.length > 1 && least(shown) > space) {
    // Two of three from the front.
    const leftOut = Math.min(shown.length - 1, Math.ceil((shown.length * 2) / 3));
    shown = shown.filter((_, index) => index !== leftOut);
  }
  const chosen = shown.map((column) => widths[column] as number);
  if (shown.length === 1) return { shown, widths: [Math.min(chosen[0] as number, Math.max(1, space))] };
  return { shown, widths: total(chosen) <= space ? chosen : shortenedWidths(chosen, space) };
}

/** Scripts and signs that terminals show on two cells. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;
const none = /\p{Mn}|\p{Me}|[\u200b-\u200d]/u;
const plain = /^[\x20-\x7e]*$/;

function cellsOf(character: string): number {
  return none.test(character) ? 0 : wide.test(character) ? 2 : 1;
}

/** Cells that a text takes on a terminal. */
export function textWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += cellsOf(character);
  return width;
}

/** The text, or as much of it as fits with a `…` at its end. */
function shortened(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  let taken = 0;
  let kept = '';
  for (const character of text) {
    taken += cellsOf(character);
    if (taken > width - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

/** If nothing may be cut, a wider cell moves the rest of its line instead of all other lines. */
const widestColumn = 200;

/**
 * Lines with columns as wide as their widest cell; numbers are aligned to the right. A cell never breaks a line.
 * @param lineWidth cells of a terminal's line: in a narrower one, each row is its first cell with the others named below it
 */
export function table(titles: readonly string[], cells: readonly (readonly string[])[], lineWidth?: number): string[] {
  const printed = new PrintedTable(titles, undefined);
  const lines = [...cells.flatMap((row) => printed.add(row)), ...printed.end()];
  if (lineWidth === undefined || lines.every((line) => textWidth(line) <= lineWidth)) return lines;
  return cells.flatMap(([first = '', ...rest]) => {
    const named = rest.flatMap((cell, at) => (/^-?$/.test(cell) ? [] : [`${titles[at + 1]} ${cell}`.trim()]));
    return [visible(first), ...filledLines(named.map(visible), lineWidth)];
  });
}

/** Texts with commas between them, in as few indented lines as they take; one that is too long has its own. */
function filledLines(texts: readonly string[], lineWidth: number): string[] {
  const lines: string[] = [];
  for (const [at, text] of texts.entries()) {
    const part = at === texts.length - 1 ? text : `${text},`;
    const last = lines.at(-1);
    if (last !== undefined && textWidth(last) + 1 + textWidth(part) <= lineWidth)
      lines.splice(-1, 1, `${last} ${part}`);
    else lines.push(`  ${part}`);
  }
  return lines;
}

/** How the columns of a table are shown. */
interface Form {
  /** The positions of those that are. */
  readonly shown: readonly number[];
  readonly widths: readonly number[];
  readonly numeric: readonly boolean[];
}

function formOf(header: readonly string[], rows: readonly (readonly string[])[], space: number | undefined): Form {
  const full = header.map((title, column) => {
    const widest = rows.reduce((most, row) => Math.max(most, textWidth(row[column] ?? '')), textWidth(title));
    return space === undefined ? Math.min(widest, widestColumn) : widest;
  });
  const numeric = header.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,%-]*$/.test(row[column] ?? '')),
  );
  return { ...fitColumns(full, space ?? Number.POSITIVE_INFINITY), numeric };
}

/** The memory of a cell beside its characters, in characters. */
const cellCharacters = 30;

/** The first characters of a text, without the memory of the others. */
function startOf(text: string, characters: number): string {
  if (text.length <= characters) return text;
  return Buffer.from(text.slice(0, characters), 'utf16le').toString('utf16le');
}

/**
 * A table that is printed while its rows arrive. One that is no wider than a terminal waits for the last: its wide columns are shortened
 * or, if that is not enough, left out.
 */
export class PrintedTable {
  readonly #header: readonly string[];
  readonly #space: number | undefined;
  readonly #heldCharacters: number;
  /** The rows before the first line: the columns are as wide as these need. */
  #held: (readonly string[])[] = [];
  #characters = 0;
  #form: Form | undefined;
  #cut = 0;

  /**
   * @param space cells of a terminal's line; undefined if nothing may be cut
   * @param heldCharacters of the rows by which the widths are chosen, if nothing may be cut
   */
  constructor(titles: readonly string[], space: number | undefined, heldCharacters = 10_000_000) {
    this.#header = titles.map(visible);
    this.#space = space;
    this.#heldCharacters = heldCharacters;
  }

  /** The number of columns in it, when it has ended. */
  get shown(): number {
    return this.#form?.shown.length ?? 0;
  }

  /** Values that are shortened. */
  get cut(): number {
    return this.#cut;
  }

  /** @returns the lines that can be printed by now */
  add(cells: readonly string[]): string[] {
    const row = cells.map((cell) => visible(this.#space === undefined ? cell : startOf(cell, 2 * this.#space)));
    if (this.#form !== undefined) return [this.#line(row, this.#form)];
    this.#held.push(row);
    // On a terminal a cell is short, and one that is wider than its column would be cut.
    if (this.#space !== undefined) return [];
    for (const { length } of cells) this.#characters += length + cellCharacters;
    return this.#characters > this.#heldCharacters ? this.#begin() : [];
  }

  /** The lines that are not printed yet. */
  end(): string[] {
    return this.#form === undefined ? this.#begin() : [];
  }

  #begin(): string[] {
    const form = formOf(this.#header, this.#held, this.#space);
    const header = this.#line(this.#header, form);
    this.#cut = 0;
    const lines = [header, ...this.#held.map((row) => this.#line(row, form))];
    [this.#form, this.#held] = [form, []];
    return lines;
  }

  #line(row: readonly string[], { shown, widths, numeric }: Form): string {
    return shown
      .map((column, index) => {
        const width = widths[index] as number;
        const whole = row[column] ?? '';
        const text = this.#space === undefined ? whole : shortened(whole, width);
        if (text !== whole) this.#cut += 1;
        const pad = ' '.repeat(Math.max(0, width - textWidth(text)));
        return numeric[column] ? pad + text : text + pad;
      })
      .join(' '.repeat(gap))
      .trimEnd();
  }
}

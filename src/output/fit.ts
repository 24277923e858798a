/** Cells between two columns. */
export const gap = 2;
/** A shortened column keeps at least so many cells: enough to tell one value from another. */
const leastWidth = 12;

/** What of a table fits into a line. */
interface Fit {
  /** Positions of the columns that are shown, in their order. */
  readonly shown: readonly number[];
  /** Their widths. */
  readonly widths: readonly number[];
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + gap * Math.max(0, widths.length - 1);
}

/** The widest columns give way first, down to a least width. */
function shortenedWidths(widths: readonly number[], room: number): number[] {
  const cells = room - gap * (widths.length - 1);
  let [low, high] = [leastWidth, Math.max(leastWidth, ...widths)];
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
 * Fits columns into a width: shortens wide ones; if that is not enough, leaves out those in the middle, for the first say what a row
 * is and the last often what was computed of it.
 */
export function fitColumns(widths: readonly number[], room: number): Fit {
  const all = widths.map((_, column) => column);
  if (total(widths) <= room) return { shown: all, widths };
  const least = (columns: readonly number[]) =>
    total(columns.map((column) => Math.min(leastWidth, widths[column] as number)));
  let shown = all;
  while (shown.length > 1 && least(shown) > room) {
    // Two of three from the front.
    const leftOut = Math.min(shown.length - 1, Math.ceil((shown.length * 2) / 3));
    shown = shown.filter((_, index) => index !== leftOut);
  }
  const chosen = shown.map((column) => widths[column] as number);
  if (shown.length === 1) return { shown, widths: [Math.min(chosen[0] as number, Math.max(1, room))] };
  return { shown, widths: total(chosen) <= room ? chosen : shortenedWidths(chosen, room) };
}

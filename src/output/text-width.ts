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
export function shortened(text: string, width: number): string {
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

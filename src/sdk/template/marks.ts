/**
 * Marks for characters that mean something in a template. A variable's value, which may be a secret, is put into a text with marks in
 * their place, so that nothing in it is ever read as a template. The marks are code points of Unicode that are not characters.
 */
const marked = '{}%"\'\\';
const firstMark = 0xfdd0;

const marks = /[\ufdd0-\ufdd5]/g;

/** A variable's value, to be put into the text of a template. */
export function markedLiteral(value: string): string {
  return value.replace(/[{}%"'\\]/g, (character) => String.fromCharCode(firstMark + marked.indexOf(character)));
}

const meant = (mark: string) => marked[mark.charCodeAt(0) - firstMark] as string;

/** A text outside of placeholders as it is meant. */
export function unmarked(text: string): string {
  return text.replace(marks, meant);
}

/** A part inside of a placeholder: in a quoted text, an escape represents the character. */
export function escapedMarks(part: string): string {
  return part.replace(marks, (mark) => `\\u${meant(mark).charCodeAt(0).toString(16).padStart(4, '0')}`);
}

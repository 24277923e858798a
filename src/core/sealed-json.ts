import { crc32 } from 'node:zlib';

/** Ends JSON that is sealed: the checksum of all before it. */
const seal = /,"crc":"([0-9a-f]{8})"\}$/;

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}

/** An object as JSON that ends with a checksum. @param content has at least one member */
export function sealedJson(content: object): string {
  const text = JSON.stringify(content).slice(0, -1);
  return `${text},"crc":"${checksum(text)}"}`;
}

/** The object in JSON that may be sealed; undefined if the content is not the one that was sealed. @throws {SyntaxError} */
export function parseSealed(json: string): { readonly isSealed: boolean; readonly content: unknown } | undefined {
  const [end, sum] = seal.exec(json) ?? [];
  if (end === undefined) return { isSealed: false, content: JSON.parse(json) };
  const text = json.slice(0, -end.length);
  return checksum(text) === sum ? { isSealed: true, content: JSON.parse(`${text}}`) } : undefined;
}

/** A line of a file, without its newline. @param number counts from 1 */
export function sealedLine(content: object, number: number): string {
  return sealedJson({ ...content, line: number });
}

/**
 * The content of a line that {@link sealedLine} made: a repeated, missing or altered line would add up to a wrong state.
 * @throws if it is not the line that was written there
 */
export function lineContent(line: string, number: number): unknown {
  const parsed = parseSealed(line);
  if (parsed?.isSealed !== true || (parsed.content as { line?: unknown }).line !== number) throw new Error('altered');
  return parsed.content;
}

/** Objects as lines with checksums and their number. */
export function sealedLines(contents: readonly object[]): string {
  return contents.map((content, index) => `${sealedLine({ ...content, of: contents.length }, index + 1)}\n`).join('');
}

/** The objects of {@link sealedLines}; an earlier build wrote lines without checksums. @throws if the text is not whole */
export function sealedContents(text: string): readonly object[] {
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.length === 0) throw new Error('the lines are missing');
  const first = parseSealed(lines[0] as string);
  // With a number it is one of ours, and what was altered is its checksum.
  if (first?.isSealed === false && !('line' in (first.content as object)))
    return lines.map((line) => JSON.parse(line) as object);
  return lines.map((line, index) => {
    const { line: _, of, ...content } = lineContent(line, index + 1) as { line: number; of: number };
    if (of !== lines.length) throw new Error('lines are missing');
    return content;
  });
}

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

import { crc32 } from 'node:zlib';

/** Ends each line: its number and the checksum of all before it. */
const lineEnd = /,"line":(\d+),"crc":"([0-9a-f]{8})"\}$/;

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}

/** A line of a file of JSON lines, without its newline. @param content has at least one member @param number counts from 1 */
export function checkedLine(content: object, number: number): string {
  const text = `${JSON.stringify(content).slice(0, -1)},"line":${number}`;
  return `${text},"crc":"${checksum(text)}"}`;
}

/**
 * The content of a line that {@link checkedLine} made. Number and checksum are compared: a repeated, missing or altered line would add
 * up to a wrong state.
 * @throws an error without words of its own if it is not the line that was written there
 */
export function lineContent(line: string, number: number): unknown {
  const [end = '', written, sum] = lineEnd.exec(line) ?? [];
  const before = line.slice(0, -end.length);
  if (Number(written) !== number || checksum(`${before},"line":${written}`) !== sum) throw new Error('altered');
  return JSON.parse(`${before}}`);
}

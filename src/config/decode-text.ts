import { isUtf8 } from 'node:buffer';
import { ConfigError } from './problem.js';

/**
 * The text of a file.
 * @param shown the file as messages name it
 * @throws ConfigError if it is not UTF-8
 */
export function decodeText(
  bytes: Buffer,
  shown: string,
  details: ConstructorParameters<typeof ConfigError>[1] = {},
): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  const message = utf16 ? 'the file is UTF-16; save it as UTF-8' : 'this is not UTF-8; save the file as UTF-8';
  const place = utf16 ? { line: 1, column: 1 } : firstBadByte(bytes);
  throw new ConfigError([{ file: shown, ...place, path: '', message }], details);
}

function firstBadByte(bytes: Buffer): { line: number; column: number } {
  let line = 1;
  for (let start = 0; ; line += 1) {
    const end = bytes.indexOf(0x0a, start);
    const content = bytes.subarray(start, end < 0 ? undefined : end);
    if (!isUtf8(content) || end < 0) {
      return { line, column: Math.max(content.toString('utf8').indexOf('\uFFFD'), 0) + 1 };
    }
    start = end + 1;
  }
}

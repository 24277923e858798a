import { MalformedBodyError } from '../../api/client.js';
import { jsonBytes } from './bytes.js';
import { skipSpace, skipValue } from './json-bytes.js';

const { closeBrace, comma, openBrace } = jsonBytes;

/**
 * Adds fields to the records between `start` and `end`, which are separated by commas. The new fields come first in each
 * record. A value that is not an object stays as it is.
 * @throws {MalformedBodyError} if the records are not valid JSON
 */
export function withFields(
  body: Buffer,
  start: number,
  end: number,
  fields: readonly (readonly [string, string])[],
): Buffer {
  const text = fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',');
  const [whole, alone] = [Buffer.from(`${text},`), Buffer.from(text)];
  const pieces: Buffer[] = [];
  let copied = start;
  let at = skipSpace(body, start);
  while (at < end) {
    const { end: behind } = skipValue(body, at);
    if (behind < 0 || behind > end) throw new MalformedBodyError('its records are not valid JSON');
    if (body[at] === openBrace) {
      const inside = at + 1;
      pieces.push(body.subarray(copied, inside), body[skipSpace(body, inside)] === closeBrace ? alone : whole);
      copied = inside;
    }
    at = skipSpace(body, behind);
    if (body[at] === comma) at = skipSpace(body, at + 1);
  }
  pieces.push(body.subarray(copied, end));
  return Buffer.concat(pieces);
}

import { MalformedBodyError } from '../../client/client.js';
import { jsonBytes } from './bytes.js';
import { skipSpace, skipValue } from './json-bytes.js';

const { closeBrace, comma, openBrace } = jsonBytes;

/**
 * The records between `start` and `end`, separated by commas, with fields put before those that they have. What is no
 * object stays as it is.
 * @throws {MalformedBodyError} where the records are no JSON
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
    if (behind < 0 || behind > end) throw new MalformedBodyError('its records are no JSON');
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

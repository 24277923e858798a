import { csvRows, type LoadColumn } from '../../src/sdk/index.js';

/** How deep MariaDB and MySQL let JSON be nested, by their errors for a deeper one, which name no row. */
const maxDepths = new Map([
  [4025, 31],
  [4038, 31],
  [3157, 100],
]);
const invalidJson = 3140;
const beyondPacket = 1301;

/** How deep lists and objects lie in each other in a text of JSON. */
function depthOf(json: string): number {
  let [depth, deepest, isText] = [0, 0, false];
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at] as string;
    if (character === '"') isText = !isText;
    else if (isText) at += character === '\\' ? 1 : 0;
    else if (character === '[' || character === '{') depth += 1;
    else if (character === ']' || character === '}') depth -= 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

/** A half of a pair of surrogates, written as an escape. */
const halfPair =
  /(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F][\da-fA-F]{2})|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F][\da-fA-F]{2})/;

/** Whether MySQL takes a text of JSON for invalid: it has a number that no double holds, or half of a character. */
function isInvalid(json: string): boolean {
  if (halfPair.test(json)) return true;
  let isText = false;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at] as string;
    if (character === '"') isText = !isText;
    else if (isText) at += character === '\\' ? 1 : 0;
    else if (character >= '0' && character <= '9') {
      const [number] = /^[\d.eE+-]+/.exec(json.slice(at, at + 4096)) as RegExpExecArray;
      if (!Number.isFinite(Number(number))) return true;
      at += number.length - 1;
    }
  }
  return false;
}

/** A value of a file, by its place. */
export interface Place {
  readonly row: number;
  readonly column: string;
}

async function* jsonValues(path: string, columns: readonly LoadColumn[]): AsyncGenerator<Place & { json: string }> {
  let row = 0;
  for await (const values of csvRows(path)) {
    row += 1;
    for (const [index, { name, targetType }] of columns.entries())
      if (targetType === 'json') yield { row, column: name, json: values[index] ?? '' };
  }
}

/**
 * The values of JSON in a CSV file that an error without a row can only be about; of an error about the length of one, the longest.
 * Rows are counted from 1.
 */
export async function refusedJson(path: string, columns: readonly LoadColumn[], errno: number): Promise<Place[]> {
  const maxDepth = maxDepths.get(errno);
  if (maxDepth === undefined && errno !== invalidJson && errno !== beyondPacket) return [];
  const refused: Place[] = [];
  let longest: (Place & { bytes: number }) | undefined;
  for await (const { row, column, json } of jsonValues(path, columns)) {
    const bytes = Buffer.byteLength(json);
    if (bytes > (longest?.bytes ?? 0)) longest = { row, column, bytes };
    if (maxDepth === undefined ? errno === invalidJson && isInvalid(json) : depthOf(json) > maxDepth)
      refused.push({ row, column });
  }
  if (errno === beyondPacket && longest !== undefined) return [longest];
  return refused;
}

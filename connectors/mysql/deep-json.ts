import { csvRows, type LoadColumn } from '../../src/sdk/index.js';

/** How deep MariaDB lets JSON be nested. Its error for a deeper one names no row. */
const mostDepth = 31;

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

/** The rows of a CSV file whose JSON is nested too deep, counted from 1, each with the first such column. */
export async function deepRows(
  path: string,
  columns: readonly LoadColumn[],
): Promise<{ row: number; column: string }[]> {
  const found: { row: number; column: string }[] = [];
  let row = 0;
  for await (const values of csvRows(path)) {
    row += 1;
    const isDeep = ({ targetType }: LoadColumn, index: number) =>
      targetType === 'json' && depthOf(values[index] ?? '') > mostDepth;
    const deep = columns.find(isDeep);
    if (deep !== undefined) found.push({ row, column: deep.name });
  }
  return found;
}

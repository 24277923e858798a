const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The members of a JSON object, each value as its JSON text: no digit of a number is lost. */
export function membersOf(json: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | undefined;
  let from = -1;
  for (const { 0: found, index } of json.matchAll(token)) {
    if (depth === 1 && name !== undefined && from >= 0 && (found === ',' || found === '}')) {
      members.set(name, json.slice(from, index).trim());
      [name, from] = [undefined, -1];
    } else if (depth === 1 && name === undefined && found.startsWith('"')) name = JSON.parse(found) as string;
    else if (depth === 1 && from < 0 && found === ':') from = index + 1;
    if (found === '{' || found === '[') depth += 1;
    else if (found === '}' || found === ']') depth -= 1;
  }
  return members;
}

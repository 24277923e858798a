/** Edit distance with adjacent swaps counted once (optimal string alignment). */
function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const cost = a[row - 1] === b[column - 1] ? 0 : 1;
      let best = Math.min(
        (last[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (last[column - 1] as number) + cost,
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        best = Math.min(best, (beforeLast[column - 2] as number) + 1);
      }
      current.push(best);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] as number;
}

/** Words of other tools, and the ones for the same here. */
const synonyms: Readonly<Record<string, readonly string[]>> = {
  type: ['connector', 'source'],
  kind: ['connector', 'source'],
  host: ['url'],
  hostname: ['url'],
  database: ['url', 'schema'],
  dataset: ['schema'],
  primary_key: ['key'],
  where: ['filter'],
  overwrite: ['replace'],
  truncate: ['replace'],
  full_refresh: ['replace'],
  insert: ['append'],
  merge: ['upsert'],
  sync: ['mirror'],
  error: ['failed'],
  failure: ['failed'],
  success: ['ok'],
};

/** The candidate that means the same as a word of other tools, or else the one that looks most like it. */
export function meant(name: string, candidates: readonly string[]): string | undefined {
  const same = Object.hasOwn(synonyms, name) ? synonyms[name]?.find((word) => candidates.includes(word)) : undefined;
  return same ?? nearest(name, candidates, 1)[0];
}

/** The candidates that look most like `name`, nearest first; leaves out those that differ in more than about a third. */
export function nearest(name: string, candidates: Iterable<string>, most = 3): string[] {
  const wanted = name.toLowerCase();
  return [...new Set(candidates)]
    .map((candidate) => {
      const lower = candidate.toLowerCase();
      const near = lower.startsWith(wanted) || (wanted.length > 3 && lower.includes(wanted));
      return { candidate, score: near ? 1 : distance(wanted, lower) };
    })
    .filter(({ candidate, score }) => score <= Math.max(2, Math.ceil(Math.max(name.length, candidate.length) / 3)))
    .map((candidate) => ({ ...candidate, exact: distance(name, candidate.candidate) }))
    .sort((a, b) => a.score - b.score || a.exact - b.exact || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, most)
    .map(({ candidate }) => candidate);
}

/** A hint for a name that does not exist: the names nearest to it, or all. @param of begins the list of all: `its streams` */
export function nameHint(of: string, name: string, knownNames: readonly string[]): string {
  const parts = name.split(',').map((part) => part.trim());
  if (parts.length > 1 && parts.every((part) => knownNames.includes(part)))
    return `name one at a time, and repeat the option: ${parts.map((part) => `"${part}"`).join(', ')}`;
  const near = nearest(name, knownNames);
  if (near.length > 0) return `did you mean ${near.map((name) => `"${name}"`).join(' or ')}?`;
  return `${of}: ${knownNames.join(', ') || 'none'}`;
}

import { type Document, isScalar, type Pair, type Scalar, visit } from 'yaml';

/** Keys whose values are SQL. */
const ofSql: ReadonlySet<unknown> = new Set(['query', 'sql']);

function isPlain(node: unknown): node is Scalar {
  return isScalar(node) && node.type === 'PLAIN' && node.range != null;
}

/** A word of a map in braces that no colon follows. */
function isLooseWord({ key, value }: Pair): boolean {
  return value === null && isPlain(key);
}

/**
 * Joins SQL again that stands in braces without quotes: `{ query: select id, ltv from members }`. YAML ends a plain text at a comma
 * there, and takes `ltv from members` for a key. No key with SQL is followed by one without a value, so nothing else is meant.
 * @param text what the document was parsed from
 */
export function joinFlowQueries(document: Document, text: string): void {
  visit(document, {
    Map: (_, map) => {
      if (map.flow !== true) return;
      for (const [at, { key, value }] of map.items.entries()) {
        if (!isScalar(key) || !ofSql.has(key.value) || !isPlain(value)) continue;
        const rest = map.items.slice(at + 1).findIndex((pair) => !isLooseWord(pair));
        const loose = map.items.slice(at + 1, rest < 0 ? undefined : at + 1 + rest);
        const last = loose.at(-1)?.key as Scalar | undefined;
        if (last?.range == null || value.range == null) continue;
        const [from] = value.range;
        const [, end, after] = last.range;
        value.value = text.slice(from, end).replace(/\s*\n\s*/g, ' ');
        value.source = value.value as string;
        value.range = [from, end, after];
        map.items.splice(at + 1, loose.length);
      }
    },
  });
}

/**
 * Where the SQL without quotes begins that an error in a map in braces comes from; undefined if there is none.
 * @param offset of the error
 */
export function brokenQuery(document: Document, offset: number): number | undefined {
  let found: number | undefined;
  visit(document, {
    Map: (_, map) => {
      const [from = 0, to = 0] = map.range ?? [];
      if (map.flow !== true || offset < from || offset > to) return;
      const before = map.items.findLast(
        ({ key }) => isScalar(key) && (key.range?.[0] ?? offset) < offset && ofSql.has(key.value),
      );
      // The innermost map is visited last.
      found = before !== undefined && isPlain(before.value) ? before.value.range?.[0] : undefined;
    },
  });
  return found;
}

/** The values at a path of a response or a body: members by name or number, `*` for any member. */
export function valuesAt(value: unknown, path: string): unknown[] {
  let values = [value];
  for (const step of path === '' ? [] : path.split('.')) {
    values = values.flatMap((part): unknown[] => {
      if (typeof part !== 'object' || part === null) return [];
      if (step === '*') return Object.values(part);
      return Object.hasOwn(part, step) ? [(part as Record<string, unknown>)[step]] : [];
    });
  }
  return values;
}

/** Strings of JSON as they are, the last one even without its end, and numbers that JSON lacks, which some programs write. */
const notFinite = /("[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?$))|-?\b(?:NaN|Infinity)\b/g;

/** The JSON of a response; undefined if it has none. */
export function parsedBody(body: string): unknown {
  // Some servers begin with the mark of their encoding.
  const text = body.replace(/^\uFEFF/, '');
  return (
    jsonIn(text) ??
    (/NaN|Infinity/.test(text) ? jsonIn(text.replace(notFinite, (_, string) => string ?? 'null')) : undefined)
  );
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

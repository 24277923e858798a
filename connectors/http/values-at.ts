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

import { readFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

/** The modules that a file imports when it is loaded: without types, and without later imports. */
function loaded(text: string): string[] {
  const statements = text.matchAll(/^(?:import|export) (?!type )[^;]*?from '([^']+)';/gms);
  return [...statements].map((match) => match[1] as string);
}

/** Files and packages that loading this file loads, with the file that imports each. */
async function everythingLoaded(entry: string): Promise<Map<string, string>> {
  const found = new Map<string, string>([[resolve(entry), '']]);
  for (const file of found.keys()) {
    if (!file.endsWith('.ts')) continue;
    for (const specifier of loaded(await readFile(file, 'utf8'))) {
      const target = specifier.startsWith('.') ? resolve(dirname(file), specifier.replace(/\.js$/, '.ts')) : specifier;
      if (!found.has(target)) found.set(target, relative('.', file));
    }
  }
  return found;
}

it('reading a configuration loads neither the client nor DuckDB, whatever sources and connectors there are', async () => {
  const found = await everythingLoaded('src/config/load.ts');
  expect(found.has(resolve('src/sources/sql.ts'))).toBe(true);
  const packages = [...found].filter(([name]) => !name.startsWith('/') && !name.startsWith('node:'));
  expect(packages.filter(([name]) => name !== 'zod' && name !== 'yaml')).toEqual([]);
  const heavy = ['src/api/client.ts', 'src/storage/duckdb.ts'];
  expect(heavy.flatMap((file) => found.get(resolve(file)) ?? [])).toEqual([]);
});

// Which tests are to notice a mutant: those that import the file, directly or by as few steps as possible.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

function filesBelow(folder, ending) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
}

/** The files whose code a file runs. One of which it imports only types is not among them: its mutants would change nothing there. */
function importsOf(file) {
  const text = readFileSync(file, 'utf8');
  const statements = text.matchAll(/^(?:import|export) (?!type )([^;]*?)from '(\.[^']+)\.js'/gm);
  const run = [...statements]
    .filter(([, names]) => !/^\{(\s*type [^,}]+,?)*\s*\}\s*$/.test(names))
    .map(([, , path]) => path);
  const late = [...text.matchAll(/import\('(\.[^']+)\.js'\)/g)].map(([, path]) => path);
  return [...run, ...late].map((path) => `${resolve(dirname(file), path)}.ts`);
}

/**
 * @param root folder of the repository
 * @param steps how many more steps than the shortest count
 * @returns paths of unit tests
 */
export function testsOf(root, file, steps) {
  const tests = filesBelow(join(root, 'test', 'unit'), '.test.ts');
  const files = ['src', 'connectors', 'test'].flatMap((folder) => filesBelow(join(root, folder), '.ts'));
  const importers = new Map();
  for (const each of files)
    for (const imported of importsOf(each)) importers.set(imported, [...(importers.get(imported) ?? []), each]);
  const distances = new Map([[file, 0]]);
  for (const [reached, distance] of distances)
    for (const next of importers.get(reached) ?? []) if (!distances.has(next)) distances.set(next, distance + 1);
  const reaching = tests.filter((test) => distances.has(test));
  const nearest = Math.min(...reaching.map((test) => distances.get(test)));
  return reaching.filter((test) => distances.get(test) <= nearest + steps);
}

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';

/**
 * Folders of `src/`, the lowest floor first: a folder imports from the lines above its own. A sub-folder that is named here has
 * its own floor; any other belongs to the folder around it.
 */
const lines = [
  ['core'],
  ['sdk', 'columns'],
  ['connectors'],
  ['rate-limit', 'local-service'],
  ['api', 'storage'],
  ['sources'],
  ['config'],
  ['extract/scan'],
  ['extract/convert', 'record-cache'],
  ['object-store', 'notify'],
  ['metrics'],
  ['extract', 'snapshot'],
  ['delivery'],
  ['pages'],
  ['engine'],
  ['engine/workflow'],
  ['engine/run'],
  ['engine/plan', 'engine/inspect', 'engine/admin'],
  ['output', 'conformance'],
  ['mcp'],
  ['cli'],
  ['cli/init'],
];
/**
 * The local service must not share code with the client that is tested against it; connectors use the public surface
 * only; the code that reads the configuration loads neither the client nor DuckDB.
 */
const narrower: Record<string, readonly string[]> = {
  'local-service': ['core'],
  connectors: ['sdk'],
  config: ['core', 'sdk', 'connectors', 'sources', 'rate-limit'],
};
/** Folders that only these folders may import: the connectors, and the test harness for authors of connectors. */
const knownTo: Record<string, readonly string[]> = { connectors: ['config'], conformance: [] };
/** The list of commands names every command's file, wherever it is, and loads it when it is asked for. */
const lists = new Set(['src/cli/commands.ts imports ./init/init.js']);

function allowed(folder: string): readonly string[] {
  const above = lines.slice(
    0,
    lines.findIndex((line) => line.includes(folder)),
  );
  return narrower[folder] ?? above.flat().filter((each) => knownTo[each]?.includes(folder) ?? true);
}

async function sources(folder: string): Promise<string[]> {
  const entries = await entriesBelow(folder);
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function imports(text: string): string[] {
  const pattern = /(?:\bfrom|\bimport)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g;
  return [...text.matchAll(pattern)].map((match) => match[1] as string);
}

/** Where a file belongs: a folder of `src/`, or `connectors`, and there the connector; undefined at the top of `src/`. */
function placeOf(root: string, file: string): { folder: string; connector?: string } | undefined {
  const [top, folder = '', ...inside] = relative(root, file).split('/');
  if (top === 'connectors') return { folder: 'connectors', connector: inside.length === 0 ? '' : folder };
  if (inside.length === 0) return undefined;
  const inner = `${folder}/${inside[0]}`;
  return { folder: lines.flat().includes(inner) ? inner : folder };
}

function mayImport(root: string, file: string, target: string): boolean {
  const [from, to] = [placeOf(root, file), placeOf(root, target)];
  if (from === undefined || to === undefined) return from === undefined;
  if (from.connector !== undefined && from.connector !== '') {
    // The public surface, and the connector's own files.
    return to.folder === 'connectors'
      ? to.connector === from.connector
      : relative(root, target) === join('src', 'sdk', 'index.js');
  }
  return to.folder === from.folder || allowed(from.folder).includes(to.folder);
}

/** Files that import themselves through others, types included, each circle as the files on its way. */
async function circles(root: string): Promise<string[]> {
  const files = [...(await sources(join(root, 'src'))), ...(await sources(join(root, 'connectors')))];
  const graph = new Map<string, string[]>();
  for (const file of files) {
    const targets = imports(await readFile(file, 'utf8')).map((each) =>
      resolve(dirname(file), each).replace(/\.js$/, '.ts'),
    );
    graph.set(file, targets);
  }
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]) => {
    if (way.includes(file)) {
      found.push([...way.slice(way.indexOf(file)), file].map((each) => relative(root, each)).join(' -> '));
      return;
    }
    if (done.has(file)) return;
    for (const target of graph.get(file) ?? []) visit(target, [...way, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  return found;
}

/** Every import that goes where it may not, as a sentence. */
async function violations(root: string): Promise<string[]> {
  const found: string[] = [];
  for (const file of [...(await sources(join(root, 'src'))), ...(await sources(join(root, 'connectors')))]) {
    const place = placeOf(root, file);
    for (const specifier of imports(await readFile(file, 'utf8'))) {
      if (place === undefined || mayImport(root, file, resolve(dirname(file), specifier))) continue;
      const words = allowed(place.folder).join(', ') || 'nothing';
      const sentence = `${relative(root, file)} imports ${specifier}`;
      if (!lists.has(sentence)) found.push(`${sentence}: ${place.folder} may import ${words}`);
    }
  }
  return found;
}

describe('folders import only from lower floors', () => {
  it('holds in src/ and connectors/', async () => {
    expect(await violations(resolve('.'))).toEqual([]);
  });

  it('finds no circle, neither of files nor of their types', async () => {
    expect(await circles(resolve('.'))).toEqual([]);
  });

  it('requires packages of a hundred files, and imports none of them: Node takes twice as long, at each start', async () => {
    const ofMany = /^import (?!type\b)[^;]*?\bfrom '(?:zod|yaml|undici|@duckdb\/node-api)';/m;
    const files = [...(await sources('src')), ...(await sources('connectors'))];
    const importing = await Promise.all(files.map(async (file) => ofMany.test(await readFile(file, 'utf8'))));
    expect(files.filter((_, index) => importing[index])).toEqual([]);
  });

  it('knows every folder of src/', async () => {
    const folders = (await readdir('src', { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect(folders.filter((folder) => !lines.flat().includes(folder))).toEqual([]);
    const inner = (await readdir('src/engine', { withFileTypes: true })).filter((entry) => entry.isDirectory());
    expect(inner.filter(({ name }) => !lines.flat().includes(`engine/${name}`))).toEqual([]);
  });

  it('finds forbidden imports and a circle in a folder that has them', async () => {
    const root = await mkdtemp(join(tmpdir(), 'import-rules-'));
    const write = async (path: string, text: string) => {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    };
    try {
      await write('src/core/clock.ts', "export type { X } from '../api/client.js';\n");
      await write('src/local-service/page.ts', "const { y } = await import('../api/client.js');\n");
      await write('src/extract/staging.ts', "import '../snapshot/diff.js';\nimport '../core/clock.js';\n");
      await write('src/sdk/load.ts', "import '../conformance/harness.js';\n");
      await write('src/engine/recover.ts', "import './run/run-job.js';\n");
      await write('src/engine/plan/plan-job.ts', "import '../admin/job-state.js';\nimport '../run/run-job.js';\n");
      await write('src/storage/a.ts', "import './b.js';\n");
      await write('src/storage/b.ts', "import type { A } from './a.js';\n");
      await write('src/delivery/plan.ts', "import '../../connectors/postgres/types.js';\n");
      await write('src/config/job.ts', "import '../../connectors/index.js';\n");
      await write('connectors/postgres/load.ts', "import '../duckdb/types.js';\nimport '../../src/sdk/index.js';\n");
      await write('connectors/duckdb/load.ts', "import '../../src/sdk/load.js';\nimport './types.js';\n");
      const found = await violations(root);
      expect(found.map((line) => line.split(':')[0]).sort()).toEqual([
        'connectors/duckdb/load.ts imports ../../src/sdk/load.js',
        'connectors/postgres/load.ts imports ../duckdb/types.js',
        'src/core/clock.ts imports ../api/client.js',
        'src/delivery/plan.ts imports ../../connectors/postgres/types.js',
        'src/engine/plan/plan-job.ts imports ../admin/job-state.js',
        'src/engine/recover.ts imports ./run/run-job.js',
        'src/extract/staging.ts imports ../snapshot/diff.js',
        'src/local-service/page.ts imports ../api/client.js',
        'src/sdk/load.ts imports ../conformance/harness.js',
      ]);
      expect(await circles(root)).toEqual(['src/storage/a.ts -> src/storage/b.ts -> src/storage/a.ts']);
    } finally {
      await rm(root, { recursive: true });
    }
  });

  it('has every connector of the folder in the list of those that come with cdsync', async () => {
    const { connectors } = await import('../../connectors/index.js');
    const folders = (await readdir('connectors', { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect(connectors.map(({ name }) => name).sort()).toEqual(folders.sort());
  });
});

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

/** Folders, those that know least first: a folder imports from the lines above its own. */
const lines = [
  ['core'],
  ['sdk'],
  ['connectors'],
  ['config', 'client', 'store', 'local-service'],
  ['streams'],
  ['extract', 'snapshot'],
  ['deliver'],
  ['engine'],
  ['sdk/conformance'],
  ['report'],
  ['cli'],
];
/** The local service must not share code with the client that is tested against it; connectors see what others see. */
const narrower: Record<string, readonly string[]> = { 'local-service': ['core'], connectors: ['sdk'] };
/** What no folder but the command line's and the configuration's may know of: that these connectors exist. */
const connectorsKnownTo = ['config'];

function allowed(folder: string): readonly string[] {
  const above = lines.slice(
    0,
    lines.findIndex((line) => line.includes(folder)),
  );
  const known = above.flat().filter((each) => each !== 'connectors' || connectorsKnownTo.includes(folder));
  return narrower[folder] ?? known;
}

async function sources(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
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
  return { folder: folder === 'sdk' && inside[0] === 'conformance' ? 'sdk/conformance' : folder };
}

function mayImport(root: string, file: string, target: string): boolean {
  const [from, to] = [placeOf(root, file), placeOf(root, target)];
  if (from === undefined || to === undefined) return from === undefined;
  if (from.connector !== undefined && from.connector !== '') {
    // The public surface, and what is the connector's own.
    return to.folder === 'connectors'
      ? to.connector === from.connector
      : relative(root, target) === join('src', 'sdk', 'index.js');
  }
  return to.folder === from.folder || allowed(from.folder).includes(to.folder);
}

/** Every import that goes where it may not, as a sentence. */
async function violations(root: string): Promise<string[]> {
  const found: string[] = [];
  for (const file of [...(await sources(join(root, 'src'))), ...(await sources(join(root, 'connectors')))]) {
    const place = placeOf(root, file);
    for (const specifier of imports(await readFile(file, 'utf8'))) {
      if (place === undefined || mayImport(root, file, resolve(dirname(file), specifier))) continue;
      const words = allowed(place.folder).join(', ') || 'nothing';
      found.push(`${relative(root, file)} imports ${specifier}: ${place.folder} may import ${words}`);
    }
  }
  return found;
}

describe('folders import only from those above them', () => {
  it('holds in src/ and connectors/', async () => {
    expect(await violations(resolve('.'))).toEqual([]);
  });

  it('knows every folder of src/', async () => {
    const folders = (await readdir('src', { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect(folders.filter((folder) => !lines.flat().includes(folder))).toEqual([]);
  });

  it('sees a forbidden import that is planted', async () => {
    const root = await mkdtemp(join(tmpdir(), 'import-rules-'));
    const write = async (path: string, text: string) => {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    };
    try {
      await write('src/core/clock.ts', "export type { X } from '../client/client.js';\n");
      await write('src/local-service/page.ts', "const { y } = await import('../client/client.js');\n");
      await write('src/extract/spool.ts', "import '../snapshot/diff.js';\nimport '../core/clock.js';\n");
      await write('src/sdk/load.ts', "import './conformance/harness.js';\n");
      await write('src/deliver/plan.ts', "import '../../connectors/postgres/types.js';\n");
      await write('src/config/job.ts', "import '../../connectors/index.js';\n");
      await write('connectors/postgres/load.ts', "import '../duckdb/types.js';\nimport '../../src/sdk/index.js';\n");
      await write('connectors/duckdb/load.ts', "import '../../src/sdk/load.js';\nimport './types.js';\n");
      const found = await violations(root);
      expect(found.map((line) => line.split(':')[0]).sort()).toEqual([
        'connectors/duckdb/load.ts imports ../../src/sdk/load.js',
        'connectors/postgres/load.ts imports ../duckdb/types.js',
        'src/core/clock.ts imports ../client/client.js',
        'src/deliver/plan.ts imports ../../connectors/postgres/types.js',
        'src/extract/spool.ts imports ../snapshot/diff.js',
        'src/local-service/page.ts imports ../client/client.js',
        'src/sdk/load.ts imports ./conformance/harness.js',
      ]);
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

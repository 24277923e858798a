import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

/** Folders of `src/`, those that know least first: a folder imports from the lines above its own. */
const lines = [
  ['core'],
  ['sdk'],
  ['config', 'client', 'store', 'local-service'],
  ['streams'],
  ['extract', 'snapshot'],
  ['deliver'],
  ['engine'],
  ['report'],
  ['cli'],
];
/** The local service must not share code with the client that is tested against it. */
const narrower: Record<string, readonly string[]> = { 'local-service': ['core'] };

function allowed(folder: string): readonly string[] {
  return (
    narrower[folder] ??
    lines
      .slice(
        0,
        lines.findIndex((line) => line.includes(folder)),
      )
      .flat()
  );
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

/** Every import that goes where it may not, as a sentence. */
async function violations(src: string): Promise<string[]> {
  const found: string[] = [];
  for (const file of await sources(src)) {
    const [folder = '', inside] = relative(src, file).split('/');
    if (inside === undefined) continue;
    for (const specifier of imports(await readFile(file, 'utf8'))) {
      const [target = '', rest] = relative(src, resolve(dirname(file), specifier)).split('/');
      if (rest === undefined || target === folder || allowed(folder).includes(target)) continue;
      found.push(
        `${relative(src, file)} imports ${specifier}: ${folder} may import ${allowed(folder).join(', ') || 'nothing'}`,
      );
    }
  }
  return found;
}

describe('folders import only from those above them', () => {
  it('holds in src/', async () => {
    expect(await violations(resolve('src'))).toEqual([]);
  });

  it('knows every folder of src/', async () => {
    const folders = (await readdir('src', { withFileTypes: true }))
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect(folders.filter((folder) => !lines.flat().includes(folder))).toEqual([]);
  });

  it('sees a forbidden import that is planted', async () => {
    const src = await mkdtemp(join(tmpdir(), 'import-rules-'));
    try {
      for (const folder of ['core', 'client', 'local-service', 'extract', 'snapshot']) await mkdir(join(src, folder));
      await writeFile(join(src, 'core', 'clock.ts'), "export type { X } from '../client/client.js';\n");
      await writeFile(join(src, 'local-service', 'page.ts'), "const { y } = await import('../client/client.js');\n");
      await writeFile(join(src, 'extract', 'spool.ts'), "import '../snapshot/diff.js';\nimport '../core/clock.js';\n");
      const found = await violations(src);
      expect(found.map((line) => line.split(':')[0]).sort()).toEqual([
        'core/clock.ts imports ../client/client.js',
        'extract/spool.ts imports ../snapshot/diff.js',
        'local-service/page.ts imports ../client/client.js',
      ]);
    } finally {
      await rm(src, { recursive: true });
    }
  });
});

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

let folder: string;
let installed: string;
let packed: Packed;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-package-'));
  const out = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  [packed] = Object.values(JSON.parse(out) as Packed[] | Record<string, Packed>) as [Packed];
  execFileSync('tar', ['-xzf', join(folder, packed.filename), '-C', folder]);
  installed = join(folder, 'package');
  await symlink(resolve('node_modules'), join(installed, 'node_modules'));
}, 300_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

function run(...words: string[]): string {
  return execFileSync(process.execPath, [join(installed, 'dist', 'src', 'cli', 'main.js'), ...words], {
    cwd: folder,
    encoding: 'utf8',
  });
}

describe('the tarball', () => {
  it('holds what its readers need, and neither tests nor sources', () => {
    for (const file of [
      'README.md',
      'LICENSE',
      'CHANGELOG.md',
      'SECURITY.md',
      'configs/quickstart.yaml',
      'docs/errors.md',
      'dist/src/index.d.ts',
      'dist/src/sdk/index.d.ts',
      'dist/src/conformance/index.d.ts',
    ]) {
      expect([file, existsSync(join(installed, file))]).toEqual([file, true]);
    }
    for (const file of ['test', 'src', 'data', '.ci'])
      expect([file, existsSync(join(installed, file))]).toEqual([file, false]);
  });

  it('lists nothing but code, types, documents and examples, and is small', () => {
    const known = [
      /^dist\/(src|connectors)\/.*\.(js|js\.map|d\.ts)$/,
      /^dist\/sbom\.json$/,
      /^docs\/.*\.md$/,
      /^docs\/report\.png$/,
      /^docs\/metrics\/\w+\.(yml|json)$/,
      /^docs\/recipes\/[\w.-]+\.(yml|yaml|py|sh|js|service|timer)$/,
      /^connectors\/\w+\/README\.md$/,
      /^configs\/[\w.-]+\.(yaml|json|csv|txt)$/,
      /^(package\.json|LICENSE|[A-Z]+\.md)$/,
    ];
    expect(packed.files.map(({ path }) => path).filter((path) => !known.some((each) => each.test(path)))).toEqual([]);
    // 3.5 MB and 13.5 MB in November 2026, most of it source maps: code of a package, or a second copy, would show.
    expect(packed.size).toBeLessThan(4_500_000);
    expect(packed.unpackedSize).toBeLessThan(17_000_000);
  });

  it('has every file that its README links to', async () => {
    const readme = await readFile(join(installed, 'README.md'), 'utf8');
    const links = [...readme.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, path = '']) => path);
    expect(links.length).toBeGreaterThan(20);
    expect(links.filter((path) => !existsSync(join(installed, path)))).toEqual([]);
  });

  it('runs outside of the checkout', () => {
    expect(run('--version').trim()).toMatch(/^\d+\.\d+\.\d+$/);
    expect(run('--help')).toContain('cdsync run');
    expect(JSON.parse(run('schema'))).toHaveProperty('properties.jobs');
  });

  it('says in one line which Node it needs, before anything else is loaded', () => {
    const main = join(installed, 'dist', 'src', 'cli', 'main.js');
    const versions = `{ value: { ...process.versions, node: '18.20.8' } }`;
    const older = `data:text/javascript,Object.defineProperty(process, 'versions', ${versions})`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', older, main, 'run'], {
      encoding: 'utf8',
    });
    expect([status, stdout, stderr]).toEqual([
      2,
      '',
      'cdsync needs Node 20.19 or later, and this is Node 18.20.8: install a newer one\n',
    ]);
    const imported = [...readFileSync(main, 'utf8').matchAll(/\bfrom\s*'([^']*)'|\bimport\s*'/g)].map(
      ([, name]) => name,
    );
    expect(imported).toEqual(['node:fs']);
  });

  it("has the compiler's output of each source, with its map, and has no code of a package", async () => {
    const sourcesOf = async (root: string) =>
      (await readdir(root, { recursive: true }))
        .filter((name) => name.endsWith('.ts'))
        .map((name) => join(root, name.replace(/\.ts$/, '')));
    const sources = (await Promise.all(['src', 'connectors'].map(sourcesOf))).flat().sort();
    const made = packed.files.map(({ path }) => path).filter((path) => path.startsWith('dist/'));
    const expected = sources.flatMap((name) => ['.js', '.js.map', '.d.ts'].map((suffix) => `dist/${name}${suffix}`));
    expect(made.sort()).toEqual(expected.sort());
    for (const name of ['src/cli/program', 'src/sdk/postgres/load']) {
      const { sources, sourcesContent } = JSON.parse(readFileSync(join(installed, `dist/${name}.js.map`), 'utf8'));
      expect([sources.length, sourcesContent]).toEqual([1, [await readFile(`${name}.ts`, 'utf8')]]);
    }
  });

  it('runs with the HTTP client that is installed: another one, by `overrides`, takes its place', async () => {
    const other = join(folder, 'other');
    await cp(join(installed, 'dist'), join(other, 'dist'), { recursive: true });
    await cp(join(installed, 'package.json'), join(other, 'package.json'));
    await mkdir(join(other, 'node_modules'));
    for (const name of await readdir('node_modules'))
      if (name !== 'undici') await symlink(resolve('node_modules', name), join(other, 'node_modules', name));
    const client = join(other, 'node_modules', 'undici');
    await mkdir(client);
    await writeFile(join(client, 'package.json'), '{ "name": "undici", "version": "99.0.0", "main": "index.cjs" }');
    await writeFile(join(client, 'index.cjs'), "throw new Error('the other client was loaded');");
    const main = join(other, 'dist', 'src', 'core', 'undici.js');
    const { stderr } = spawnSync(process.execPath, [main], { encoding: 'utf8' });
    expect(stderr).toContain('the other client was loaded');
  });

  it('imports only packages that are installed with it', async () => {
    const { dependencies, peerDependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
    const files = await readdir(join(installed, 'dist'), { recursive: true });
    const texts = await Promise.all(
      files.filter((file) => file.endsWith('.js')).map((file) => readFile(join(installed, 'dist', file), 'utf8')),
    );
    const imported = texts.flatMap((text) =>
      [
        ...text.matchAll(
          /(?:^(?:import|export)\b[^']*\bfrom |^import |\b(?:import|load|createRequire\(import\.meta\.url\))\()'((?:@[\w-]+\/)?[a-z][\w-]*(?:\/[\w./-]+)?)'/gm,
        ),
      ].map(([, name = '']) => name),
    );
    const names = new Set(
      imported
        .filter((name) => !isBuiltin(name) && !name.startsWith('node:'))
        .map((name) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0]),
    );
    // The tester of a connector installs Vitest.
    expect([...names]).toEqual(expect.arrayContaining(['@duckdb/node-api', 'undici', 'yaml', 'zod']));
    expect([...names].filter((name = '') => !(name in { ...dependencies, ...peerDependencies, vitest: '' }))).toEqual(
      [],
    );
  });

  it('can be imported', async () => {
    await writeFile(
      join(installed, 'try.mjs'),
      `import { CdsyncError, loadConfig, run } from 'cdsync';
       import * as sdk from 'cdsync/sdk';
       import { tableConformance } from 'cdsync/sdk/conformance';
       console.log(typeof loadConfig, typeof run, typeof sdk.tableConnector, typeof tableConformance, sdk.CdsyncError === CdsyncError);`,
    );
    expect(execFileSync(process.execPath, [join(installed, 'try.mjs')], { encoding: 'utf8' }).trim()).toBe(
      'function function function function true',
    );
  });
});

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
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
      /^dist\/(src|chunks|connectors)\/.*\.(js|d\.ts)$/,
      /^dist\/chunks\/LICENSES\.txt$/,
      /^docs\/.*\.md$/,
      /^docs\/report\.png$/,
      /^docs\/metrics\/\w+\.(yml|json)$/,
      /^connectors\/\w+\/README\.md$/,
      /^configs\/[\w.-]+\.(yaml|json|csv|txt)$/,
      /^(package\.json|LICENSE|[A-Z]+\.md)$/,
    ];
    expect(packed.files.map(({ path }) => path).filter((path) => !known.some((each) => each.test(path)))).toEqual([]);
    // 0.8 MB and 3.5 MB in November 2026: a bundled package too many or a source map would double it.
    expect(packed.size).toBeLessThan(1_500_000);
    expect(packed.unpackedSize).toBeLessThan(6_000_000);
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
    const imported = [...readFileSync(main, 'utf8').matchAll(/\bfrom\s*"([^"]*)"|\bimport\s*"/g)].map(
      ([, name]) => name,
    );
    expect(imported).toEqual(['node:fs']);
  });

  it('has the licence of each package whose code it contains', async () => {
    const notices = await readFile(join(installed, 'dist', 'chunks', 'LICENSES.txt'), 'utf8');
    const packages = [...notices.matchAll(/^(\S+) [\d.r-]+ \((.*)\)$/gm)];
    expect(packages.map(([, name]) => name)).toEqual(expect.arrayContaining(['undici', 'yaml', 'yargs', 'zod']));
    // The others would ask for more than their text.
    expect(packages.filter(([, , licence = '']) => !['MIT', 'ISC'].includes(licence))).toEqual([]);
  });

  it('has each file that another one imports, and none that only passes on names', async () => {
    const folder = join(installed, 'dist', 'chunks');
    const names = (await readdir(folder)).filter((name) => name.endsWith('.js'));
    const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
    const imported = texts.flatMap((text) =>
      [...text.matchAll(/(?:\bfrom\s*"|\bimport\s*"|\bimport\(`)\.\/([^"`]+\.js)["`]/g)].map(([, name = '']) => name),
    );
    expect(imported.length).toBeGreaterThan(names.length);
    expect(imported.filter((name) => !names.includes(name))).toEqual([]);
    expect(names.filter((_, index) => /^export\{[^}]*\}from"[^"]+";\s*$/.test(texts[index] ?? ''))).toEqual([]);
  });

  it('imports only packages that are installed with it', async () => {
    const { dependencies, peerDependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
    const files = await readdir(join(installed, 'dist'), { recursive: true });
    const texts = await Promise.all(
      files.filter((file) => file.endsWith('.js')).map((file) => readFile(join(installed, 'dist', file), 'utf8')),
    );
    const imported = texts.flatMap((text) =>
      // Without white space; `require` has a short name, so that only a name with a scope distinguishes a package from other texts.
      [
        ...text.matchAll(
          /(?:\b(?:from|import)\s*"|\bimport\(["`]|\b\w\(["`](?=@))((?:@[\w-]+\/)?[a-z][\w-]*(?:\/[\w./-]+)?)["`]/g,
        ),
      ].map(([, name = '']) => name),
    );
    const names = new Set(
      imported
        .filter((name) => !isBuiltin(name) && !name.startsWith('node:'))
        .map((name) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0]),
    );
    // The tester of a connector installs Vitest.
    expect([...names]).toContain('@duckdb/node-bindings');
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

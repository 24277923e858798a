import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let folder: string;
let installed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-package-'));
  const out = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const packed = JSON.parse(out) as { filename: string }[] | Record<string, { filename: string }>;
  const [{ filename }] = Object.values(packed) as [{ filename: string }];
  execFileSync('tar', ['-xzf', join(folder, filename), '-C', folder]);
  installed = join(folder, 'package');
  await symlink(resolve('node_modules'), join(installed, 'node_modules'));
});
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
    ]) {
      expect([file, existsSync(join(installed, file))]).toEqual([file, true]);
    }
    for (const file of ['test', 'src', 'data', '.ci'])
      expect([file, existsSync(join(installed, file))]).toEqual([file, false]);
  });

  it('runs outside of the checkout', () => {
    expect(run('--version').trim()).toMatch(/^\d+\.\d+\.\d+$/);
    expect(run('--help')).toContain('cdsync run');
    expect(JSON.parse(run('schema'))).toHaveProperty('properties.jobs');
  });

  it('can be imported', async () => {
    await writeFile(
      join(installed, 'try.mjs'),
      "import { loadConfig, run } from 'cdsync';\nconsole.log(typeof loadConfig, typeof run);\n",
    );
    expect(execFileSync(process.execPath, [join(installed, 'try.mjs')], { encoding: 'utf8' }).trim()).toBe(
      'function function',
    );
  });
});

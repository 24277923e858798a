import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const timeout = 600_000;
const execute = promisify(execFile);

let folder: string;
/** Why npm could not install the package: no network, for example. */
let hindrance: string | undefined;

beforeAll(async () => {
  const packed = await mkdtemp(join(tmpdir(), 'cdsync-packed-'));
  folder = join(packed, 'empty');
  await mkdir(folder);
  await execute('npm', ['pack', '--ignore-scripts', '--pack-destination', packed]);
  const [tarball = ''] = (await readdir(packed)).filter((name) => name.endsWith('.tgz'));
  await execute('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', join(packed, tarball)], {
    cwd: folder,
  }).catch((error: { stderr: string }) => {
    if (!/code (ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED|E4\d\d)/.test(error.stderr)) throw error;
    hindrance = error.stderr.split('\n')[0];
  });
}, timeout);
afterAll(() => rm(join(folder, '..'), { recursive: true, force: true }));

/** Runs a command line as a person types it in the folder. */
const shell = (command: string) => execute('bash', ['-c', command], { cwd: folder });

describe('a package installed in an empty folder', () => {
  it(
    'has all that npx --no-install cdsync quickstart needs, and the commands that it names work',
    async (test) => {
      if (hindrance !== undefined) test.skip(`npm cannot install the package here: ${hindrance}`);
      const { stdout } = await shell('npx --no-install cdsync quickstart --profiles 1000');
      expect(stdout).toMatch(/\$ npx --no-install cdsync run\n/);
      const [, next = ''] = stdout.split('\nNext:\n');
      const named = [...next.matchAll(/^ {2}(npx --no-install cdsync .*)$/gm)].map(([, command = '']) => command);
      const quick = named.filter((command) => /cdsync (query|diff|status)/.test(command));
      expect(quick.length).toBe(3);
      for (const command of quick) await shell(command);
      expect((await readdir(folder)).sort()).toEqual(
        ['cdsync.yaml', 'data', 'node_modules', 'package-lock.json', 'package.json'].sort(),
      );
    },
    timeout,
  );
});

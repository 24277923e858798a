import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../../src/core/run-report.js';
import { ended, Workspace } from '../../fixtures/workspace.js';

const connector = `export default {
  kind: 'records', name: 'null', summary: 'Takes everything.', options: {}, capabilities: { batchRecords: 100 },
  open: async () => ({ send: async (batch) => batch.map(() => ({ type: 'acknowledged' })), close: async () => {} }),
};`;

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 100 });
  const files = {
    'own.mjs': connector,
    'own.ts': connector.replace('async (batch)', 'async (batch: readonly unknown[])'),
    'none.mjs': 'export default 1;',
    'broken.mjs': "throw new Error('no good');",
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(space.folder, name), text);
  await symlink(resolve('node_modules', 'tsx'), join(await folder('node_modules'), 'tsx'));
  await install('@own/only-imported', { '.': { types: './index.d.ts', import: './index.js' } });
  await install('either-way', { types: './index.d.ts', require: './absent.cjs', default: './index.js' });
  await install('plain', './index.js');
});
afterAll(() => space.close());

async function folder(...names: string[]): Promise<string> {
  const path = join(space.folder, ...names);
  await mkdir(path, { recursive: true });
  return path;
}

async function install(name: string, exports: unknown): Promise<void> {
  const path = await folder('node_modules', name);
  await writeFile(join(path, 'package.json'), JSON.stringify({ name, version: '1.0.0', type: 'module', exports }));
  await writeFile(join(path, 'index.js'), connector);
}

/** Number of destinations so far: each test gets a new, empty one. */
let places = 0;

async function notices(word: string, env: Record<string, string> = {}) {
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  await space.configure('own', [members], { job: { destinations: [{ name: `mine_${places++}`, connector: word }] } });
  // Options of Node itself need a separate process.
  const words = ['run', 'own.json', '--json', '--quiet'];
  const { code, stdout } = await ('NODE_OPTIONS' in env ? ended(space.spawn(words, env)) : space.cdsync(words));
  const report = JSON.parse(stdout) as RunReport;
  const [destination] = report.jobs[0]?.destinations ?? [];
  return { code, message: report.error?.message ?? '', rows: destination?.rows };
}

describe('a connector that does not come with cdsync', () => {
  it.each([
    ['./absent.mjs', /own\.json:\d+:\d+ .*\.\/absent\.mjs[\s\S]*there is no such file/],
    ['no-such-connector', /found "no-such-connector"[\s\S]*npm install no-such-connector/],
    ['postgers', /found "postgers".*postgres/],
    ['./none.mjs', /its default export is not a connector/],
    ['./broken.mjs', /cannot be loaded: no good/],
  ])('is refused if it is none: %s', async (word, message) => {
    const { code, message: said } = await notices(word);
    expect([code, said]).toEqual([2, expect.stringMatching(message)]);
  });

  it('is used by its path', async () => {
    expect(await notices('./own.mjs')).toEqual({ code: 0, message: '', rows: 100 });
  });

  it.each(['@own/only-imported', 'either-way', 'plain'])(
    'is used as a package beside the configuration: %s',
    async (name) => {
      expect(await notices(name)).toEqual({ code: 0, message: '', rows: 100 });
    },
  );

  it('may be TypeScript if a loader reads that; without one, the error says so', async () => {
    const plain = await notices('./own.ts');
    const readsTypes = (process.features as { typescript?: unknown }).typescript;
    if (readsTypes) expect(plain.code).toBe(0);
    else expect([plain.code, plain.message]).toEqual([2, expect.stringContaining('NODE_OPTIONS="--import tsx"')]);
    expect((await notices('./own.ts', { NODE_OPTIONS: '--import tsx' })).code).toBe(0);
  });
});

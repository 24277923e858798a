import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 100 });
  await space.configure('nightly', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
  expect((await space.cdsync(['run', 'nightly.json'])).code).toBe(0);
  await writeFile(join(space.folder, 'notes.csv'), 'word\nplugh\n');
}, 60_000);
afterAll(() => space.close());

describe('cdsync query', () => {
  it('refuses SQL that opens a file, and names the flag that allows it', async () => {
    const { code, stdout, stderr } = await space.cdsync(['query', 'nightly.json', "from 'notes.csv'"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/refused: Permission Error: .* \[sql_not_allowed\]\n {2}.*--allow-files/);
  });

  it('writes no file', async () => {
    const before = await readdir(space.folder);
    const { code } = await space.cdsync(['query', 'nightly.json', "copy members to 'taken.csv'"]);
    expect(code).toBe(2);
    expect(await readdir(space.folder)).toEqual(before);
  });

  it('opens files with --allow-files', async () => {
    const words = ['query', 'nightly.json', "from 'notes.csv'", '--allow-files', '--format', 'csv'];
    expect(await space.cdsync(words)).toMatchObject({ code: 0, stdout: 'word\nplugh\n' });
  });

  it('escapes formulas in CSV unless it is told to keep them', async () => {
    const words = ['query', 'nightly.json', "select '=1+1' as sum", '--format', 'csv'];
    expect((await space.cdsync(words)).stdout).toBe("sum\n'=1+1\n");
    expect((await space.cdsync([...words, '--csv-formulas', 'keep'])).stdout).toBe('sum\n=1+1\n');
    expect((await space.cdsync([...words, '--csv-formulas', 'drop'])).code).toBe(2);
  });
});

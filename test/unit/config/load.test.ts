import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load.js';
import { members, withStream } from './sample.js';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'cdsync-config-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function write(name: string, content: string | Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

test('relative paths are relative to the file, whatever the working directory', async () => {
  const path = write('a.yml', withStream(...members));
  const config = await loadConfig(path, { env: {}, cwd: '/' });
  expect(config.file).toBe(path);
  expect(config.storage).toBe(join(directory, 'data'));
  expect(config.service.auth).toEqual({ type: 'token_file', path: join(directory, 'token') });
});

test('a storage folder whose path DuckDB would cut is refused', async () => {
  const path = write('odd.yaml', withStream(...members).replace('storage: ./data', 'storage: ./what?'));
  await expect(loadConfig(path, { env: {}, cwd: directory })).rejects.toMatchObject({
    kind: 'configuration',
    message: expect.stringMatching(/^odd\.yaml:\d+:\d+ {2}storage: a path with "\?" cannot hold DuckDB files/),
  });
});

test('messages name the file relative to the working directory, if that is shorter', async () => {
  const path = write('b.yaml', 'x');
  await expect(loadConfig(path, { env: {}, cwd: directory })).rejects.toThrow(/^b\.yaml:1:1 {2}/);
  await expect(loadConfig(path, { env: {}, cwd: '/some/where/very/far/away/from/here' })).rejects.toThrow(
    `${path}:1:1  `,
  );
});

test('the error for a missing file says where cdsync looked for it', async () => {
  await expect(loadConfig(join(directory, 'none.yaml'), { env: {} })).rejects.toMatchObject({
    code: 'config_not_found',
    kind: 'configuration',
    message: expect.stringContaining(`looked for ${join(directory, 'none.yaml')}`),
    hint: expect.stringContaining('cdsync.yaml'),
  });
});

test.each(['nightly.yml', 'Nightly.yaml', 'nightly.yaml ', 'nigthly.yaml'])(
  'for %j, the file beside it with nearly that name is proposed',
  async (name) => {
    const folder = mkdtempSync(join(directory, 'near-'));
    writeFileSync(join(folder, 'nightly.yaml'), 'x');
    await expect(loadConfig(join(folder, name), { env: {} })).rejects.toMatchObject({
      code: 'config_not_found',
      hint: `did you mean "${join(folder, 'nightly.yaml')}"?`,
    });
  },
);

test('a folder is not taken for a file', async () => {
  mkdirSync(join(directory, 'folder'));
  await expect(loadConfig(join(directory, 'folder/'), { env: {} })).rejects.toMatchObject({
    code: 'config_unreadable',
    kind: 'configuration',
    hint: expect.stringContaining('/folder/cdsync.yaml'),
  });
});

test('bytes that are not UTF-8 are reported with their line and column', async () => {
  const path = write('latin1.yaml', Buffer.concat([Buffer.from('version: 1\nstorage: ü'), Buffer.from([0xfc, 0x0a])]));
  await expect(loadConfig(path, { env: {}, cwd: directory })).rejects.toMatchObject({
    message: 'latin1.yaml:2:11  this is not UTF-8; save the file as UTF-8',
  });
  const utf16 = write('utf16.yaml', Buffer.from('\uFEFFversion: 1\n', 'utf16le'));
  await expect(loadConfig(utf16, { env: {}, cwd: directory })).rejects.toMatchObject({
    message: 'utf16.yaml:1:1  the file is UTF-16; save it as UTF-8',
  });
});

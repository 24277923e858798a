import { spawnSync } from 'node:child_process';
import { chmod, lstat, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

const otherUser = ['--reuid=65534', '--regid=65534', '--clear-groups'];
const mayChangeUser = process.getuid?.() === 0 && spawnSync('setpriv', [...otherUser, 'true']).status === 0;
const root = join(import.meta.dirname, '..', '..');

/** Opens a file with DuckDB, and shows the number of rows. It is found from the folder of the project. */
const reader = `
  const { DuckDBInstance } = require('@duckdb/node-api');
  DuckDBInstance.create(process.argv[1], process.argv[2] === 'read' ? { access_mode: 'READ_ONLY' } : {})
    .then((instance) => instance.connect())
    .then((connection) => connection.runAndReadAll('SELECT count(*)::INT AS n FROM members'))
    .then((rows) => console.log(rows.getRows()[0][0]))
    .catch((error) => { console.error(error.message); process.exitCode = 1; });`;

describe.skipIf(!mayChangeUser)('the published file for other users', () => {
  let space: Workspace;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 20 });
    await chmod(space.folder, 0o755);
    const streams = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }];
    await space.configure('closed', streams);
    await space.configure('open', streams, { job: { publish: { mode: '0644' } } });
    // The first one makes the storage folder, and lets others enter it.
    for (const job of ['open', 'closed']) await space.runWell(job);
  });
  afterAll(() => space.close());

  const asOtherUser = (...words: readonly string[]) =>
    spawnSync('setpriv', [...otherUser, process.execPath, ...words], {
      cwd: root,
      env: { PATH: process.env.PATH, HOME: '/' },
      encoding: 'utf8',
    });
  const opened = (job: string, how: 'read' | 'write') =>
    asOtherUser('-e', reader, join(space.jobFolder(job), `${job}.duckdb`), how);

  it('opens read-only for everyone with publish.mode 0644, and changes for no one', async () => {
    expect(opened('open', 'read')).toMatchObject({ status: 0, stdout: '20\n', stderr: '' });
    const link = join(space.jobFolder('open'), 'open.duckdb');
    const before = await readFile(link);
    expect(opened('open', 'write')).toMatchObject({ status: 1, stderr: expect.stringMatching(/permission denied/i) });
    expect(await readFile(link)).toEqual(before);
  });

  it('stays closed by default, with everything else of the job', async () => {
    expect(opened('closed', 'read').status).toBe(1);
    for (const job of ['closed', 'open']) {
      const listed = asOtherUser(
        '-e',
        'require("node:fs").readdirSync(process.argv[1])',
        join(space.jobFolder(job), '.cdsync'),
      );
      expect(listed.stderr).toContain('EACCES');
    }
    expect((await lstat(join(space.jobFolder('closed'), 'parquet'))).mode & 0o077).toBe(0);
  });

  it('follows a change of publish.mode in the next run, also if no row changed', async () => {
    const streams = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }];
    await space.configure('later', streams);
    await space.runWell('later');
    expect(opened('later', 'read').status).toBe(1);
    const manifest = () => lstat(join(space.jobFolder('later'), 'parquet', 'members', 'manifest.json'));
    for (const [mode, status] of [
      ['0644', 0],
      ['0600', 1],
    ] as const) {
      await space.configure('later', streams, { job: { publish: { mode } } });
      await space.runWell('later');
      expect([mode, opened('later', 'read').status]).toEqual([mode, status]);
      expect((await manifest()).mode & 0o777).toBe(Number.parseInt(mode, 8));
    }
  });

  it('is read by `cdsync query` of another user, who else learns why not', () => {
    const cdsync = join(root, 'dist', 'src', 'cli', 'main.js');
    const query = (job: string) =>
      spawnSync(
        'setpriv',
        [
          ...otherUser,
          process.execPath,
          cdsync,
          'query',
          `${job}.json`,
          'select count(*) n from members',
          '--format',
          'csv',
        ],
        {
          cwd: space.folder,
          env: { PATH: process.env.PATH, HOME: '/', CDS_TOKEN: 'unused' },
          encoding: 'utf8',
        },
      );
    expect(query('open')).toMatchObject({ status: 0, stdout: 'n\n20\n' });
    expect(query('closed')).toMatchObject({ status: 1, stderr: expect.stringContaining('[storage_permission]') });
  });
});

import { execFileSync } from 'node:child_process';
import { chmod, chown, link, lstat, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { setMode, syncFile } from '../../../src/core/durable.js';
import { Journal } from '../../../src/storage/journal.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { makeFolder, prepareStorage } from '../../../src/storage/storage.js';
import { assertNoUntrustedLinks } from '../../../src/storage/untrusted-links.js';

let root: string;
let outside: string;
let layout: JobLayout;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'cdsync-links-'));
  outside = join(root, 'outside');
  await mkdir(outside, { mode: 0o755 });
  await writeFile(join(outside, 'precious'), 'precious', { mode: 0o644 });
  layout = new JobLayout(join(root, 'storage'), 'nightly');
  await prepareStorage(layout, 0o640);
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** Puts a link where a file or a folder of the job would be. */
async function plant(path: string, target: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await rm(path, { recursive: true, force: true });
  await symlink(target, path);
}

async function outsideIsAsBefore(): Promise<void> {
  expect(await readFile(join(outside, 'precious'), 'utf8')).toBe('precious');
  expect((await lstat(outside)).mode & 0o777).toBe(0o755);
  expect((await lstat(join(outside, 'precious'))).mode & 0o777).toBe(0o644);
}

const run = 'r20261101T000000Z-0000';

describe('a folder in place of', () => {
  it.each<[string, (l: JobLayout) => string]>([
    ['the published file', (l) => l.link],
    ['a file that is published', (l) => l.published(1)],
    ['the store', (l) => l.store],
    ['a feed', (l) => l.feed('members')],
  ])('%s is refused by its name', async (_, of) => {
    await mkdir(of(layout), { recursive: true });
    await expect(assertNoUntrustedLinks(layout)).rejects.toMatchObject({
      code: 'storage_link',
      message: expect.stringMatching(/^nightly\/.* is a folder; /),
    });
  });
});

describe('a link in place of', () => {
  const folders: [string, (l: JobLayout) => string][] = [
    ['the folder of the job', (l) => l.folder],
    ['.cdsync', (l) => l.private],
    ['published', (l) => l.publishedFolder],
    ['parquet', (l) => l.parquet],
    ['reports', (l) => l.reports],
    ['runs', (l) => l.runs],
    ['a run', (l) => l.run(run)],
    ['the parts of a stream', (l) => join(l.streamRun(run, 'members'), 'parts')],
    ['locks', (l) => l.locks],
    ['deliveries', (l) => l.deliveries],
    ['a destination', (l) => l.delivery('crm')],
    ['feeds', (l) => dirname(l.feed('members'))],
    ['restored', (l) => l.restored],
    ['the Parquet files of a stream', (l) => l.stream('members')],
    ['a snapshot', (l) => l.snapshot('members', run)],
    ['a file that is published', (l) => l.published(1)],
    ['a manifest', (l) => l.manifest('members')],
    ['the store', (l) => l.store],
    ['the log of the store', (l) => `${l.store}.wal`],
    ['the lock', (l) => l.lock],
    ['the owner of the lock', (l) => l.lockOwner],
    ['the lock of a destination', (l) => l.destinationLock('crm').file],
    ['the state of a run', (l) => l.runState(run)],
    ['the format', (l) => l.format],
    ['a report', (l) => l.report(run)],
  ];
  it.each(folders)('%s is refused, and nothing outside changes', async (_, of) => {
    for (const target of [outside, join(outside, 'precious'), join(outside, 'none')]) {
      await plant(of(layout), target);
      await expect(prepareStorage(layout, 0o644)).rejects.toMatchObject({ code: 'storage_link' });
      await outsideIsAsBefore();
      expect(await lstat(join(outside, 'none')).catch(() => 'none')).toBe('none');
      await rm(of(layout));
    }
  });

  test('the error names the path from the storage folder, and no folder above it', async () => {
    await plant(layout.lock, join(outside, 'precious'));
    const error = (await prepareStorage(layout, 0o640).catch((thrown) => thrown)) as Error;
    expect(error.message).toMatch(/^nightly\/\.cdsync\/locks\/job\.duckdb is a link/);
    expect(error.message).not.toContain(root);
  });
});

test('a pipe or a socket is refused too: to open it could wait for ever', async () => {
  const pipe = join(layout.runs, 'pipe');
  execFileSync('mkfifo', [pipe]);
  await expect(prepareStorage(layout, 0o640)).rejects.toMatchObject({ code: 'storage_link' });
  await rm(pipe);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(layout.locks, 's'), resolve));
  await expect(prepareStorage(layout, 0o640)).rejects.toMatchObject({ code: 'storage_link' });
  await new Promise((resolve) => server.close(resolve));
});

describe('a legal link is', () => {
  test('the storage folder itself, or one above it', async () => {
    await symlink(join(root, 'storage'), join(root, 'linked'));
    await prepareStorage(new JobLayout(join(root, 'linked'), 'nightly'), 0o640);
  });

  test("the one that readers open, if it leads into the job's folder", async () => {
    await symlink('published/1/nightly.duckdb', layout.link);
    await symlink('snapshot/r1', join(await made(layout.stream('members')), 'current'));
    await assertNoUntrustedLinks(layout);
    await plant(layout.link, '../other/published/1/nightly.duckdb');
    await expect(assertNoUntrustedLinks(layout)).rejects.toMatchObject({ code: 'storage_link' });
    await plant(layout.link, join(outside, 'precious'));
    await expect(assertNoUntrustedLinks(layout)).rejects.toMatchObject({ code: 'storage_link' });
  });

  test("one of the user's own beside ours", async () => {
    await symlink(outside, join(layout.folder, 'notes'));
    await assertNoUntrustedLinks(layout);
  });
});

test('hard links to our own files, and whole copies of a storage folder, are legal', async () => {
  await writeFile(layout.store, 'store');
  await link(layout.store, join(layout.runs, 'linked'));
  await rename(join(root, 'storage'), join(root, 'moved'));
  await assertNoUntrustedLinks(new JobLayout(join(root, 'moved'), 'nightly'));
});

describe.runIf(process.geteuid?.() === 0)('a file of another user', () => {
  test('is refused in .cdsync, and legal where readers look', async () => {
    await chown(layout.publishedFolder, 12345, 12345);
    await assertNoUntrustedLinks(layout);
    await writeFile(join(layout.runs, 'theirs'), '');
    await chown(join(layout.runs, 'theirs'), 12345, 12345);
    await expect(prepareStorage(layout, 0o640)).rejects.toMatchObject({ code: 'storage_owner' });
    await rm(join(layout.runs, 'theirs'));
    await chown(layout.private, 12345, 12345);
    await expect(prepareStorage(layout, 0o640)).rejects.toMatchObject({ code: 'storage_owner' });
  });
});

describe('between the check and the work, a link is not followed', () => {
  test('by a journal', async () => {
    const folder = await made(layout.streamRun(run, 'members'));
    await plant(Journal.path(folder), join(outside, 'precious'));
    await expect(Journal.open(folder)).rejects.toMatchObject({ code: 'ELOOP' });
    await outsideIsAsBefore();
  });

  test('by what sets permissions, of files and of folders', async () => {
    await plant(join(layout.runs, 'file'), join(outside, 'precious'));
    await expect(setMode(join(layout.runs, 'file'), 0o600)).rejects.toMatchObject({ code: 'ELOOP' });
    await expect(syncFile(join(layout.runs, 'file'))).rejects.toMatchObject({ code: 'ELOOP' });
    await plant(join(layout.runs, 'folder'), outside);
    await expect(makeFolder(join(layout.runs, 'folder'), 0o700)).rejects.toMatchObject({ code: 'ELOOP' });
    await outsideIsAsBefore();
  });
});

async function made(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  return folder;
}

test('a folder that may not be entered is reported as such', async () => {
  await chmod(layout.runs, 0o000);
  const outcome = await assertNoUntrustedLinks(layout).catch((error: unknown) => error);
  await chmod(layout.runs, 0o700);
  if (process.geteuid?.() !== 0) expect(outcome).toMatchObject({ code: 'storage_permission' });
});

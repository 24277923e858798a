import {
  copyFile,
  lstat,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { entriesBelow } from '../../../src/core/folders.js';
import { readFeed } from '../../../src/snapshot/feed.js';
import { readManifest } from '../../../src/snapshot/manifest.js';
import { publish } from '../../../src/snapshot/publish.js';
import { publishedLogs } from '../../../src/snapshot/publish-database.js';
import { restoreFiles } from '../../../src/snapshot/restore-files.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const rowsOf = (...values: number[]) => values.map((n) => ({ id: `p${n}`, n }));

/** Everything that people may read below the job's folder, sorted. */
async function visible(): Promise<string[]> {
  const { folder } = snapshots.layout;
  const entries = await entriesBelow(folder);
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((path) => !path.startsWith('.cdsync'))
    .sort();
}

/** Rows of the file that the link points to. */
async function publishedRows(): Promise<unknown[]> {
  const instance = await DuckDBInstance.create(snapshots.layout.link, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    const reader = await connection.runAndReadAll('SELECT id, n FROM members ORDER BY id');
    return reader.getRowObjectsJson();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

describe('publishing', () => {
  test('leads readers to the newest snapshot by link and manifest, and keeps the previous version for those who have it open', async () => {
    const first = await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const second = await snapshots.run('members', rowsOf(1, 2));
    await snapshots.publish();
    expect(await readlink(snapshots.layout.link)).toBe('published/2/job.duckdb');
    expect(await visible()).toEqual(
      [
        'job.duckdb',
        `parquet/members/changes/${second.run.runId}/00001.parquet`,
        'parquet/members/current',
        'parquet/members/manifest.json',
        ...[first, second].map(({ run }) => `parquet/members/snapshot/${run.runId}/00001.parquet`),
        'published/1/job.duckdb',
        'published/2/job.duckdb',
      ].sort(),
    );
    expect(await readManifest(snapshots.layout.manifest('members'))).toMatchObject({
      run_id: second.run.runId,
      sequence: 2,
      rows: 2,
      files: [{ path: `snapshot/${second.run.runId}/00001.parquet`, rows: 2 }],
    });
    await snapshots.run('members', rowsOf(3));
    await snapshots.publish();
    expect(await readdir(snapshots.layout.publishedFolder)).toEqual(['2', '3']);
  });

  test('keeps as many snapshots as configured as Parquet files, and changes back to a given time', async () => {
    const runs: string[] = [];
    for (const n of [1, 2, 3, 4]) {
      const { run } = await snapshots.run('members', rowsOf(n));
      runs.push(run.runId);
      await snapshots.publish({ keepSnapshots: 3, changesBefore: '2026-11-01T02:00:00.000Z' });
    }
    expect(await readdir(snapshots.layout.snapshots('members'))).toEqual(runs.slice(1));
    expect(await readdir(dirname(snapshots.layout.changes('members', 'any')))).toEqual(runs.slice(2));
    const feed = await readFeed(snapshots.layout, 'members');
    expect(feed?.changes.map(({ run_id }) => run_id)).toEqual(runs.slice(2));
    expect(feed?.complete_since).toBe(2);
  });

  test('changes nothing if it is already done', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const times = async () =>
      Promise.all((await visible()).map(async (path) => (await lstat(join(snapshots.layout.folder, path))).mtimeMs));
    const before = await times();
    await snapshots.publish();
    expect(await times()).toEqual(before);
  });

  test('gives files the configured permissions, and folders those to enter them', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish({ mode: 0o640 });
    const paths = (await visible()).filter((path) => path !== 'job.duckdb' && !path.endsWith('/current'));
    const modes = await Promise.all(
      paths.map(async (path) => (await stat(join(snapshots.layout.folder, path))).mode & 0o777),
    );
    expect(new Set(modes)).toEqual(new Set([0o640]));
    expect((await stat(snapshots.layout.snapshots('members'))).mode & 0o777).toBe(0o750);
  });

  test('publishes no DuckDB file if that is switched off', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish({ duckdb: false });
    expect((await visible()).filter((path) => path.endsWith('.duckdb'))).toEqual([]);
  });

  test('removes every earlier file once values were removed', async () => {
    await snapshots.run('members', [{ id: 'a', secret: 'x' }]);
    await snapshots.publish();
    const { run } = await snapshots.run('members', [{ id: 'a' }], { dropped: ['secret'] });
    await snapshots.publish({ keepSnapshots: 10 });
    expect(await readdir(snapshots.layout.snapshots('members'))).toEqual([run.runId]);
    expect(await readdir(dirname(snapshots.layout.changes('members', 'any')))).toEqual([run.runId]);
    expect(await readdir(snapshots.layout.publishedFolder)).toEqual(['2']);
  });
});

/** What publishing leaves undone if it is cut short at each of its steps. */
const cuts: readonly (readonly [string, (runId: string) => Promise<void>])[] = [
  [
    'before the Parquet files were moved',
    async (runId) => {
      const state = await snapshots.state();
      const { snapshot, changes } = state.streams.get('members') ?? { snapshot: [], changes: [] };
      await snapshots.detach();
      for (const file of [...snapshot, ...changes]) {
        await rename(join(snapshots.layout.stream('members'), file.path), join(snapshots.layout.folder, file.from));
      }
      await rm(snapshots.layout.snapshot('members', runId), { recursive: true });
      await rm(snapshots.layout.manifest('members'));
    },
  ],
  ['before the manifest was written', () => rm(snapshots.layout.manifest('members'))],
  [
    'with the previous manifest',
    async () => {
      const path = snapshots.layout.manifest('members');
      const manifest = JSON.parse(await readFile(path, 'utf8'));
      await writeFile(path, JSON.stringify({ ...manifest, sequence: 1, files: [] }));
    },
  ],
  ['before the feed was written', () => rm(snapshots.layout.feed('members'))],
  ['before the store was copied', () => rm(dirname(snapshots.layout.published(2)), { recursive: true })],
  ['before the link was made', () => rm(snapshots.layout.link)],
  [
    'while the link still pointed to the previous version',
    async () => {
      await rm(snapshots.layout.link);
      await symlink('published/1/job.duckdb', snapshots.layout.link);
    },
  ],
];

describe('publishing that was cut short', () => {
  test.each(cuts)('is repaired %s', async (_, cut) => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const { run } = await snapshots.run('members', rowsOf(1, 2));
    await snapshots.publish();
    const whole = await visible();
    await cut(run.runId);
    await snapshots.publish();
    expect(await visible()).toEqual(whole);
    expect(await readlink(snapshots.layout.link)).toBe('published/2/job.duckdb');
    expect(await publishedRows()).toHaveLength(2);
    expect((await readManifest(snapshots.layout.manifest('members')))?.sequence).toBe(2);
    expect((await readFeed(snapshots.layout, 'members'))?.sequence).toBe(2);
  });

  test('refuses to name files that are missing everywhere', async () => {
    const { run } = await snapshots.run('members', rowsOf(1));
    await rm(snapshots.layout.run(run.runId), { recursive: true });
    await expect(snapshots.publish()).rejects.toMatchObject({ code: 'snapshot_incomplete', stream: 'members' });
  });

  test('publishes a file again that another process has written to, or any that is no copy of the store if asked', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const path = snapshots.layout.published(1);
    const { size, ino, mtime } = await stat(path);
    await snapshots.publish({ again: true });
    expect((await stat(snapshots.layout.link)).ino).toBe(ino);
    await truncate(path, 100);
    await snapshots.publish();
    const healed = await realpath(snapshots.layout.link);
    expect((await stat(healed)).size).toBe(size);
    await truncate(healed, 100);
    await utimes(healed, mtime, mtime);
    await snapshots.publish();
    expect((await stat(snapshots.layout.link)).size).toBe(100);
    await snapshots.publish({ again: true });
    expect((await stat(snapshots.layout.link)).size).toBe(size);
    expect(await publishedRows()).toEqual([{ id: 'p1', n: '1' }]);
  });

  test('never gives a file the name of one that another process may have open: its log would meet the new one', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const first = await readlink(snapshots.layout.link);
    for (const log of await publishedLogs(snapshots.layout)) await writeFile(log, 'x');
    await snapshots.publish();
    expect(await readlink(snapshots.layout.link)).toMatch(/^published\/1-[0-9a-f]{8}\/job\.duckdb$/);
    expect(await visible()).toContain(first);
    for (const log of await publishedLogs(snapshots.layout)) expect(await visible()).not.toContain(log);
    expect(await publishedRows()).toEqual([{ id: 'p1', n: '1' }]);
    await snapshots.run('members', rowsOf(1, 2));
    await snapshots.publish();
    expect(await readlink(snapshots.layout.link)).toBe('published/2/job.duckdb');
    expect((await visible()).filter((name) => name.startsWith('published/1'))).toHaveLength(1);
    expect(await visible()).not.toContain(first);
  });

  test('replaces files that were published before versions had folders, and keeps the last for those who have it open', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const { publishedFolder, link } = snapshots.layout;
    for (const name of ['1.duckdb', '0.duckdb', '0.duckdb.wal'])
      await copyFile(snapshots.layout.published(1), join(publishedFolder, name));
    await rm(dirname(snapshots.layout.published(1)), { recursive: true });
    await rm(link);
    await symlink('published/1.duckdb', link);
    expect(await publishedRows()).toHaveLength(1);
    await snapshots.publish();
    expect(await readlink(link)).toBe('published/1/job.duckdb');
    expect(await readdir(publishedFolder)).toEqual(['1', '1.duckdb']);
    await snapshots.run('members', rowsOf(1, 2));
    await snapshots.publish();
    expect(await readdir(publishedFolder)).toEqual(['1', '2']);
  });

  test('gives files a mode that forbids writing, and still replaces and removes them', async () => {
    for (const n of [1, 2, 3]) {
      await snapshots.run('members', rowsOf(n));
      await snapshots.publish({ mode: 0o400, keepSnapshots: 1 });
    }
    const paths = (await visible()).filter((path) => path !== 'job.duckdb' && !path.endsWith('/current'));
    const stats = await Promise.all(paths.map((path) => stat(join(snapshots.layout.folder, path))));
    expect(new Set(stats.map(({ mode }) => mode & 0o777))).toEqual(new Set([0o400]));
    expect(await publishedRows()).toEqual([{ id: 'p3', n: '3' }]);
  });

  test('leaves the published files alone if the store is damaged', async () => {
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    await snapshots.run('members', rowsOf(1, 2));
    const state = await snapshots.state();
    await snapshots.detach();
    const { size } = await stat(snapshots.layout.store);
    await truncate(snapshots.layout.store, size - 262_144);
    const options = { duckdb: true, mode: 0o644, keepSnapshots: 2, changesBefore: '2026-01-01T00:00:00.000Z' };
    await expect(publish(snapshots.database, snapshots.layout, state, options)).rejects.toMatchObject({
      code: 'state_unreadable',
    });
    expect(await readlink(snapshots.layout.link)).toBe('published/1/job.duckdb');
    expect(await publishedRows()).toHaveLength(1);
  });
});

describe('Parquet files that are gone', () => {
  async function restore(thorough: boolean): Promise<string[]> {
    const store = await snapshots.store();
    const { streams } = await store.state();
    const restored = await restoreFiles(store, snapshots.layout, streams.values(), { thorough, compression: 'zstd' });
    return restored.map(({ stream }) => stream);
  }

  const readAll = async () => {
    const { files } = (await readManifest(snapshots.layout.manifest('members'))) ?? { files: [] };
    const paths = files.map(({ path }) => join(snapshots.layout.stream('members'), path));
    return snapshots.query(`SELECT id, n FROM read_parquet(${JSON.stringify(paths).replaceAll('"', "'")}) ORDER BY id`);
  };

  test('are rewritten from the store, as one file, and published', async () => {
    const { run } = await snapshots.run('members', rowsOf(1, 2, 3), { rowsInPart: 1 });
    await snapshots.publish();
    await rm(join(snapshots.layout.snapshot('members', run.runId), `${run.runId}-00002.parquet`));
    expect(await restore(false)).toEqual(['members']);
    await snapshots.publish();
    expect(await readdir(snapshots.layout.snapshot('members', run.runId))).toEqual(['00001.parquet']);
    expect(await readAll()).toEqual(rowsOf(1, 2, 3));
    expect(await restore(true)).toEqual([]);
  });

  test('are found by their length, and damaged ones by the time of their last change or by a thorough check', async () => {
    const { run } = await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const path = join(snapshots.layout.snapshot('members', run.runId), '00001.parquet');
    const damage = async (at: number) => {
      const { atime, mtimeMs } = await stat(path);
      const bytes = await readFile(path);
      bytes.writeUInt8((bytes[at] ?? 0) ^ 0xff, at);
      await writeFile(path, bytes);
      // The middle of the millisecond: a time in seconds is not exact.
      return () => utimes(path, atime, (Math.floor(mtimeMs) + 0.5) / 1000);
    };
    await damage(20);
    expect(await restore(false)).toEqual(['members']);
    await snapshots.publish();
    expect(await readAll()).toEqual(rowsOf(1));
    const asBefore = await damage(21);
    await asBefore();
    expect(await restore(false)).toEqual([]);
    expect(await restore(true)).toEqual(['members']);
    await snapshots.publish();
    await truncate(path, 10);
    expect(await restore(false)).toEqual(['members']);
  });

  test('are not written again if only the times differ, as in a copy of the folder; each is read once for that', async () => {
    const { run } = await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const path = join(snapshots.layout.snapshot('members', run.runId), '00001.parquet');
    const { mtimeMs } = await stat(path);
    await utimes(path, 1, 1);
    expect(await restore(false)).toEqual([]);
    expect(Math.floor((await stat(path)).mtimeMs)).toBe(Math.floor(mtimeMs));
  });

  test('are restored for changes too, unless the history no longer has them', async () => {
    const feed = () => readFeed(snapshots.layout, 'members');
    await snapshots.run('members', rowsOf(1));
    await snapshots.publish();
    const { run } = await snapshots.run('members', rowsOf(1, 2));
    await snapshots.publish();
    const folder = snapshots.layout.changes('members', run.runId);
    await rm(folder, { recursive: true });
    expect(await restore(false)).toEqual(['members']);
    await snapshots.publish();
    expect(await readdir(folder)).toEqual(['00001.parquet']);
    expect(await feed()).toMatchObject({ sequence: 2, changes: [{ sequence: 2, rows: 1 }], complete_since: 1 });
    const last = await snapshots.run('members', rowsOf(2), { historyMs: -1000 * 3_600_000 });
    await snapshots.publish();
    await rm(snapshots.layout.changes('members', last.run.runId), { recursive: true });
    expect(await restore(false)).toEqual(['members']);
    await snapshots.publish();
    expect((await snapshots.state()).streams.get('members')?.changes).toEqual([]);
    const begun = { changes: [], complete_since: 3, complete_since_run: last.run.runId };
    expect(await feed()).toMatchObject({ sequence: 3, ...begun });
  });
});

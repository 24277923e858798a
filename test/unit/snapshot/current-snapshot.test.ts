import { copyFile, lstat, mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { JobConfig } from '../../../src/config/config.js';
import { systemClock } from '../../../src/core/clock.js';
import { sqlTexts } from '../../../src/core/sql.js';
import { verifyJob } from '../../../src/engine/inspect/verify-job.js';
import { readFeed } from '../../../src/snapshot/feed.js';
import { readManifest } from '../../../src/snapshot/manifest.js';
import { type ReadingOptions, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const stream = 'members';
const current = () => snapshots.layout.current(stream);
const rowsOf = (n: number, ...ids: readonly string[]) => ids.map((id) => ({ id, n }));

async function next(rows: readonly { id: string; n: number }[], options: ReadingOptions = {}): Promise<string> {
  const { run } = await snapshots.run(stream, rows, options);
  await snapshots.publish({ keepSnapshots: 1 });
  return run.runId;
}

/** Rows of Parquet files in the order of their ids. */
async function read(paths: readonly string[]): Promise<unknown> {
  return snapshots.query(`SELECT id, n FROM read_parquet(${sqlTexts(paths)}) ORDER BY id`);
}

async function listed(): Promise<string[]> {
  return (await readdir(current())).map((name) => join(current(), name));
}

async function verified(): Promise<unknown> {
  await snapshots.detach();
  const job = { name: 'job', publish: { duckdb: true } } as unknown as JobConfig;
  const engine = { database: snapshots.database, clock: systemClock, layoutOf: () => snapshots.layout };
  return (await verifyJob(engine, job)).mismatches;
}

describe('current', () => {
  test('is the whole snapshot by a plain glob: of one file, of several, and of those that earlier runs added', async () => {
    const runs = [await next(rowsOf(1, 'a'))];
    expect(await readlink(current())).toBe(`snapshot/${runs[0]}`);
    expect(await read([`${current()}/*.parquet`])).toEqual(rowsOf(1, 'a'));
    runs.push(await next(rowsOf(2, 'a', 'b', 'c'), { rowsInPart: 1 }));
    expect(await read([`${current()}/*.parquet`])).toEqual(rowsOf(2, 'a', 'b', 'c'));
    runs.push(await next(rowsOf(3, 'd'), { coverage: 'additions' }));
    runs.push(await next(rowsOf(4, 'e'), { coverage: 'additions' }));
    expect(await readlink(current())).toBe(`snapshot/${runs[3]}`);
    expect(await read([`${current()}/*.parquet`])).toEqual([
      ...rowsOf(2, 'a', 'b', 'c'),
      ...rowsOf(3, 'd'),
      ...rowsOf(4, 'e'),
    ]);
    const { files } = (await readManifest(snapshots.layout.manifest(stream))) ?? { files: [] };
    expect(files.map(({ path }) => basename(path)).sort()).toEqual((await readdir(current())).sort());
    expect(new Set(files.map(({ path }) => dirname(path)))).toEqual(new Set([`snapshot/${runs[3]}`]));
    expect((await readFeed(snapshots.layout, stream))?.snapshot.map(({ path }) => path)).toEqual(
      files.map(({ path }) => path),
    );
    expect(await readdir(snapshots.layout.snapshots(stream))).toEqual([runs[3]]);
    expect(await verified()).toEqual([]);
  });

  test('takes no space for the files that two snapshots share', async () => {
    const first = await next(rowsOf(1, 'a'));
    const { ino } = await stat(join(snapshots.layout.snapshot(stream, first), '00001.parquet'));
    await next(rowsOf(1, 'b'), { coverage: 'additions' });
    expect((await stat(join(current(), '00001.parquet'))).ino).toBe(ino);
  });

  /** The kinds of snapshot before and after a swap. */
  const kinds: Readonly<Record<string, (n: number) => Promise<string>>> = {
    'one file': (n) => next(rowsOf(n, 'a', 'b', 'c')),
    'several files': (n) => next(rowsOf(n, 'a', 'b', 'c'), { rowsInPart: 1 }),
    'more rows': (n) => next(rowsOf(n, `d${n}`), { coverage: 'additions' }),
  };

  test.each(Object.keys(kinds).flatMap((before) => Object.keys(kinds).map((after) => [before, after])))(
    'never leads a reader from %s into a part of %s, at whichever file it is swapped',
    async (before = '', after = '') => {
      await next(rowsOf(0, 'a', 'b'));
      await kinds[before]?.(1);
      const names = await listed();
      const whole = await read(names);
      const opened = await Promise.all(names.map((path) => readFile(path)));
      await kinds[after]?.(2);
      const other = await read(await listed());
      const then = await Promise.all(names.map((path) => readFile(path).catch(() => undefined)));
      const scratch = join(snapshots.layout.folder, 'seen');
      await mkdir(scratch);
      for (let from = 0; from <= names.length; from += 1) {
        const seen = [...opened.slice(0, from), ...then.slice(from)];
        // The reader says that a file is gone.
        if (seen.some((file) => file === undefined)) continue;
        const paths = seen.map((_, index) => join(scratch, `${from}-${index}.parquet`));
        for (const [index, file] of seen.entries()) await writeFile(paths[index] as string, file as Buffer);
        expect([whole, other]).toContainEqual(await read(paths));
      }
    },
  );

  test('is made again if it is missing, has another target, or an archiver has put a copy in its place', async () => {
    await next(rowsOf(1, 'a', 'b'), { rowsInPart: 1 });
    const target = await readlink(current());
    const spoil = [
      () => undefined,
      () => symlink('snapshot/20200101T000000Z-abcdef', current()),
      async () => {
        await mkdir(current());
        const folder = join(snapshots.layout.stream(stream), target);
        for (const name of await readdir(folder)) await copyFile(join(folder, name), join(current(), name));
      },
    ];
    for (const each of spoil) {
      await rm(current());
      await each();
      await snapshots.publish();
      expect(await readlink(current())).toBe(target);
    }
    await rm(current());
    await mkdir(current());
    await writeFile(join(current(), 'notes.txt'), 'mine');
    await expect(snapshots.publish()).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await readdir(current())).toEqual(['notes.txt']);
  });

  test('that is missing, or has another target, is found by verify', async () => {
    await next(rowsOf(1, 'a'));
    await rm(current());
    expect(await verified()).toEqual([{ stream, file: `parquet/${stream}/current`, problem: 'the link is missing' }]);
    await symlink('snapshot/20200101T000000Z-abcdef', current());
    expect(await verified()).toEqual([
      { stream, file: `parquet/${stream}/current`, problem: 'it does not point to the last snapshot' },
    ]);
  });

  test('is not touched by a run without changes', async () => {
    await next(rowsOf(1, 'a'));
    const { ino } = await lstat(current());
    await snapshots.publish();
    expect((await lstat(current())).ino).toBe(ino);
  });
});

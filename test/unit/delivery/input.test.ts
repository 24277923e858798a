import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ColumnSet } from '../../../src/columns/columns.js';
import { DeliveryInput, type LoadChunk, pieceRows, sequenceColumn } from '../../../src/delivery/input.js';
import type { Feed } from '../../../src/snapshot/feed.js';
import type { Row } from '../../../src/storage/duckdb.js';
import { type Change, PublishedStream } from './published-stream.js';

let published: PublishedStream;
beforeEach(async () => {
  published = await PublishedStream.open();
});
afterEach(() => published.close());

async function open(feed: Feed = published.feed): Promise<DeliveryInput> {
  const { layout, session, folder } = published;
  return DeliveryInput.open({ layout, feed, session, folder: join(folder, 'input') });
}

const brief = (row: Row) => `${row._op} ${row.id} ${row.n} of ${row._run_id}`;
async function briefly(pieces: Promise<readonly LoadChunk[]>): Promise<string[]> {
  return (await published.read(await pieces)).map(brief);
}

const insert = (id: string, n: number): Change => ({ op: 'insert', id, n });
const update = (id: string, n: number): Change => ({ op: 'update', id, n });
const remove = (id: string, n: number): Change => ({ op: 'delete', id, n });

/** Three days in which two keys change and one is deleted. */
async function threeDays(): Promise<void> {
  await published.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
  await published.commit([update('a', 2), update('c', 2)]);
  await published.commit([update('a', 3), remove('c', 2), insert('d', 3)]);
}

describe('the rows of a plan', () => {
  it('are the snapshot, as inserts, if everything must come', async () => {
    await threeDays();
    const input = await open();
    const rows = await published.read(await input.everything());
    expect(rows.map(brief)).toEqual(['insert a 3 of run-3', 'insert b 1 of run-3', 'insert d 3 of run-3']);
    expect(rows.map(({ [sequenceColumn]: sequence, _synced_at }) => `${sequence} ${_synced_at}`)).toEqual(
      Array(3).fill(expect.stringMatching(/^3 2026-01-03 00:00:00/)),
    );
  });

  it('are every change in mode append, in the order of the commits', async () => {
    await threeDays();
    const input = await open();
    expect(await briefly(input.changes(1, 'append'))).toEqual([
      'update a 2 of run-2',
      'update c 2 of run-2',
      'update a 3 of run-3',
      'delete c 2 of run-3',
      'insert d 3 of run-3',
    ]);
  });

  it('are the last change of each key in mode mirror, and in mode upsert the last one that is not a delete', async () => {
    await threeDays();
    const input = await open();
    const mirrored = await briefly(input.changes(1, 'mirror'));
    expect(mirrored.sort()).toEqual(['delete c 2 of run-3', 'insert d 3 of run-3', 'update a 3 of run-3']);
    const upserted = await open();
    expect((await briefly(upserted.changes(1, 'upsert'))).sort()).toEqual([
      'insert d 3 of run-3',
      'update a 3 of run-3',
      'update c 2 of run-2',
    ]);
  });
});

it('are in mode upsert the last image of a key that a later commit deleted', async () => {
  await published.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
  await published.commit([update('a', 2), insert('d', 2)]);
  await published.commit([update('d', 3)]);
  await published.commit([remove('a', 2), remove('b', 1), remove('d', 3)]);
  const input = await open();
  expect((await briefly(input.changes(1, 'upsert'))).sort()).toEqual(['insert d 3 of run-3', 'update a 2 of run-2']);
});

const commits = fc.array(
  fc.uniqueArray(fc.record({ id: fc.constantFrom('a', 'b', 'c', "d'"), goes: fc.boolean() }), {
    selector: ({ id }) => id,
    maxLength: 4,
  }),
  { minLength: 1, maxLength: 4 },
);

it('an earlier snapshot and the changes since make the present one, whatever was committed', async () => {
  const property = fc.asyncProperty(commits, fc.nat(4), async (days, from) => {
    await published.close();
    published = await PublishedStream.open();
    const states = [new Map<string, Change['n']>()];
    const log: string[] = [];
    const since = Math.min(from, days.length);
    for (const [index, day] of days.entries()) {
      const [before, now] = [states[index] as Map<string, number>, new Map(states[index])];
      const changes = day.flatMap(({ id, goes }): Change[] => {
        if (goes && !before.has(id)) return [];
        return [goes ? remove(id, before.get(id) as number) : (before.has(id) ? update : insert)(id, index + 1)];
      });
      for (const { op, id, n } of changes) op === 'delete' ? now.delete(id) : now.set(id, n);
      if (index >= since) log.push(...changes.map(({ op, id, n }) => `${op} ${id} ${n} of run-${index + 1}`));
      states.push(now);
      await published.commit(changes);
    }
    const [then, now] = [states[since] as Map<string, number>, states.at(-1) as Map<string, number>];
    const input = await open();
    expect(await briefly(input.changes(since, 'append'))).toEqual(log);
    const folded = await published.read(await input.changes(since, 'mirror'));
    expect(new Set(folded.map(({ id }) => id)).size).toBe(folded.length);
    for (const { _op, id, n } of folded) _op === 'delete' ? then.delete(String(id)) : then.set(String(id), Number(n));
    expect(new Map([...then].sort())).toEqual(new Map([...now].sort()));
  });
  await fc.assert(property, { numRuns: 15 });
});

describe('an input', () => {
  it('gives earlier rows NULL in columns that arrived later', async () => {
    await threeDays();
    const later = new ColumnSet([
      { field: 'id', type: 'VARCHAR' },
      { field: 'n', type: 'BIGINT' },
      { field: 'note', type: 'VARCHAR' },
    ]).store();
    const { feed } = published;
    const [first, second, third] = feed.changes;
    // The feed lists the columns at the last run whose files have them.
    const changes = [first, { ...second, columns: feed.columns }, third] as Feed['changes'];
    const sha256 = await published.write(
      third?.files[0] as string,
      `SELECT 'insert' AS _op, 'run-3' AS _run_id, now() AS _synced_at, 'd' AS id, 3::BIGINT AS n, 'new' AS note`,
    );
    const wider: Feed = {
      ...feed,
      columns: later,
      changes: changes.with(2, { ...third, rows: 1, sha256: [sha256] } as never),
    };
    const rows = await published.read(await (await open(wider)).changes(0, 'append'));
    expect(rows.map(({ id, note }) => [id, note])).toEqual([
      ...['a', 'b', 'c', 'a', 'c'].map((id) => [id, null]),
      ['d', 'new'],
    ]);
  });

  it('keeps its rows although a later run removes the files', async () => {
    await threeDays();
    const input = await open();
    const pieces = await input.everything();
    await rm(published.layout.stream('members'), { recursive: true });
    expect((await published.read(pieces)).length).toBe(3);
    await input.close();
  });

  it('says which file is missing', async () => {
    await threeDays();
    await rm(published.layout.stream('members'), { recursive: true });
    await expect((await open()).everything()).rejects.toMatchObject({
      code: 'snapshot_incomplete',
      stream: 'members',
      message: expect.stringContaining('snapshot/run-3/00000.parquet'),
    });
  });

  it('takes no file with a flipped bit, of the snapshot or of changes', async () => {
    await threeDays();
    const { snapshot, changes } = published.feed;
    for (const path of [snapshot[0]?.path, changes.at(-1)?.files[0]]) {
      const file = join(published.layout.stream('members'), path as string);
      const whole = await readFile(file);
      for (let place = 0; place < 40; place += 1) {
        const damaged = Buffer.from(whole);
        const at = Math.floor((place * whole.length) / 40);
        damaged[at] = (damaged[at] as number) ^ (1 << (place % 8));
        await writeFile(file, damaged);
        const input = await open();
        const taken = path === snapshot[0]?.path ? input.everything() : input.changes(0, 'append');
        await expect(taken).rejects.toMatchObject({ code: 'snapshot_incomplete', stream: 'members' });
        await input.close();
      }
      await writeFile(file, whole);
    }
  });

  it('is split into pieces of a size that can be loaded one after the other, with every row once', async () => {
    await threeDays();
    const count = 2 * pieceRows + 1000;
    const path = 'snapshot/big.parquet';
    const sha256 = await published.write(path, `SELECT i::VARCHAR AS id, i AS n FROM range(${count}) t(i)`);
    const small = published.feed.snapshot;
    const feed = { ...published.feed, snapshot: [...small, { path, rows: count, sha256 }, ...small] };
    const pieces = await (await open(feed)).everything();
    expect(pieces.map(({ rows }) => rows)).toEqual([3, pieceRows, pieceRows, 1000, 3]);
    const all = pieces.map(({ query }) => query).join(' UNION ALL BY NAME ');
    expect(
      await published.session.rows(`SELECT count(*)::INT AS n, count(DISTINCT id)::INT AS ids FROM (${all})`),
    ).toEqual([{ n: count + 6, ids: count + 3 }]);
  });
});

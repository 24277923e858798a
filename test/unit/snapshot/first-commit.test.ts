import { readdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readFeed } from '../../../src/snapshot/feed.js';
import { changesTable, internalSchema, storeTable } from '../../../src/snapshot/store-tables.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const hour = 3_600_000;
const stream = 'members';
const changes = changesTable(stream);

describe('the first load', () => {
  test('is stored once, as rows, and readers find only what changed since', async () => {
    await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 1 },
    ]);
    expect(await snapshots.query(`FROM ${changes}`)).toEqual([]);
    await snapshots.run(stream, [
      { id: 'b', n: 2 },
      { id: 'c', n: 1 },
    ]);
    expect(await snapshots.query(`SELECT _op, id FROM ${changes} ORDER BY id`)).toEqual([
      { _op: 'delete', id: 'a' },
      { _op: 'update', id: 'b' },
      { _op: 'insert', id: 'c' },
    ]);
    expect(
      await snapshots.query(`SELECT table_type FROM information_schema.tables WHERE table_name = '${stream}__changes'`),
    ).toEqual([{ table_type: 'BASE TABLE' }]);
  });

  test('has no file of changes: who lacks it needs all rows, and the changes are those after it', async () => {
    const feed = () => readFeed(snapshots.layout, stream);
    const first = await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    const { runId } = first.run;
    const since = { complete_since: 1, complete_since_run: runId };
    expect(await feed()).toMatchObject({ sequence: 1, run_id: runId, changes: [], ...since });
    await expect(readdir(dirname(snapshots.layout.changes(stream, runId)))).rejects.toThrow('ENOENT');
    await snapshots.publish();
    expect(await feed()).toMatchObject({ changes: [], ...since });
    const second = await snapshots.run(stream, [{ id: 'b', n: 1 }]);
    await snapshots.publish();
    expect(await feed()).toMatchObject({ sequence: 2, changes: [{ run_id: second.run.runId, rows: 2 }], ...since });
    expect(await readdir(dirname(snapshots.layout.changes(stream, runId)))).toEqual([second.run.runId]);
  });

  test('begins the feed again if the store was put back to before it, even without a history', async () => {
    await snapshots.run('others', [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    await snapshots.run(stream, [{ id: 'b', n: 1 }]);
    await snapshots.publish();
    const store = await snapshots.store();
    await store.session.run(`DELETE FROM ${storeTable('streams', internalSchema)} WHERE stream = '${stream}'`);
    const { run, sequence } = await snapshots.run(stream, [{ id: 'c', n: 1 }], { historyMs: -1000 * hour });
    await snapshots.publish();
    const begun = { changes: [], complete_since: sequence, complete_since_run: run.runId };
    expect(await readFeed(snapshots.layout, stream)).toMatchObject({ sequence, run_id: run.runId, ...begun });
  });
});

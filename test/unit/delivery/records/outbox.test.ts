import { cp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeliveryInput } from '../../../../src/delivery/input.js';
import { eraseFromOutbox, Outbox, outboxProgress } from '../../../../src/delivery/records/outbox.js';
import { movePosition, readPosition } from '../../../../src/delivery/records/position.js';
import type { OutgoingRecord } from '../../../../src/sdk/destination.js';
import type { Feed } from '../../../../src/snapshot/feed.js';
import { PublishedStream } from '../published-stream.js';

let published: PublishedStream;
let folder: string;
beforeEach(async () => {
  published = await PublishedStream.open();
  folder = join(published.folder, 'outbox');
  await published.commit([
    { op: 'insert', id: 'a', n: 1 },
    { op: 'insert', id: 'b', n: 1 },
  ]);
  await published.commit([
    { op: 'update', id: 'a', n: 2 },
    { op: 'delete', id: 'b', n: 1 },
  ]);
});
afterEach(() => published.close());

const members = [
  { value: '"id"', name: 'id', type: { kind: 'text' } as const },
  { value: '"n"', name: "it's n", type: { kind: 'int64' } as const },
];

/** An outbox of all changes after a sequence. */
async function fill(since = 0, feed: Feed = published.feed, replaces?: Outbox): Promise<Outbox> {
  const { layout, session } = published;
  const input = await DeliveryInput.open({
    layout,
    feed,
    session,
    folder: join(published.folder, 'input'),
  });
  const queries = (await input.changes(since, 'append')).map(({ query }) => query);
  const { store_id, sequence, run_id, key } = feed;
  const content = { store_id, sequence, run_id, key, columns: [], erased: 7, base: null, is_whole: false };
  const outbox = await Outbox.fill(session, folder, { feed, queries, members, content, replaces });
  await input.close();
  return outbox;
}

async function listed(outbox: Outbox | undefined): Promise<(OutgoingRecord & { offset: number })[]> {
  const found: (OutgoingRecord & { offset: number })[] = [];
  for await (const records of outbox?.records('members') ?? []) found.push(...records);
  return found;
}

describe('an outbox', () => {
  it('has its records in the order of the commits, deletes first, numbered, each with the values of its row', async () => {
    const outbox = await fill();
    const records = await listed(outbox);
    expect(records.map(({ offset, op, key, json }) => [offset, op, key, json])).toEqual([
      [0, 'insert', 'a', `{"id":"a","it's n":1}`],
      [1, 'insert', 'b', `{"id":"b","it's n":1}`],
      [3, 'delete', 'b', `{"id":"b","it's n":1}`],
      [2, 'update', 'a', `{"id":"a","it's n":2}`],
    ]);
    expect(records.map(({ syncedAt, stream }) => [syncedAt, stream])).toEqual(
      ['01', '01', '02', '02'].map((day) => [`2026-01-${day}T00:00:00.000Z`, 'members']),
    );
    await outbox.close();
  });

  it('gives back every key, whatever its letters', async () => {
    const keys = ['', '\u001f', 'a\u001fb\u001f', '\u001fdelete\n', '\ufeff', 'null', '😀\0'];
    await published.commit(keys.map((id, n) => ({ op: 'insert', id, n })));
    const outbox = await fill(2);
    const records = await listed(outbox);
    expect(records.map(({ key, json, op, offset }) => [key, JSON.parse(json).id, op, offset])).toEqual(
      keys.map((key, offset) => [key, key, 'insert', offset]),
    );
    await outbox.close();
  });

  it('gives a change the same id each time, and other changes other ids', async () => {
    const first = await fill();
    const ids = (await listed(first)).map(({ id }) => id);
    await first.close();
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
    const later = await fill(1);
    expect((await listed(later)).map(({ id }) => id)).toEqual(ids.slice(2));
    await later.close();
    const { layout, feed } = published;
    await cp(layout.stream('members'), layout.stream('others'), { recursive: true });
    for (const another of [
      { ...feed, store_id: 'another' },
      { ...feed, stream: 'others' },
    ]) {
      const other = await fill(0, another);
      for (const { id } of await listed(other)) expect(ids).not.toContain(id);
      await other.close();
    }
  });

  it('that was left has the records without an acknowledgement, and the count of the others', async () => {
    const outbox = await fill();
    const before = await listed(outbox);
    outbox.acknowledged.note([0, 2], [{ offset: 3, key: 'b', column: null, reason: 'unknown', run_id: 'run-2' }]);
    await outbox.close();
    expect(await outboxProgress(folder)).toEqual({ records: 4, acknowledged: 3 });
    const left = await Outbox.left(published.session, folder);
    expect(await listed(left)).toEqual([before[1]]);
    expect([left?.mark.sequence, left?.mark.erased, left?.acknowledged.rejects.length]).toEqual([2, 7, 1]);
    await left?.close();
  });

  it('that was not finished does not count, and the next one starts afresh', async () => {
    await (await fill()).close();
    await rm(join(folder, '1', 'outbox.json'));
    expect([await Outbox.left(published.session, folder), await outboxProgress(folder)]).toEqual([
      undefined,
      undefined,
    ]);
    const next = await fill(1);
    expect((await listed(next)).length).toBe(2);
    await next.close();
  });

  it('whose mark cannot be read is refused, with a hint what to do', async () => {
    await (await fill()).close();
    await writeFile(join(folder, '1', 'outbox.json'), '{"version":1');
    const error = { code: 'state_unreadable', hint: expect.stringContaining('cdsync push --adopt') };
    await expect(Outbox.left(published.session, folder)).rejects.toMatchObject(error);
    await expect(outboxProgress(folder)).rejects.toMatchObject(error);
  });

  it('without any record can be left as well', async () => {
    await (await fill(2)).close();
    expect(await outboxProgress(folder)).toEqual({ records: 0, acknowledged: 0 });
    const left = await Outbox.left(published.session, folder);
    expect(await listed(left)).toEqual([]);
    await left?.close();
  });
});

describe('keys that are erased from an outbox', () => {
  it('are in no file of it, and it is whole', async () => {
    const first = await fill();
    first.acknowledged.note([1, 3], []);
    await first.close();
    const left = (await Outbox.left(published.session, folder)) as Outbox;
    await left.close();
    await (await fill(1, published.feed, left)).close();
    await writeFile(join(folder, '2', 'left.parquet'), 'by a crash of an erasure');
    const names = async () => (await readdir(join(folder, '2'))).filter((name) => name.endsWith('.parquet'));
    const before = await names();
    await eraseFromOutbox(published.session, folder, ['b']);
    const after = await names();
    expect(after.length).toBe(before.length - 1);
    for (const name of after) {
      const rows = await published.session.rows(`FROM read_parquet('${join(folder, '2', name)}')`);
      expect(JSON.stringify(rows, (_, value) => String(value))).not.toMatch(/"b"/);
    }
    const outbox = (await Outbox.left(published.session, folder)) as Outbox;
    await outbox.assertWhole();
    expect((await listed(outbox)).map(({ key, json }) => [key, json])).toEqual([
      ['null', '{}'],
      ['a', `{"id":"a","it's n":2}`],
    ]);
    await outbox.close();
  });
});

describe('an outbox that takes the place of another', () => {
  it('counts from its last file on, and knows whose records were sent', async () => {
    const first = await fill();
    first.acknowledged.note([0, 2], [{ offset: 1, key: 'b', column: null, reason: 'unknown', run_id: 'run-1' }]);
    await first.close();
    const left = (await Outbox.left(published.session, folder)) as Outbox;
    const keys = async (query: string) =>
      (await published.session.rows(`SELECT key FROM (${query}) ORDER BY ALL`)).map(({ key }) => key);
    expect([await keys(left.sent()), await keys(left.unsent())]).toEqual([
      ['a', 'a'],
      ['b', 'b'],
    ]);
    await left.close();
    const second = await fill(1, published.feed, left);
    await second.close();
    expect(await outboxProgress(folder)).toEqual({ records: 2, acknowledged: 0 });
    const now = (await Outbox.left(published.session, folder)) as Outbox;
    expect([await keys(now.sent()), await keys(now.sentKeys())]).toEqual([[], ['a']]);
    await now.close();
  });
});

describe('the position of a destination that can store nothing', () => {
  it('is the last one that it was moved to', async () => {
    const kept = join(published.folder, 'deliveries', 'crm');
    expect(await readPosition(kept)).toBeUndefined();
    const made = { key: ['id'], columns: [['attributes.n', 'n 1']] as [string, string][], erased: 0 };
    const position = { version: 1, store_id: 's', sequence: 2, run_id: 'r', ...made } as const;
    await movePosition(kept, { ...position, sequence: 1 });
    await movePosition(kept, position);
    expect(await readPosition(kept)).toEqual(position);
    await writeFile(join(kept, 'position.json'), '');
    await expect(readPosition(kept)).rejects.toMatchObject({ code: 'state_unreadable' });
  });
});

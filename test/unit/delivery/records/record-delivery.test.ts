import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readPosition } from '../../../../src/delivery/records/position.js';
import type { PublishedStream } from '../published-stream.js';
import { Delivering, dropped, gone, insert, update } from './delivering.js';
import type { Receiver } from './receiver.js';

let delivering: Delivering;
let stream: PublishedStream;
let receiver: Receiver;
beforeEach(async () => {
  delivering = await Delivering.open();
  ({ stream, receiver } = delivering);
});
afterEach(() => delivering.close());

const deliver: Delivering['deliver'] = (...asked) => delivering.deliver(...asked);
const said = () => receiver.got.splice(0).map(({ op, key, data }) => `${op} ${key} ${data.n ?? '-'}`);

describe('a delivery of records', () => {
  it('sends everything, then the changes, then nothing', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    expect([(await deliver()).status, said()]).toEqual(['ok', ['insert a 1', 'insert b 1']]);
    await stream.commit([update('a', 2), gone('b', 1)]);
    expect([(await deliver()).action, said()]).toEqual(['append', ['delete b 1', 'update a 2']]);
    expect([(await deliver()).action, said()]).toEqual(['nothing', []]);
  });

  it('gives a change of a folder that was put back another id', async () => {
    await stream.commit([insert('a', 1)]);
    await deliver();
    const putBack = stream.remember();
    const kept = join(stream.folder, 'kept');
    await cp(join(stream.folder, 'nightly', '.cdsync'), kept, { recursive: true });
    await stream.commit([update('a', 2)]);
    await deliver();
    putBack();
    await rm(join(stream.folder, 'nightly', '.cdsync'), { recursive: true });
    await cp(kept, join(stream.folder, 'nightly', '.cdsync'), { recursive: true });
    await stream.commit([update('a', 3)]);
    expect((await deliver()).status).toBe('ok');
    expect(new Set(receiver.got.map(({ id }) => id)).size).toBe(3);
    expect(receiver.rows.get('a')).toMatchObject({ n: 3 });
  });

  it.each([0, 1, 2])(
    'corrects the sent records of an outbox of a folder that was put back: %i of its records',
    async (takes) => {
      await stream.commit([insert('a', 1), insert('b', 1), gone('x', 1)]);
      await deliver();
      const putBack = stream.remember();
      await stream.commit([update('a', 2), insert('c', 1), gone('b', 1)]);
      receiver.takes = takes;
      expect((await deliver()).status).toBe('failed');
      receiver.takes = Number.POSITIVE_INFINITY;
      putBack();
      await stream.commit([insert('d', 4)]);
      expect(await deliver()).toMatchObject({ status: 'ok', why: expect.stringContaining('made again') });
      expect(new Map([...receiver.rows].map(([id, { n }]) => [id, n]))).toEqual(new Map(stream.rows));
    },
  );

  it('makes the waiting records again by the current rules, and does not send the sent ones again', async () => {
    await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
    receiver.takes = 2;
    expect((await deliver()).status).toBe('failed');
    delivering.columns = new Map([['n', dropped]]);
    receiver.takes = Number.POSITIVE_INFINITY;
    expect(await deliver()).toMatchObject({
      status: 'ok',
      rows: 2,
      why: expect.stringContaining('rules have changed'),
    });
    expect(said()).toEqual(['insert a 1', 'insert b 1', 'insert c -', 'insert d -']);
  });

  it('stores only the columns that the destination uses, and makes the waiting records again once it uses others', async () => {
    await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
    receiver.used = ['id'];
    receiver.takes = 2;
    expect((await deliver()).status).toBe('failed');
    receiver.used = ['id', 'n'];
    receiver.takes = 0;
    expect((await deliver()).status).toBe('failed');
    receiver.used = ['n'];
    receiver.takes = Number.POSITIVE_INFINITY;
    expect(await deliver()).toMatchObject({ status: 'ok', rows: 2, why: '' });
    expect(said()).toEqual(['insert a -', 'insert b -', 'insert c 1', 'insert d 1']);
    await stream.commit([update('a', 2)]);
    receiver.used = [];
    await deliver();
    expect(said()).toEqual(['update a -']);
    await stream.commit([update('a', 3)]);
    receiver.takes = 0;
    await deliver();
    [receiver.takes, receiver.used] = [1, undefined];
    expect(await deliver()).toMatchObject({
      status: 'ok',
      why: expect.stringContaining('templates use other columns'),
    });
    expect(said()).toEqual(['update a 3']);
  });

  it('says insert of rows that the receiver never had, and update of rows that it has, whatever the runs before the delivery saw', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    await deliver();
    said();
    await stream.commit([insert('c', 1), gone('a', 1), insert('d', 1)]);
    await stream.commit([update('c', 2), insert('a', 2), update('b', 2), gone('d', 1)]);
    expect((await deliver()).status).toBe('ok');
    expect(said().sort()).toEqual(['delete d 1', 'insert c 2', 'update a 2', 'update b 2']);
  });

  it('says the same if a rule has changed since', async () => {
    await stream.commit([insert('a', 1)]);
    await deliver();
    said();
    await stream.commit([insert('b', 1), update('a', 2)]);
    await stream.commit([update('b', 2)]);
    delivering.columns = new Map([['n', dropped]]);
    expect((await deliver()).status).toBe('ok');
    expect(said().sort()).toEqual(['insert b -', 'update a -']);
  });

  it('sends the changes of several runs in as few batches as those of one', async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `k${index}`);
    await stream.commit(ids.map((id) => insert(id, 1)));
    await deliver();
    await stream.commit(ids.map((id) => update(id, 2)));
    await stream.commit(ids.filter((_, index) => index % 2 === 0).map((id) => update(id, 3)));
    receiver.batches = 0;
    expect((await deliver()).status).toBe('ok');
    expect(receiver.batches).toBeLessThanOrEqual(31);
  });

  it('counts a refused record as new once, although each response gives its reason in other words', async () => {
    await stream.commit(['a', 'b'].map((id) => insert(id, 1)));
    receiver.refused = new Set(['b']);
    const [first, second] = [await deliver(), await deliver()];
    expect([first, second].map(({ status, refused }) => [status, refused])).toEqual([
      ['partial', 1],
      ['ok', 1],
    ]);
    expect(receiver.batches).toBeGreaterThan(1);
  });

  it('lets a record wait that fails always, and sends it first next time, with its newest values', async () => {
    await stream.commit(['a', 'b', 'c'].map((id) => insert(id, 1)));
    receiver.failing = new Set(['b']);
    const waits = await deliver();
    expect([waits.status, waits.waiting, waits.error?.code]).toEqual(['partial', 1, 'records_waiting']);
    expect(said()).toEqual(['insert a 1', 'insert c 1']);
    await stream.commit([update('b', 2), insert('d', 1)]);
    expect(await deliver()).toMatchObject({ status: 'partial', waiting: 1 });
    receiver.failing = new Set();
    await stream.commit([insert('e', 1)]);
    said();
    expect(await deliver()).toMatchObject({ status: 'ok', waiting: 0 });
    expect(said()).toEqual(['insert b 2', 'insert e 1']);
    expect(receiver.rows.get('b')).toMatchObject({ n: 2 });
  });

  it('reports a list of waiting records that is damaged, and sends all of them with --full', async () => {
    await stream.commit(['a', 'b', 'c'].map((id) => insert(id, 1)));
    receiver.failing = new Set(['b', 'c']);
    expect(await deliver()).toMatchObject({ waiting: 2 });
    receiver.failing = new Set();
    said();
    const path = join(stream.layout.delivery('crm'), 'rejects', 'members.jsonl');
    const whole = await readFile(path);
    const flipped = Buffer.from(whole);
    flipped[12] = (flipped[12] as number) ^ 1;
    // The first line alone is whole.
    for (const damaged of [flipped, whole.subarray(0, 40), whole.subarray(0, whole.indexOf('\n') + 1)]) {
      await writeFile(path, damaged);
      expect(await deliver()).toMatchObject({ status: 'failed', error: { code: 'state_unreadable' } });
    }
    expect(said()).toEqual([]);
    expect(await deliver({ full: true })).toMatchObject({ status: 'ok', waiting: 0 });
    expect(said().sort()).toEqual(
      expect.arrayContaining([expect.stringContaining(' b 1'), expect.stringContaining(' c 1')]),
    );
  });

  it('deletes what waited as an insert and is gone: the receiver may have it', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    receiver.failing = new Set(['b']);
    await deliver();
    await stream.commit([gone('b', 1)]);
    receiver.failing = new Set();
    said();
    await deliver();
    expect(said()).toEqual(['delete b 1']);
  });

  it('does not end for rows at its beginning that cannot be made requests of', async () => {
    const ids = Array.from({ length: 40 }, (_, index) => `k${String(index).padStart(2, '0')}`);
    receiver.unsent = new Set(ids.slice(0, 30));
    await stream.commit(ids.map((id) => insert(id, 1)));
    expect(await deliver()).toMatchObject({ status: 'partial', refused: 30 });
    expect(said()).toHaveLength(10);
  });

  it('ends if no request could be made of any row', async () => {
    const ids = Array.from({ length: 40 }, (_, index) => `k${index}`);
    receiver.unsent = new Set(ids);
    await stream.commit(ids.map((id) => insert(id, 1)));
    expect((await deliver()).error?.code).toBe('records_refused');
  });

  it('sends nothing of an outbox with a flipped bit, and keeps it', async () => {
    await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
    receiver.takes = 2;
    await deliver();
    receiver.takes = Number.POSITIVE_INFINITY;
    const outbox = join(stream.layout.deliveredStream('crm', 'members'), 'outbox', '1');
    const files = (await readdir(outbox)).filter((name) => name.endsWith('.parquet'));
    const path = join(outbox, files[0] as string);
    const whole = await readFile(path);
    said();
    for (let place = 0; place < 16; place += 1) {
      const damaged = Buffer.from(whole);
      const at = Math.floor((place * whole.length) / 16);
      damaged[at] = (damaged[at] as number) ^ (1 << (place % 8));
      await writeFile(path, damaged);
      expect(await deliver()).toMatchObject({ status: 'failed', rows: 0, error: { code: 'state_unreadable' } });
      expect((await delivering.planned()).error).toMatchObject({ code: 'state_unreadable' });
    }
    expect(said()).toEqual([]);
    await writeFile(path, whole);
    expect(await deliver()).toMatchObject({ status: 'ok', rows: 2 });
    expect(said()).toEqual(['insert c 1', 'insert d 1']);
  });

  it('does not count an outbox as sent that has fewer records than were written into it', async () => {
    await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
    receiver.takes = 2;
    await deliver();
    receiver.takes = Number.POSITIVE_INFINITY;
    const kept = stream.layout.deliveredStream('crm', 'members');
    const mark = join(kept, 'outbox', '1', 'outbox.json');
    const { crc: _, ...content } = JSON.parse(await readFile(mark, 'utf8'));
    await writeFile(mark, JSON.stringify({ ...content, records: 5 }));
    const error = { code: 'state_unreadable', message: expect.stringContaining('4 of the 5 records') };
    expect(await deliver()).toMatchObject({ status: 'failed', error });
    expect([await readPosition(kept), (await readdir(join(kept, 'outbox'))).length]).toEqual([undefined, 1]);
  });

  it('sends nothing but a delete of a person who was erased in between', async () => {
    await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
    receiver.takes = 2;
    await deliver();
    await delivering.forget('d');
    receiver.takes = Number.POSITIVE_INFINITY;
    expect((await deliver()).status).toBe('ok');
    expect(said()).toEqual(['insert a 1', 'insert b 1', 'delete d -', 'insert c 1']);
  });

  it('a refused delete waits as a delete', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    await deliver();
    await stream.commit([gone('a', 1)]);
    receiver.refused = new Set(['a']);
    expect(await deliver()).toMatchObject({ status: 'partial', refused: 1 });
    said();
    receiver.refused = new Set();
    expect(await deliver()).toMatchObject({ status: 'ok', refused: 0 });
    expect(said()).toEqual(['delete a 1']);
  });

  it('a record that was refused and is then deleted is deleted', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    await deliver();
    receiver.refused = new Set(['a']);
    await stream.commit([update('a', 2)]);
    await deliver();
    await stream.commit([gone('a', 2)]);
    await deliver();
    said();
    receiver.refused = new Set();
    await deliver();
    expect([said(), [...receiver.rows.keys()]]).toEqual([['delete a 2'], ['b']]);
  });

  it('--full sends everything, whatever waits', async () => {
    await stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    receiver.takes = 2;
    await deliver();
    said();
    receiver.takes = Number.POSITIVE_INFINITY;
    await deliver({ full: true });
    expect(said()).toEqual(['insert a 1', 'insert b 1', 'insert c 1']);
  });

  it('is foretold, and nothing is written for it', async () => {
    await stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    expect((await delivering.planned()).plan).toMatchObject({
      action: 'append',
      rows: { insert: 3, update: 0, delete: 0 },
    });
    receiver.takes = 2;
    await deliver();
    expect((await delivering.planned()).plan).toMatchObject({
      rows: { insert: 1 },
      why: 'records wait that were not sent',
    });
    await stream.commit([update('a', 2), gone('c', 1)]);
    delivering.columns = new Map([['n', dropped]]);
    const { plan } = await delivering.planned();
    expect([plan?.rows, plan?.why]).toEqual([
      { insert: 0, update: 1, delete: 1 },
      expect.stringContaining('made again: rules have changed'),
    ]);
    receiver.takes = Number.POSITIVE_INFINITY;
    receiver.got.length = 0;
    await deliver();
    expect(said()).toEqual(['delete c -', 'update a -']);
    expect((await delivering.planned()).plan).toMatchObject({ action: 'nothing' });
  });

  it('continues after changes were skipped that are gone, if asked to', async () => {
    await stream.commit([insert('a', 1), insert('b', 1)]);
    await deliver();
    await stream.commit([update('a', 2)]);
    await stream.commit([update('a', 3)]);
    stream.dropChanges();
    expect((await deliver()).error).toMatchObject({ code: 'changes_gone', hint: expect.stringContaining('--full') });
    said();
    await deliver({ full: true });
    expect(said()).toEqual(['insert a 3', 'insert b 1']);
  });
});

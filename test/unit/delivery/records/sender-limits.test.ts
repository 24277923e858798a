import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { StoredRecord } from '../../../../src/delivery/records/outbox.js';
import type { OutgoingRecord, RecordResult } from '../../../../src/sdk/destination.js';
import { ok, outbox, type Respond, Sending } from './sending.js';

let sending: Sending;
beforeEach(async () => {
  sending = await Sending.open();
});
afterEach(() => sending.close());

const again: RecordResult = { type: 'again', reason: 'busy' };
const no: RecordResult = { type: 'refused', reason: 'no' };
const unsent: RecordResult = { type: 'refused', reason: 'empty', isUnsent: true };

const keys = (count: number, prefix = 'k') => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
/** Responds to the nth batch, from 1, as a test says. */
const by =
  (result: (batch: number, record: OutgoingRecord) => RecordResult): Respond =>
  (batch) =>
    batch.map((record) => result(sending.sent.length, record));
const refusedKeys = () => sending.acknowledged.rejects.map(({ key }) => key);

describe('a record of a key whose last one was not taken', () => {
  const ops = (commits: readonly (readonly [string, StoredRecord['op']])[]) =>
    outbox(commits.map(([key]) => [key])).map((record, at) => ({ ...record, op: commits[at]?.[1] ?? record.op }));
  const sentOps = () => sending.sent.flat().map(({ op }) => op);

  it('is sent as the destination sees it: an update of a row that it never had is an insert, until one is taken', async () => {
    const records = ops([
      ['a', 'update'],
      ['a', 'update'],
      ['a', 'update'],
    ]);
    await sending.send(
      records,
      by((batch) => (batch === 1 ? no : ok)),
      { owed: new Map([['a', 'insert']]) },
    );
    expect([sentOps(), [...sending.owed]]).toEqual([['insert', 'insert', 'update'], []]);
  });

  it('is an update if a delete was not taken, and the key is back', async () => {
    await sending.send(ops([['a', 'insert']]), () => [ok], { owed: new Map([['a', 'delete']]) });
    await sending.send(ops([['b', 'insert']]), () => [ok], { owed: new Map([['b', 'update']]) });
    expect([sentOps(), sending.acknowledged.count]).toEqual([[], 1]);
    await sending.reset();
    await sending.send(ops([['a', 'insert']]), () => [ok], { owed: new Map([['a', 'delete']]) });
    expect(sentOps()).toEqual(['update']);
    await sending.reset();
    await sending.send(ops([['b', 'insert']]), () => [ok], { owed: new Map([['b', 'update']]) });
    expect(sentOps()).toEqual(['insert']);
  });

  it('is owed only if its last record was refused', async () => {
    const taken = by((_, { id }) => (id === 'a@1' || id === 'b@2' ? no : ok));
    await sending.send(
      outbox([
        ['a', 'b', 'c'],
        ['a', 'b'],
      ]),
      taken,
    );
    expect([[...sending.owed], refusedKeys()]).toEqual([['b'], ['a', 'b']]);
  });
});

describe('a destination that is away', () => {
  it('is asked four times, then once after each pause, and the delivery ends', async () => {
    const failing = sending.send(outbox([keys(300)]), () => [again]);
    await expect(failing).rejects.toMatchObject({ code: 'destination_unavailable', kind: 'retryable' });
    await expect(failing).rejects.toThrow(/^9 records were sent again and again, .* for them: busy$/);
    expect([sending.sent.length, sending.clock.slept]).toEqual([9, [500, 1000, 2000, 4000, 8000]]);
  });

  it('is not one that fails on records while it takes others between them', async () => {
    await sending.send(
      outbox([keys(40)]),
      by((batch, { key }) => (batch <= 40 && Number(key.slice(1)) % 4 !== 3 ? again : ok)),
    );
    // The only pause is that before the second round.
    expect([sending.clock.slept, sending.acknowledged.count, sending.sent.length]).toEqual([[500], 40, 70]);
  });

  it('is one that takes a record only after each pause: it gets everything, however often it pauses', async () => {
    let lastPauses = -1;
    const respond = () => {
      const pauses = sending.clock.slept.length;
      if (pauses === lastPauses) return [again];
      lastPauses = pauses;
      return [ok];
    };
    await sending.send(outbox([keys(30)]), respond);
    expect(sending.acknowledged.count).toBe(30);
  });

  it('says that one record alone waits', async () => {
    const failing = sending.send(outbox([['a']]), () => [again]);
    await expect(failing).rejects.toThrow('1 record was sent again and again, and the destination still asks for it');
  });

  it('is not asked again by this delivery if the connector has tried for long', async () => {
    const failing = sending.send(outbox([keys(300)]), () => [{ ...again, isTried: true }]);
    await expect(failing).rejects.toMatchObject({ name: 'CdsyncError', code: 'destination_unavailable' });
    expect([sending.sent.length, sending.clock.slept]).toEqual([4, []]);
  });
});

describe('a destination that asks to wait', () => {
  it('gets nothing before the wait is over, and everything after it, as often as it asks', async () => {
    const asks = { ...again, afterMs: 60_000, isForAll: true } as const;
    await sending.send(
      outbox([keys(20)]),
      by((batch) => (batch % 2 === 1 ? asks : ok)),
    );
    expect(sending.acknowledged.count).toBe(20);
    // Each wait happens once a round.
    expect(sending.clock.slept.filter((ms) => ms === 60_000)).toHaveLength(20);
    expect(Math.max(...sending.clock.slept.filter((ms) => ms !== 60_000))).toBeLessThan(10_000);
  });

  it('and does not say how long gets nothing for half a second', async () => {
    await sending.send(
      outbox([['a', 'b']]),
      by((batch) => (batch === 1 ? { ...again, isForAll: true } : ok)),
    );
    expect([sending.ids, sending.clock.slept[0]]).toEqual([[['a@1'], ['b@1'], ['a@1']], 500]);
  });

  it('is waited for five minutes at most, as the last one of several asks', async () => {
    const waits = [1000, 300_000];
    const asked = (afterMs: number): RecordResult => ({ ...again, afterMs, isForAll: true });
    await sending.send(outbox([['a', 'b', 'c']]), (batch) =>
      batch.map(() => (waits.length > 0 ? asked(waits.shift() as number) : ok)),
    );
    expect(sending.clock.slept.slice(0, 2)).toEqual([1000, 300_000]);
    await sending.reset();
    const failing = sending.send(outbox([['a', 'b']]), () => [asked(300_001)]);
    await expect(failing).rejects.toMatchObject({ code: 'destination_unavailable' });
    expect(sending.sent).toHaveLength(1);
  });
});

describe('records that are tried again later', () => {
  it('are not kept in memory beyond 10,000: then they come first', async () => {
    const failing = new Set<string>();
    const respond: Respond = (batch) =>
      batch.map(({ id }, at) => {
        if (at % 2 === 1 || failing.has(id)) return ok;
        failing.add(id);
        return again;
      });
    await sending.send(outbox([keys(28_000)]), respond, { batchRecords: 4000 });
    // After five batches 10,000 wait: they go after the one that is under way.
    expect(sending.sent.slice(6, 8).map((batch) => batch[0]?.key)).toEqual(['k0', 'k8000']);
    expect(sending.acknowledged.count).toBe(28_000);
  });

  it('wait for the next delivery if they waited before, also where nothing else is sent', async () => {
    await sending.send(
      outbox([['a', 'b']]),
      by((_, { key }) => (key === 'a' ? again : again)),
      {
        batchRecords: 2,
        owed: new Map([
          ['a', 'update'],
          ['b', 'update'],
        ]),
      },
    );
    expect(sending.acknowledged.rejects.map(({ key, is_waiting }) => [key, is_waiting])).toEqual([
      ['a', true],
      ['b', true],
    ]);
    await sending.reset();
    const failing = sending.send(outbox([['a', 'b']]), () => [again, again], {
      batchRecords: 2,
      owed: new Map([['a', 'update']]),
    });
    await expect(failing).rejects.toMatchObject({ code: 'destination_unavailable' });
  });
});

describe('a destination that refuses from the first record on', () => {
  const first = (count: number, result: RecordResult) =>
    by((_, { key }) => (Number(key.slice(1)) < count ? result : ok));

  it('gets 19 of them, and the rest if one is taken', async () => {
    await sending.send(outbox([keys(30)]), first(19, no));
    expect([sending.acknowledged.count, refusedKeys()]).toEqual([30, keys(19)]);
  });

  it.each([1, 4])(
    'gets no 21st, with %i at once: the delivery ends, and lists none as a reject',
    async (batchesAtOnce) => {
      const failing = sending.send(outbox([keys(300)]), first(300, no), { batchesAtOnce });
      await expect(failing).rejects.toMatchObject({ code: 'records_refused', message: expect.stringMatching(/: no$/) });
      expect([sending.sent.length, sending.acknowledged.count]).toEqual([20, 0]);
    },
  );

  it('may refuse as many later on', async () => {
    await sending.send(
      outbox([['a', ...keys(50)]]),
      by((_, { key }) => (key === 'a' ? ok : no)),
    );
    expect([sending.acknowledged.count, refusedKeys()]).toEqual([51, keys(50)]);
  });

  it('is not one that refuses the same record again', async () => {
    const owed = new Map(keys(40).map((key) => [key, 'update'] as const));
    await sending.send(outbox([keys(59)]), () => [no], { owed });
    expect([sending.acknowledged.count, refusedKeys()]).toEqual([59, keys(59)]);
  });

  it('is asked about rows that make requests after up to 10,000 rows that make none', async () => {
    await sending.send(outbox([keys(10_050)]), first(9_999, unsent), { batchRecords: 100 });
    expect([sending.acknowledged.count, refusedKeys().length]).toEqual([10_050, 9_999]);
    await sending.reset();
    const failing = sending.send(outbox([keys(30_000)]), first(30_000, unsent), { batchRecords: 100 });
    await expect(failing).rejects.toMatchObject({ code: 'records_refused' });
    expect([sending.sent.length, sending.acknowledged.count]).toEqual([100, 0]);
  });

  it.each([
    [19, undefined],
    [20, 'records_refused'],
  ])('is assumed of %i rows without a request if nothing else is left: %s', async (count, code) => {
    const caught = await sending.send(outbox([keys(count)]), () => [unsent]).catch((error: unknown) => error);
    expect((caught as { code?: string }).code).toBe(code);
    if (code !== undefined) expect(String(caught)).toMatch(/: empty$/);
    expect(refusedKeys()).toHaveLength(code === undefined ? count : 0);
  });

  it('is not counted twice for a record that may pass last, again in each commit', async () => {
    const passes = new Map<string, number>();
    const respond: Respond = (batch) =>
      batch.map(({ id, key }) => {
        passes.set(id, (passes.get(id) ?? 0) + 1);
        if (key === 'a') return { type: 'refused', reason: '409', mayPassLast: true };
        return ok;
      });
    await sending.send(
      outbox([
        ['a', 'b'],
        ['a', 'b'],
      ]),
      respond,
    );
    expect([...passes]).toEqual([
      ['a@1', 2],
      ['b@1', 1],
      ['a@2', 2],
      ['b@2', 1],
    ]);
    expect(refusedKeys()).toEqual(['a', 'a']);
  });
});

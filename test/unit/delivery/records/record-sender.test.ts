import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { OutgoingRecord, RecordResult } from '../../../../src/sdk/destination.js';
import { turn } from '../../api/clocks.js';
import { ok, outbox, type Respond, Sending } from './sending.js';

let sending: Sending;
beforeEach(async () => {
  sending = await Sending.open();
});
afterEach(() => sending.close());

const send: Sending['send'] = (records, respond, asked) => sending.send(records, respond, asked);
const all = (batch: readonly OutgoingRecord[]) => batch.map(() => ok);

describe('records are handed over', () => {
  it('in batches of as many as the destination takes, in order', async () => {
    const sent = await send(outbox([['a', 'b', 'c', 'd', 'e']]), all, { batchRecords: 2 });
    expect(sent).toEqual([['a@1', 'b@1'], ['c@1', 'd@1'], ['e@1']]);
    expect(sending.acknowledged.count).toBe(5);
  });

  it('one by one if the destination sets no batch size', async () => {
    expect(await send(outbox([['a', 'b']]), all)).toEqual([['a@1'], ['b@1']]);
  });

  it('in batches of as many bytes as the destination takes; a longer record is refused', async () => {
    const records = outbox([['a', 'b', 'c', 'd']], (key) => (key === 'c' ? 'x'.repeat(11) : 'xxxxx'));
    const sent = await send(records, all, { batchRecords: 10, batchBytes: 10 });
    expect(sent).toEqual([['a@1', 'b@1'], ['d@1']]);
    expect(sending.acknowledged.rejects).toEqual([
      {
        key: 'c',
        column: null,
        reason: 'a record of 11 bytes, longer than a batch may be (10)',
        run_id: 'run-1',
        op: 'update',
      },
    ]);
  });

  it('only if they are not acknowledged yet', async () => {
    sending.acknowledged.note([0, 2], []);
    expect(await send(outbox([['a', 'b', 'c']]), all)).toEqual([['b@1']]);
  });

  it('deletes first, and only when they are through the others, which may need values that the deletes free', async () => {
    const records = outbox([['a', 'b', 'c', 'd']]).map((record, at) => ({
      ...record,
      op: at < 2 ? ('delete' as const) : ('update' as const),
    }));
    let deletes = 0;
    const mixed: string[] = [];
    const respond = async (batch: readonly OutgoingRecord[]) => {
      const isDelete = batch[0]?.op === 'delete';
      if (isDelete) deletes += 1;
      else if (deletes > 0) mixed.push(String(batch[0]?.id));
      for (let wait = 0; wait < 5; wait += 1) await turn();
      if (isDelete) deletes -= 1;
      return all(batch);
    };
    await send(records, respond, { batchRecords: 1, batchesAtOnce: 4 });
    expect([sending.acknowledged.count, mixed]).toEqual([4, []]);
  });

  it('once more after all others if values that others free may let them pass', async () => {
    const tries = new Map<string, number>();
    const sent = await send(outbox([['a', 'b', 'c']]), (batch) =>
      batch.map(({ id }): RecordResult => {
        tries.set(id, (tries.get(id) ?? 0) + 1);
        return id === 'a@1' && tries.get(id) === 1
          ? { type: 'refused', reason: '409', mayPassLast: true }
          : { type: 'acknowledged' };
      }),
    );
    expect(sent).toEqual([['a@1'], ['b@1'], ['c@1'], ['a@1']]);
    expect([sending.acknowledged.count, sending.acknowledged.rejects]).toEqual([3, []]);
  });

  it('of one key in the order of the commits, with no more batches at once than the destination takes', async () => {
    const commits = fc.array(fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1 }), { maxLength: 4 });
    const troubles = fc.array(fc.constantFrom(false, false, true), { minLength: 1, maxLength: 8 });
    const property = fc.asyncProperty(
      commits,
      troubles,
      fc.integer({ min: 1, max: 3 }),
      async (keys, trouble, atOnce) => {
        await sending.reset();
        const [taken, underWay] = [new Map<string, number[]>(), new Set<string>()];
        let [calls, batches] = [0, 0];
        const records = outbox(keys);
        await send(
          records,
          async (batch) => {
            batches += 1;
            expect(batches).toBeLessThanOrEqual(atOnce);
            for (const { key } of batch) expect(underWay.has(key)).toBe(false);
            for (const { key } of batch) underWay.add(key);
            await turn();
            // Only the first few calls may fail.
            calls += 1;
            const fails = calls <= trouble.length && trouble[calls - 1];
            const results = batch.map(({ key, id }): RecordResult => {
              underWay.delete(key);
              if (fails) return { type: 'again', reason: 'busy' };
              taken.set(key, [...(taken.get(key) ?? []), Number(id.split('@')[1])]);
              return ok;
            });
            batches -= 1;
            return results;
          },
          { batchRecords: 2, batchesAtOnce: atOnce },
        ).catch((error: { code?: string }) => expect(error.code).toBe('destination_unavailable'));
        for (const sequences of taken.values()) expect(sequences).toEqual([...new Set(sequences)].sort());
        const known = records.filter(({ offset }) => sending.acknowledged.has(offset)).map(({ id }) => id);
        expect(known.sort()).toEqual([...taken].flatMap(([key, list]) => list.map((n) => `${key}@${n}`)).sort());
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });
});

describe('a record that the destination asks for again', () => {
  it('is sent after the requested wait, and before later records of its key', async () => {
    let refusals = 2;
    const sent = await send(outbox([['a'], ['a']]), () =>
      refusals-- > 0 ? [{ type: 'again', reason: 'busy', afterMs: 5_000 }] : [ok],
    );
    expect(sent).toEqual([['a@1'], ['a@1'], ['a@1'], ['a@2']]);
    expect(sending.clock.slept).toEqual([5_000, 5_000]);
  });

  it.each([
    {
      afterMs: 3_600_000,
      patienceMs: undefined,
      said: /to wait 1 h 0 min, until \S+Z, .*`retry.patience` is 5 min 0 s: the/,
    },
    {
      afterMs: 9_999_999_999_000,
      patienceMs: undefined,
      said: /to wait 115741 days, until \S+Z, .* is 5 min 0 s: the/,
    },
    { afterMs: 11_000, patienceMs: 10_000, said: /to wait 11 s, until \S+Z, .*`retry.patience` is 10 s: the receiver/ },
  ])(
    'is left for the next delivery if it asks for a wait of $afterMs ms, which is beyond the patience',
    async ({ afterMs, patienceMs, said }) => {
      let times = 0;
      const respond: Respond = () => {
        times += 1;
        return [{ type: 'again', reason: 'the receiver answered 429', afterMs }];
      };
      const failing = send(outbox([['a']]), respond, { patienceMs });
      await expect(failing).rejects.toMatchObject({ code: 'destination_unavailable', kind: 'retryable' });
      await expect(failing).rejects.toThrow(said);
      expect(times).toBe(1);
      expect(sending.clock.slept).toEqual([]);
    },
  );

  it('is not sent forever: it waits for the next delivery, and the others are delivered', async () => {
    let times = 0;
    const respond = (batch: readonly OutgoingRecord[]) => {
      times += 1;
      return batch.map(({ key }): RecordResult => (key === 'b' ? { type: 'again', reason: 'busy' } : ok));
    };
    await send(outbox([['a', 'b', 'c']]), respond, { batchRecords: 3 });
    expect(times).toBe(6);
    expect(sending.clock.slept).toEqual([500, 1000, 2000, 4000, 8000]);
    expect(sending.acknowledged.count).toBe(3);
    expect(sending.acknowledged.rejects).toEqual([
      { key: 'b', column: null, reason: 'busy', run_id: 'run-1', op: 'update', is_waiting: true },
    ]);
  });
});

describe('a record that is refused', () => {
  const respond = (batch: readonly OutgoingRecord[]) =>
    batch.map(({ key }): RecordResult => (key === 'b' ? { type: 'refused', reason: 'unknown', column: 'id' } : ok));

  it('is kept with its reason, and the others are delivered', async () => {
    await send(outbox([['a', 'b', 'c']]), respond, { batchRecords: 3 });
    expect(sending.acknowledged.count).toBe(3);
    expect(sending.acknowledged.rejects).toEqual([
      { key: 'b', column: 'id', reason: 'unknown', run_id: 'run-1', op: 'update' },
    ]);
  });

  it('ends the delivery if the job says so; records acknowledged with it are not sent again', async () => {
    await expect(
      send(outbox([['a', 'b', 'c', 'd']]), respond, { batchRecords: 3, onReject: 'fail' }),
    ).rejects.toMatchObject({ code: 'row_rejected', message: 'the destination refuses a record: unknown' });
    expect([0, 1, 2, 3].map((offset) => sending.acknowledged.has(offset))).toEqual([true, false, true, false]);
    expect(sending.acknowledged.rejects).toEqual([]);
  });
});

describe('a delivery of records ends', () => {
  it('with the error of the connector, and hands over nothing more', async () => {
    let calls = 0;
    const failing = send(outbox([['a', 'b', 'c', 'd']]), (batch) => {
      calls += 1;
      if (calls === 2) throw new Error('the login is refused');
      return all(batch);
    });
    await expect(failing).rejects.toThrow('the login is refused');
    expect([calls, sending.acknowledged.count]).toEqual([2, 1]);
  });

  it('if the connector returns another number of results than it got records', async () => {
    await expect(send(outbox([['a', 'b']]), () => [ok, ok])).rejects.toThrow('returned 2 results for 1 records');
  });

  it('as soon as it is aborted', async () => {
    const stop = new AbortController();
    const failing = send(
      outbox([['a', 'b', 'c']]),
      (batch) => {
        stop.abort();
        return all(batch);
      },
      { signal: stop.signal },
    );
    await expect(failing).rejects.toThrow();
    expect(sending.acknowledged.count).toBeLessThan(3);
  });
});

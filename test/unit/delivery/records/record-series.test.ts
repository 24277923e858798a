import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Change } from '../published-stream.js';
import { Delivering, dropped, gone, insert, update } from './delivering.js';

type Event =
  | { readonly type: 'changes'; readonly keys: readonly string[] }
  | { readonly type: 'deliver'; readonly takes: number; readonly refused: readonly string[] }
  | { readonly type: 'rule' }
  | { readonly type: 'forget'; readonly key: string };

const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
const events: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ type: fc.constant('changes' as const), keys: fc.uniqueArray(key, { minLength: 1 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('deliver' as const),
      takes: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 8 })),
      refused: fc.oneof(fc.constant([]), fc.uniqueArray(key, { maxLength: 2 })),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ type: 'rule' as const }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('forget' as const), key }) },
);

describe('a receiver that keeps the last image of each key', () => {
  it.each(['mirror', 'append'] as const)('has the snapshot in the end, after any days, in mode %s', async (mode) => {
    const property = fc.asyncProperty(fc.array(events, { maxLength: 14 }), async (days) => {
      const delivering = await Delivering.open();
      const { stream, receiver } = delivering;
      const erased = new Set<string>();
      let n = 1;
      const send = () => delivering.deliver({}, { mode });
      await stream.commit([insert('a', 1), insert('b', 1)]);
      for (const day of days) {
        n += 1;
        if (day.type === 'rule') delivering.columns = new Map(delivering.columns.size === 0 ? [['n', dropped]] : []);
        if (day.type === 'changes') {
          const changes = day.keys.map((id, index): Change => {
            const before = stream.rows.get(id);
            if (before === undefined) return insert(id, n);
            return index % 3 === 2 ? gone(id, Number(before)) : update(id, n);
          });
          for (const { id } of changes) erased.delete(id);
          await stream.commit(changes);
        }
        if (day.type === 'forget' && stream.rows.has(day.key)) {
          await delivering.forget(day.key);
          erased.add(day.key);
          receiver.got.length = 0;
        }
        if (day.type === 'deliver') {
          [receiver.takes, receiver.refused] = [day.takes, new Set(day.refused)];
          const before = receiver.got.length;
          await send();
          for (const { key: sent, op, data } of receiver.got.slice(before)) {
            if (delivering.columns.size > 0) expect(data).not.toHaveProperty('n');
            if (erased.has(sent)) expect([op, data.n ?? null]).toEqual(['delete', null]);
          }
        }
      }
      [receiver.takes, receiver.refused] = [Number.POSITIVE_INFINITY, new Set()];
      await send();
      expect((await send()).status).toBe('ok');
      expect([...receiver.rows.keys()].sort()).toEqual([...stream.rows.keys()].sort());
      for (const [id, row] of receiver.rows) if ('n' in row) expect([id, row.n]).toEqual([id, stream.rows.get(id)]);
      expect(await delivering.deliver({}, { mode })).toMatchObject({ status: 'ok', action: 'nothing' });
      await delivering.close();
    });
    await fc.assert(property, { numRuns: 10 });
  });
});

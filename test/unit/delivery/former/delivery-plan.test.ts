import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../../src/core/errors.js';
import {
  type DeliveryPlan,
  type PlanTask,
  planDelivery,
  planWithVariants,
} from '../../../../src/delivery/former/delivery-plan.js';
import type { Watermark } from '../../../../src/sdk/former/watermark.js';

const watermark: Watermark = {
  destination: 'crm',
  stream: 'members',
  table: 'members',
  storeId: 'here',
  sequence: 5,
  definition: 'as it is',
  deliveredAt: '2026-01-01T00:00:00.000Z',
};

/** An ordinary destination, two commits behind. */
const behind: PlanTask = {
  mode: 'mirror',
  feed: { stream: 'members', store_id: 'here', sequence: 7, complete_since: 2 },
  definition: 'as it is',
  watermark,
  table: { name: 'members', isEmpty: false },
  full: false,
  adopt: false,
  hasRejects: false,
};
const upToDate = { ...behind, watermark: { ...watermark, sequence: 7 } };
const never = { ...behind, watermark: undefined, table: undefined };

function outcome(task: PlanTask): DeliveryPlan | { readonly code: string } {
  try {
    return planDelivery(task);
  } catch (error) {
    if (error instanceof CdsyncError) return { code: error.code };
    throw error;
  }
}

const everything = (reason: string) => ({ type: 'everything', reason });
const modes = ['append', 'upsert', 'mirror', 'replace'] as const;
const keyed = ['upsert', 'mirror', 'replace'] as const;

describe('a stream that got another table', () => {
  const moved = { ...behind, table: { name: 'customers', isEmpty: false } };

  it.each(modes)('does not touch the rows that are there, in mode %s', (mode) => {
    for (const full of [false, true]) expect(outcome({ ...moved, mode, full })).toEqual({ code: 'table_not_ours' });
  });

  it.each(modes)('fills it if it is empty or missing, in mode %s', (mode) => {
    expect(planDelivery({ ...moved, mode, table: { name: 'customers', isEmpty: true } })).toEqual(everything('first'));
    expect(planDelivery({ ...moved, mode, table: undefined })).toEqual(everything('table_missing'));
  });

  it.each(keyed)('takes its rows over if asked, in mode %s', (mode) => {
    expect(planDelivery({ ...moved, mode, adopt: true })).toEqual(everything('first'));
  });
});

describe('a destination that has what is published', () => {
  it.each(modes)('gets nothing in mode %s', (mode) => {
    expect(planDelivery({ ...upToDate, mode })).toEqual({ type: 'nothing' });
  });

  it.each(['append', 'upsert', 'mirror'] as const)('gets its refused rows again in mode %s', (mode) => {
    expect(planDelivery({ ...upToDate, mode, hasRejects: true })).toEqual({ type: 'changes', since: 7 });
  });

  it('gets everything if asked', () => {
    expect(planDelivery({ ...upToDate, full: true })).toEqual(everything('asked'));
  });

  it('gets everything again if the table is gone', () => {
    for (const mode of modes)
      expect(planDelivery({ ...upToDate, mode, table: undefined })).toEqual(everything('table_missing'));
  });
});

describe('a destination that is behind', () => {
  it.each(['append', 'upsert', 'mirror'] as const)('gets the changes since in mode %s', (mode) => {
    expect(planDelivery({ ...behind, mode })).toEqual({ type: 'changes', since: 5 });
  });

  it('gets everything in mode replace', () => {
    expect(planDelivery({ ...behind, mode: 'replace' })).toEqual(everything('replace'));
  });

  it('still gets the changes if the oldest kept ones are the next that it needs', () => {
    expect(planDelivery({ ...behind, watermark: { ...watermark, sequence: 2 } })).toEqual({
      type: 'changes',
      since: 2,
    });
  });

  it.each(keyed)('further than the changes that are kept gets everything in mode %s', (mode) => {
    expect(planDelivery({ ...behind, mode, watermark: { ...watermark, sequence: 1 } })).toEqual(
      everything('too_far_behind'),
    );
  });
});

describe('a destination without a watermark', () => {
  it.each(modes)('gets everything in mode %s, whether its table is there or not', (mode) => {
    expect(planDelivery({ ...never, mode })).toEqual(everything('first'));
    expect(planDelivery({ ...never, mode, table: { name: 'members', isEmpty: true } })).toEqual(everything('first'));
  });

  it.each(modes)('is left alone in mode %s if its table has rows, even if everything is asked for', (mode) => {
    const taken = { ...behind, mode, watermark: undefined };
    expect([outcome(taken), outcome({ ...taken, full: true })]).toEqual([
      { code: 'table_not_ours' },
      { code: 'table_not_ours' },
    ]);
  });

  it('is reconciled with its rows if it is taken over', () => {
    for (const mode of keyed)
      expect(planDelivery({ ...behind, mode, watermark: undefined, adopt: true })).toEqual(everything('first'));
  });

  it('in mode append gets only the watermark if it is taken over, and everything if asked', () => {
    const taken = { ...behind, mode: 'append', watermark: undefined, adopt: true } as const;
    expect(planDelivery(taken)).toEqual({ type: 'adopt' });
    expect(planDelivery({ ...taken, full: true })).toEqual(everything('asked'));
  });
});

describe('a watermark of another store', () => {
  const odd = [
    ['of another storage folder', { ...watermark, storeId: 'elsewhere' }, 'other_store', 'store_unknown'],
    ['later than what is published', { ...watermark, sequence: 8 }, 'went_back', 'store_unknown'],
    ['before the changes that are kept', { ...watermark, sequence: 1 }, 'too_far_behind', 'changes_gone'],
  ] as const;

  it.each(odd)('%s: everything comes in the modes that have a key', (_, found, reason) => {
    for (const mode of keyed) expect(planDelivery({ ...behind, mode, watermark: found })).toEqual(everything(reason));
  });

  it.each(odd)('%s: in mode append a person decides', (_, found, __, code) => {
    const task = { ...behind, mode: 'append', watermark: found } as const;
    expect(outcome(task)).toEqual({ code });
    expect(outcome({ ...task, adopt: true })).toEqual({ type: 'adopt' });
    expect(outcome({ ...task, full: true })).toEqual(everything('asked'));
  });
});

describe('another definition', () => {
  it.each(keyed)('brings everything in mode %s', (mode) => {
    expect(planDelivery({ ...upToDate, mode, definition: 'another' })).toEqual(everything('definition'));
  });

  it('changes nothing of what append has written', () => {
    expect(planDelivery({ ...upToDate, mode: 'append', definition: 'another' })).toEqual({ type: 'nothing' });
    expect(planDelivery({ ...behind, mode: 'append', definition: 'another' })).toEqual({ type: 'changes', since: 5 });
  });
});

describe('new variant columns', () => {
  const changes: DeliveryPlan = { type: 'changes', since: 5 };

  it('need the values of all rows', () => {
    expect(planWithVariants(changes, ['score__text'], ['id'])).toEqual(everything('variant'));
  });

  it('change nothing if there are none, if the table has no key, or if all rows come anyway', () => {
    expect(planWithVariants(changes, [], ['id'])).toBe(changes);
    expect(planWithVariants(changes, ['score__text'], [])).toBe(changes);
    const all: DeliveryPlan = { type: 'everything', reason: 'asked' };
    expect(planWithVariants(all, ['score__text'], ['id'])).toBe(all);
  });
});

const tasks: fc.Arbitrary<PlanTask> = fc.record({
  mode: fc.constantFrom(...modes),
  feed: fc.record({
    stream: fc.constant('members'),
    store_id: fc.constant('here'),
    sequence: fc.integer({ min: 1, max: 6 }),
    complete_since: fc.nat(6),
  }),
  definition: fc.constantFrom('as it is', 'another'),
  watermark: fc.option(
    fc.record({
      destination: fc.constant('crm'),
      stream: fc.constant('members'),
      table: fc.constant('members'),
      storeId: fc.constantFrom('here', 'elsewhere'),
      sequence: fc.nat(7),
      definition: fc.constant('as it is'),
      deliveredAt: fc.constant('2026-01-01T00:00:00.000Z'),
    }),
    { nil: undefined },
  ),
  table: fc.option(fc.record({ name: fc.constant('members'), isEmpty: fc.boolean() }), { nil: undefined }),
  full: fc.boolean(),
  adopt: fc.boolean(),
  hasRejects: fc.boolean(),
});

describe('whatever a destination has', () => {
  it('changes are sent only from its watermark on, and only if none is missing', () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const plan = outcome(task);
        if (!('type' in plan) || plan.type !== 'changes') return;
        const { watermark: found, feed } = task;
        expect([plan.since, found?.storeId]).toEqual([found?.sequence, feed.store_id]);
        expect(plan.since).toBeGreaterThanOrEqual(feed.complete_since);
        expect(plan.since).toBeLessThanOrEqual(feed.sequence);
      }),
    );
  });

  it('in mode append no row comes twice or never, unless a person decides so', () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const plan = outcome({ ...task, mode: 'append', full: false, adopt: false });
        if (!('type' in plan)) return;
        expect(plan.type).not.toBe('adopt');
        if (plan.type !== 'everything') return;
        expect(task.watermark === undefined || task.table === undefined).toBe(true);
        expect(task.watermark !== undefined || task.table?.isEmpty !== false).toBe(true);
      }),
    );
  });

  it('nothing is done only if nothing is missing', () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const plan = outcome(task);
        if (!('type' in plan) || plan.type !== 'nothing') return;
        expect([task.watermark?.sequence, task.full, task.hasRejects]).toEqual([task.feed.sequence, false, false]);
      }),
    );
  });
});

import { describe, expect, it } from 'vitest';
import type { DeliveryPlan } from '../../../../src/delivery/former/delivery-plan.js';
import { loadAction } from '../../../../src/delivery/former/load-action.js';

const everything: DeliveryPlan = { type: 'everything', reason: 'asked' };
const changes: DeliveryPlan = { type: 'changes', since: 3 };
const append = { type: 'append' };
const merge = (absent: string) => ({ type: 'merge', absent });

describe('the action of a load', () => {
  it.each([
    ['append', 'hard', everything, append],
    ['append', 'hard', changes, append],
    ['upsert', 'hard', everything, merge('keep')],
    ['upsert', 'hard', changes, merge('keep')],
    ['mirror', 'hard', everything, merge('delete')],
    ['mirror', 'hard', changes, merge('keep')],
    ['mirror', 'soft', everything, merge('mark')],
    ['mirror', 'soft', changes, merge('keep')],
    ['replace', 'hard', everything, { type: 'replace' }],
  ] as const)('in a table with rows, mode %s, %s deletes, %j', (mode, deletes, plan, action) => {
    expect(loadAction(plan, { mode, deletes }, false)).toEqual(action);
  });

  it('is to insert all rows if the table is empty', () => {
    for (const mode of ['append', 'upsert', 'mirror', 'replace'] as const)
      expect(loadAction(everything, { mode, deletes: 'soft' }, true)).toEqual(append);
  });

  it('is a merge even into an empty table if only changes come', () => {
    expect(loadAction(changes, { mode: 'mirror', deletes: 'hard' }, true)).toEqual(merge('keep'));
  });

  it('is to insert no rows if only the watermark moves', () => {
    expect(loadAction({ type: 'adopt' }, { mode: 'append', deletes: 'hard' }, false)).toEqual(append);
  });
});

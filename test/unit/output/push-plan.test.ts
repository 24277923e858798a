import { describe, expect, it } from 'vitest';
import type { PushPlanEntry } from '../../../src/engine/run/plan-push.js';
import { pushPlanLines } from '../../../src/output/push-plan.js';

const now = Date.UTC(2026, 10, 25);
const plan: NonNullable<PushPlanEntry['plan']> = {
  table: 'cdp.members',
  action: 'reload',
  why: 'rule of "email" (hash)',
  drops: false,
  there: { generation: 7, sequence: 41, rows: 1_204_311, delivered_at: '2026-11-22T00:00:00.000Z' },
  add: [{ column: 'score__text', type: 'text' }],
  widen: [],
  fill: ['email', 'score'],
  clear: ['email'],
  clear_rows: 3112,
  erase: 1,
  rows: { insert: 2, update: 3, delete: 1 },
  refused: [{ column: 'notes', reason: 'U+0000', values: 3 }],
} as unknown as NonNullable<PushPlanEntry['plan']>;
const entry: PushPlanEntry = {
  name: 'warehouse',
  connector: 'postgres',
  stream: 'members',
  action: 'reload',
  why: 'rule of "email" (hash)',
  plan,
  error: null,
};

describe('the plan of a push, for people', () => {
  it('shows the present table, the action and its reason, and the changes of columns, rows and values', () => {
    expect(pushPlanLines([entry], now)).toEqual([
      'members -> warehouse (postgres, cdp.members)',
      '  there     generation 7, snapshot 41, 1,204,311 rows; loaded 3 days ago',
      '  reload    rule of "email" (hash)',
      '  add       score__text text',
      '  fill      "email", "score" in every row',
      '  clear     "email" in 3,112 rows that the snapshot no longer has',
      '  erase     1 key',
      '  rows      6 to send (2 inserts, 3 updates, 1 deletes)',
      '  values    3 of "notes" cannot be held: U+0000',
    ]);
  });

  it('is one line if there is nothing to do, and two if it would be refused', () => {
    const error = {
      code: 'table_changed',
      message: 'table "t" has 1 row, recorded 2',
      hint: '--adopt',
      request_id: null,
    };
    expect(
      pushPlanLines(
        [
          { ...entry, action: 'nothing' },
          { ...entry, action: 'refused', plan: null, error },
          { ...entry, action: 'failed', plan: null, error: { ...error, code: 'destination_unavailable', hint: null } },
        ],
        now,
      ),
    ).toEqual([
      'members -> warehouse (postgres, cdp.members): nothing to do',
      'members -> warehouse (postgres): refused, table_changed: table "t" has 1 row, recorded 2',
      '  --adopt',
      'members -> warehouse (postgres): destination_unavailable: table "t" has 1 row, recorded 2',
    ]);
  });
});

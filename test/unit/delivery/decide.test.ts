import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NextMap } from '../../../src/delivery/table/column-map.js';
import { decide, type Situation, withMap } from '../../../src/delivery/table/decide.js';
import { appending, flag, found, late, pending, quiet, same, withRecord } from './situations.js';

/** The action, or the code of the refusal. */
function outcome(situation: Situation, next: NextMap = same): string {
  try {
    return withMap(decide(situation), situation, next).action;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

/** A table that another storage folder has loaded. */
const otherStore = (newStorage: 'hold' | 'warn'): Situation => ({
  ...withRecord(quiet, { store_id: 'there', sequence: 12, stores: [{ id: 'there', since: '' }] }),
  newStorage,
});

describe('a keyed table', () => {
  it('of another store is reported with the snapshot and the rows of both', () => {
    const message =
      'this storage folder is new, and table "members" has 10 rows of snapshot 12 of another one; this one has 10 rows in snapshot 7';
    expect(() => decide(otherStore('hold'))).toThrow(message);
    expect(decide(otherStore('warn'))).toMatchObject({
      action: 'reload',
      why: expect.stringContaining(message),
      warning: message,
    });
  });

  it.each<[string, Partial<Situation> | Situation, string]>([
    ['has no record and is missing', { record: undefined, found: undefined }, 'create'],
    ['has no record and is there', { record: undefined }, 'table_not_ours'],
    ['has no record, is there, and is taken over', { record: undefined, ...flag('adopt') }, 'reload'],
    ['belongs to another stream', { owner: 'stream "x"' }, 'table_taken'],
    [
      'belongs to another stream, and is taken over',
      { owner: 'stream "x"', record: undefined, ...flag('adopt') },
      'reload',
    ],
    ['has the profiles of another tenant', withRecord(quiet, { tenant: 'other' }), 'table_taken'],
    ['belongs to another job', withRecord(quiet, { job: 'other' }), 'table_taken'],
    ['is as recorded, with nothing new', {}, 'nothing'],
    ['is as recorded, with changes', withRecord(quiet, { sequence: 5, run_id: 'run-5' }), 'increment'],
    [
      'is as recorded, in mode replace, with changes',
      { ...withRecord(quiet, { sequence: 5, run_id: 'run-5', mode: 'replace' }), mode: 'replace' },
      'reload',
    ],
    ['was loaded in another mode', { mode: 'upsert' }, 'reload'],
    ['was loaded with other deletes', { deletes: 'soft' }, 'reload'],
    ['was loaded in mode append', withRecord(quiet, { shape: 'append', mode: 'append' }), 'mode_changed'],
    ['has another key', { key: ['email'] }, 'key_changed'],
    ['has another key, and is made again', { key: ['email'], ...flag('recreate') }, 'create'],
    ['is further behind than changes are kept', withRecord(quiet, { sequence: 2, run_id: 'run-2' }), 'reload'],
    ['is of another store', withRecord(quiet, { store_id: 'there', stores: [{ id: 'there', since: '' }] }), 'reload'],
    ['is of another store, which is held', otherStore('hold'), 'storage_new'],
    ['is of another store, which is reported', otherStore('warn'), 'reload'],
    ['is of another store, is held, and is taken over', { ...otherStore('hold'), ...flag('adopt') }, 'reload'],
    ['is of another store, is held, and gets all rows', { ...otherStore('hold'), ...flag('full') }, 'reload'],
    ['is of another store, is held, and is made again', { ...otherStore('hold'), ...flag('recreate') }, 'create'],
    [
      'is of another store, is held, and has no rows',
      { ...otherStore('hold'), found: { ...found, rows: 0 } },
      'reload',
    ],
    ['is of another store, is held, and is missing', { ...otherStore('hold'), found: undefined }, 'create'],
    [
      'was being taken over from another store',
      withRecord(otherStore('hold'), {
        pending,
        stores: [
          { id: 'there', since: '' },
          { id: 'here', since: '' },
        ],
      }),
      'reload',
    ],
    [
      'is of a store that another one has replaced before',
      withRecord(quiet, {
        store_id: 'there',
        stores: [
          { id: 'here', since: '' },
          { id: 'there', since: '' },
        ],
      }),
      'store_unknown',
    ],
    ['is ahead of the store', withRecord(quiet, { sequence: 8, run_id: 'run-8' }), 'reload'],
    ['has a snapshot of the same number from another run', withRecord(quiet, { run_id: 'run-7b' }), 'reload'],
    ['has an older snapshot from another run', withRecord(quiet, { sequence: 5, run_id: 'run-5b' }), 'reload'],
    ['still has an erased row', { erasures: [late] }, 'increment'],
    ['is older than an erasure whose keys are gone', { erasures: [{ number: 9, keys: null }] }, 'reload'],
    [
      'is older than an erasure whose keys are gone, and keeps rows',
      { ...withRecord(quiet, { mode: 'upsert' }), mode: 'upsert', erasures: [{ number: 9, keys: null }] },
      'erasures_gone',
    ],
    ['has carried the erasure out', { ...withRecord(quiet, { erased: 9 }), erasures: [late] }, 'nothing'],
    ['has a delivery that was cut short', withRecord(quiet, { pending }), 'reload'],
    ['was being made', withRecord(quiet, { pending: { ...pending, fresh: true } }), 'create'],
    [
      'was about to be made',
      { ...withRecord(quiet, { pending: { ...pending, fresh: true } }), found: undefined },
      'create',
    ],
    ['has a record and is missing', { found: undefined }, 'create'],
    ['lacks a column', { found: { ...found, columns: [{ name: 'id', type: 'text' }] } }, 'reload'],
    [
      'has its key under another name, and the columns of others',
      { found: { ...found, columns: [{ name: 'ident', type: 'text' }, found.columns[1] as never] } },
      'table_altered',
    ],
    [
      'has its key under another name, which is taken as it is',
      { found: { ...found, columns: [{ name: 'ident', type: 'text' }, found.columns[1] as never] }, ...flag('adopt') },
      'reload',
    ],
    [
      'has lost its key, and has a column of another type',
      { found: { ...found, columns: [{ name: 'mine', type: 'date' }, found.columns[1] as never] } },
      'reload',
    ],
    [
      'has a column of another type',
      { found: { ...found, columns: [found.columns[0] as never, { name: 'score', type: 'numeric' }] } },
      'table_altered',
    ],
    ['has another number of rows', { found: { ...found, rows: 9 } }, 'reload'],
    ['has another stamp', { found: { ...found, stamp: '3:old' } }, 'reload'],
    ['has no stamp any more', { found: { ...found, stamp: null } }, 'reload'],
    ['cannot be stamped', { ...withRecord(quiet, { stamp: null }), found: { ...found, stamp: undefined } }, 'nothing'],
    [
      'has columns of others',
      { found: { ...found, columns: [...found.columns, { name: 'mine', type: 'date' }] } },
      'nothing',
    ],
    ['is loaded whole because that is asked', flag('full'), 'reload'],
  ])('that %s', (_, change, expected) => {
    expect(outcome({ ...quiet, ...change })).toBe(expected);
  });

  it('that is an old copy names the generation it is of, and gets every erasure', () => {
    const decision = decide({
      ...withRecord(quiet, { erased: 9 }),
      erasures: [late],
      found: { ...found, stamp: '3:old' },
    });
    expect(decision).toMatchObject({ action: 'reload', copyOf: 3, erase: ['p1'] });
  });

  it('is loaded whole if the column map says that unchanged rows need other values', () => {
    expect(outcome(quiet, { ...same, why: ['rule of "email"'] })).toBe('reload');
    expect(outcome(quiet, { ...same, add: [{ name: 'note', kind: 'VARCHAR' }] })).toBe('increment');
  });
});

describe('a table of mode append', () => {
  it.each<[string, Partial<Situation> | Situation, string]>([
    ['has nothing new', {}, 'nothing'],
    ['has changes', withRecord(appending, { sequence: 5, run_id: 'run-5' }), 'increment'],
    ['has no record, is there, and is taken over', { record: undefined, ...flag('adopt') }, 'adopt'],
    [
      'is further behind than changes are kept',
      withRecord(appending, { sequence: 2, run_id: 'run-2' }),
      'changes_gone',
    ],
    ['is of another store', withRecord(appending, { store_id: 'there', stores: [] }), 'store_unknown'],
    [
      'has a snapshot of the same number from another run',
      withRecord(appending, { run_id: 'run-7b' }),
      'store_unknown',
    ],
    [
      'is of another store, and continues with --adopt',
      { ...withRecord(appending, { store_id: 'there', stores: [] }), ...flag('adopt') },
      'adopt',
    ],
    [
      'is of another store, and gets all rows',
      { ...withRecord(appending, { store_id: 'there', stores: [] }), ...flag('full') },
      'reload',
    ],
    ['has another number of rows', { found: { ...found, rows: 9 } }, 'table_changed'],
    [
      'has another number of rows, and continues with --adopt',
      { found: { ...found, rows: 9 }, ...flag('adopt') },
      'increment',
    ],
    ['is missing', { found: undefined }, 'create'],
    ['has a delivery that was cut short', withRecord(appending, { pending }), 'increment'],
    ['gets all rows once more', flag('full'), 'reload'],
    [
      'has all rows of this snapshot once more already',
      { ...withRecord(appending, { full_of: 'run-7' }), ...flag('full') },
      'nothing',
    ],
    ['was keyed', withRecord(appending, { shape: 'keyed' }), 'mode_changed'],
  ])('that %s', (_, change, expected) => {
    expect(outcome({ ...appending, ...change })).toBe(expected);
  });

  it('moves its map on without a reload', () => {
    const changed = { ...same, why: ['type of "score"'] };
    expect(outcome(withRecord(appending, { sequence: 5, run_id: 'run-5' }), changed)).toBe('increment');
  });
});

describe('any table', () => {
  const situations = fc.record({
    sequence: fc.integer({ min: 0, max: 9 }),
    run: fc.constantFrom('run-3', 'run-5', 'run-7', 'run-9'),
    store: fc.constantFrom('here', 'there'),
    rows: fc.constantFrom(10, 9),
    stamp: fc.constantFrom('4:abc', '3:old', null),
    pending: fc.boolean(),
    mode: fc.constantFrom('mirror', 'upsert', 'replace' as const),
    lacks: fc.boolean(),
  });

  it('never gets an increment unless it is as recorded and the changes continue from its snapshot', () => {
    fc.assert(
      fc.property(situations, (is) => {
        const changed = withRecord(quiet, {
          sequence: is.sequence,
          run_id: is.run,
          store_id: is.store,
          pending: is.pending ? pending : null,
        });
        const columns = is.lacks ? found.columns.slice(0, 1) : found.columns;
        const situation = { ...changed, mode: is.mode as 'mirror', found: { columns, rows: is.rows, stamp: is.stamp } };
        const action = outcome(situation);
        if (action !== 'increment' && action !== 'nothing') return;
        expect([is.store, is.rows, is.stamp, is.pending, is.lacks, is.mode]).toEqual([
          'here',
          10,
          '4:abc',
          false,
          false,
          'mirror',
        ]);
        expect(['3 run-3', '5 run-5', '7 run-7']).toContain(`${is.sequence} ${is.run}`);
      }),
    );
  });
});

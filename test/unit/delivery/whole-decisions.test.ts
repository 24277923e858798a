import { describe, expect, it } from 'vitest';
import type { NextMap } from '../../../src/delivery/table/column-map.js';
import { decide, keepsAbsent, type Situation, withMap } from '../../../src/delivery/table/decide.js';
import { appending, flag, found, late, pending, quiet, same, withRecord } from './situations.js';

/** The whole decision, or the refusal's code and message. */
function whole(situation: Situation, next: NextMap = same): unknown {
  try {
    return withMap(decide(situation), situation, next);
  } catch (error) {
    return { code: (error as { code: string }).code };
  }
}

describe('the whole decision about a table', () => {
  const nothing = {
    action: 'nothing',
    why: 'nothing has changed',
    drops: false,
    lacking: [],
    copyOf: undefined,
    erase: [],
  };
  const reload = { ...nothing, action: 'reload' };
  const increment = { ...nothing, action: 'increment', why: 'changes' };
  const create = { ...nothing, action: 'create' };
  const erasures = [
    { number: 8, keys: ['p0'] },
    { number: 9, keys: ['p1', 'p2'] },
  ];
  const behind = withRecord(quiet, { sequence: 5, run_id: 'run-5' });
  const fresh = withRecord(quiet, { pending: { ...pending, fresh: true } });
  const log = withRecord(appending, { sequence: 5, run_id: 'run-5' });
  const others = { ...found, rows: 9 };
  const altered = { ...found, columns: [found.columns[0] as never, { name: 'score', type: 'numeric' }] };
  const all = { erase: ['p0', 'p1', 'p2'], copyOf: -1 };

  it.each<[string, Situation, object]>([
    ['that is as recorded', quiet, nothing],
    ['with changes', behind, increment],
    ['at the oldest snapshot that changes reach', withRecord(quiet, { sequence: 3, run_id: 'run-3' }), increment],
    [
      'with an erasure to carry out',
      { ...withRecord(quiet, { erased: 8 }), erasures },
      { ...increment, erase: ['p1', 'p2'] },
    ],
    ['with all erasures carried out', { ...withRecord(quiet, { erased: 9 }), erasures }, nothing],
    [
      'that is new',
      { ...quiet, record: undefined, found: undefined, erasures },
      { ...create, why: 'the table is new' },
    ],
    ['that is made again', { ...quiet, ...flag('recreate') }, { ...create, why: 'asked (--recreate)', drops: true }],
    [
      'that is made again and missing',
      { ...quiet, ...flag('recreate'), found: undefined },
      { ...create, why: 'asked (--recreate)' },
    ],
    [
      'without a record that is made again',
      { ...quiet, record: undefined, ...flag('recreate') },
      { ...create, why: 'asked (--recreate)', drops: true },
    ],
    ['that is missing', { ...quiet, found: undefined }, { ...create, why: 'the table is missing' }],
    ['that was being made', fresh, { ...create, why: 'the table was being made', drops: true }],
    ['that was about to be made', { ...fresh, found: undefined }, { ...create, why: 'the table is new' }],
    [
      'that is taken over',
      { ...quiet, record: undefined, erasures, ...flag('adopt') },
      { ...reload, ...all, why: 'asked (--adopt)' },
    ],
    ['of others', { ...quiet, record: undefined }, { code: 'table_not_ours' }],
    ['of others, asked for all rows', { ...quiet, record: undefined, ...flag('full') }, { code: 'table_not_ours' }],
    [
      'that lacks a column',
      { ...quiet, found: { ...found, columns: found.columns.slice(0, 1) } },
      { ...reload, why: 'the table lacks "score"', lacking: ['score'] },
    ],
    ['with other rows', { ...quiet, found: others }, { ...reload, why: 'the table has 9 rows, recorded 10' }],
    [
      'with other rows after a delivery that was cut short',
      { ...withRecord(quiet, { pending }), found: others },
      { ...reload, why: 'a delivery was cut short (pending since 2026-01-08T00:00:00.000Z)' },
    ],
    [
      'that is an old copy',
      { ...withRecord(quiet, { erased: 9 }), erasures, found: { ...found, stamp: '3:old' } },
      {
        ...reload,
        copyOf: 3,
        erase: ['p0', 'p1', 'p2'],
        why: 'the table is not the one that was recorded: its stamp is another',
      },
    ],
    [
      'whose list of refused values was lost',
      { ...withRecord(quiet, { refused: 2 }), listed: 1 },
      { ...reload, why: 'the list of values that it cannot hold was lost' },
    ],
    [
      'whose list is shorter because of an erasure',
      { ...withRecord(quiet, { refused: 2, erased: 8 }), listed: 1, erasures },
      { ...increment, erase: ['p1', 'p2'] },
    ],
    ['in another mode', { ...quiet, mode: 'upsert' }, { ...reload, why: 'mode mirror to upsert' }],
    ['with other deletes', { ...quiet, deletes: 'soft' }, { ...reload, why: 'deletes hard to soft' }],
    [
      'with other deletes, which its mode does not have',
      { ...withRecord(quiet, { mode: 'upsert' }), mode: 'upsert', deletes: 'soft' },
      nothing,
    ],
    ['in mode replace without changes', { ...withRecord(quiet, { mode: 'replace' }), mode: 'replace' }, nothing],
    ['that is loaded whole', { ...quiet, ...flag('full') }, { ...reload, why: 'asked (--full)' }],
    ['that a look found different', { ...quiet, again: 'it was compared' }, { ...reload, why: 'it was compared' }],
    ['with altered types', { ...quiet, found: altered }, { code: 'table_altered' }],
    [
      'with altered types that are accepted',
      { ...quiet, found: altered, ...flag('adopt') },
      { ...reload, why: 'asked (--adopt): "score" is numeric, and was bigint' },
    ],
    [
      'with types that a delivery was widening',
      { ...withRecord(quiet, { pending: { ...pending, widened: [['score', 'HUGEINT']] } }), found: altered },
      { ...reload, why: 'a delivery was cut short (pending since 2026-01-08T00:00:00.000Z)' },
    ],
    [
      'with an erasure whose keys are gone',
      { ...quiet, erasures: [{ number: 9, keys: null }] },
      { ...reload, why: 'an erasure whose keys are no longer kept' },
    ],
    [
      'that keeps rows, with such an erasure',
      { ...withRecord(quiet, { deletes: 'soft' }), deletes: 'soft', erasures: [{ number: 9, keys: null }] },
      { code: 'erasures_gone' },
    ],
    [
      'that keeps rows, with such an erasure carried out',
      { ...withRecord(quiet, { deletes: 'soft', erased: 9 }), deletes: 'soft', erasures: [{ number: 9, keys: null }] },
      nothing,
    ],
    [
      'that keeps rows, with such an erasure, taken as it is',
      {
        ...withRecord(quiet, { deletes: 'soft' }),
        deletes: 'soft',
        erasures: [{ number: 9, keys: null }],
        ...flag('adopt'),
      },
      { ...reload, why: 'an erasure whose keys are no longer kept' },
    ],
    [
      'of another stream, made again',
      { ...quiet, owner: 'x', ...flag('recreate') },
      { ...create, why: 'asked (--recreate)', drops: true },
    ],
    ['of another stream, asked for all rows', { ...quiet, owner: 'x', ...flag('full') }, { code: 'table_taken' }],
    ['of another tenant, taken over', { ...withRecord(quiet, { tenant: 'other' }), ...flag('adopt') }, nothing],
    [
      'of mode upsert that is loaded whole',
      { ...withRecord(quiet, { mode: 'upsert' }), mode: 'upsert', ...flag('full') },
      { ...reload, why: 'asked (--full)' },
    ],
    [
      'with an erasure whose keys are gone, and one whose keys are kept',
      { ...quiet, erasures: [{ number: 8, keys: null }, late] },
      { ...reload, erase: ['p1'], why: 'an erasure whose keys are no longer kept' },
    ],
    ['a log with changes', log, increment],
    ['a log that is as recorded', appending, nothing],
    ['a log with an erasure', { ...appending, erasures: [late] }, { ...increment, erase: ['p1'] }],
    [
      'a log that lacks a column',
      { ...appending, found: { ...found, columns: found.columns.slice(0, 1) } },
      { ...increment, lacking: ['score'] },
    ],
    ['a log with other rows', { ...appending, found: others }, { code: 'table_changed' }],
    ['a log with another stamp', { ...appending, found: { ...found, stamp: '3:old' } }, { code: 'table_changed' }],
    [
      'a log with other rows after a delivery that was cut short',
      { ...withRecord(appending, { pending }), found: others },
      { ...increment, why: 'a delivery was cut short' },
    ],
    [
      'a log with other rows, accepted',
      { ...appending, found: others, ...flag('adopt') },
      { ...increment, why: 'asked (--adopt)' },
    ],
    [
      'a log with altered types, accepted',
      { ...appending, found: altered, ...flag('adopt') },
      { ...increment, why: 'asked (--adopt)' },
    ],
    ['a log that is appended once more', { ...appending, ...flag('full') }, { ...reload, why: 'asked (--full)' }],
    ['a log that was appended once more', { ...withRecord(appending, { full_of: 'run-7' }), ...flag('full') }, nothing],
    [
      'a log with other rows that was appended once more',
      { ...withRecord(appending, { full_of: 'run-7' }), found: others, ...flag('full') },
      { ...reload, why: 'asked (--full)' },
    ],
    [
      'a log at the oldest snapshot that changes reach',
      withRecord(appending, { sequence: 3, run_id: 'run-3' }),
      increment,
    ],
    ['a log further behind', withRecord(appending, { sequence: 2, run_id: 'run-2' }), { code: 'changes_gone' }],
    [
      'a log of another store, further behind',
      withRecord(appending, { store_id: 'there', stores: [], sequence: 2 }),
      { code: 'store_unknown' },
    ],
    [
      'a log of another store, accepted',
      { ...withRecord(appending, { store_id: 'there', stores: [] }), ...flag('adopt') },
      { ...nothing, action: 'adopt', why: 'asked (--adopt): it was loaded from another storage folder' },
    ],
    [
      'a log of others that is taken over',
      { ...appending, record: undefined, erasures, ...flag('adopt') },
      { ...nothing, ...all, action: 'adopt', why: 'asked (--adopt)' },
    ],
  ])('%s', (_, situation, expected) => {
    expect(whole(situation)).toEqual(expected);
  });

  it('keeps rows that the snapshot lacks in logs, in mode upsert, and as marked ones', () => {
    const kept = (['append', 'upsert', 'mirror', 'replace'] as const).map((mode) =>
      (['hard', 'soft'] as const).map((deletes) => keepsAbsent({ mode, deletes })),
    );
    expect(kept).toEqual([
      [true, true],
      [true, true],
      [false, true],
      [false, false],
    ]);
  });
});

import { describe, expect, it } from 'vitest';
import { contractNotes, repeatedReadings, unknownRequests } from '../../../src/engine/plan/plan-notes.js';

const reading = (name: string, index: string, tier?: string, source = 'index_profiles') => ({
  name,
  source: source as 'index_profiles',
  reads: { filter: new Map(tier === undefined ? [] : [['tier', tier]]), definition: { index } },
});

describe('remarks of a plan', () => {
  it('name once what several streams wait for', () => {
    const streams = ['a', 'b', 'c'].map((name) => ({ name, missing: ['members'] }));
    expect(unknownRequests([...streams, { name: 'd', missing: ['vip', 'members'] }])).toEqual([
      'a, b, c: their requests depend on the records of members',
      'd: its requests depend on the records of vip and members',
    ]);
    expect(unknownRequests([])).toEqual([]);
  });

  it('say which streams read an index that another reads whole', () => {
    const filtered = ['gold', 'silver', 'bronze', 'basic'].map((tier) => reading(tier, 'members', tier));
    expect(repeatedReadings([...filtered, reading('all', 'members'), reading('other', 'customers')])).toEqual([
      'gold, silver, bronze, basic: all reads the whole index members too; read it once, and make them `sql` streams over all',
    ]);
    expect(repeatedReadings([reading('a', 'members'), reading('b', 'members')])).toHaveLength(1);
    expect(repeatedReadings(filtered)).toEqual([]);
    expect(repeatedReadings([reading('a', 'x'), reading('b', 'x', 'gold', 'profiles')])).toEqual([]);
  });

  it('say how a contract would act, and nothing if it lets columns evolve', () => {
    const sample = {
      columnsAdded: [{ column: 'mood', type: 'VARCHAR' }],
      columnsWidened: [{ column: 'score', from: 'BIGINT', to: 'DOUBLE' }],
    };
    const notes = (columns: 'evolve' | 'freeze' | 'discard_value', types: 'evolve' | 'discard_row') =>
      contractNotes({ name: 'members', contract: { columns, types } }, sample);
    expect(notes('evolve', 'evolve')).toEqual([]);
    expect(notes('freeze', 'evolve')).toEqual([
      'members: mood is new (VARCHAR), and `contract.columns` is freeze: the run would fail the stream',
    ]);
    expect(notes('discard_value', 'discard_row')).toEqual([
      'members: mood is new (VARCHAR), and `contract.columns` is discard_value: the run would leave the values out',
      'members: score has values that BIGINT does not hold (DOUBLE), and `contract.types` is discard_row: the run would leave the rows out',
    ]);
  });
});

import { describe, expect, it } from 'vitest';
import { differenceOf } from '../../../src/output/difference.js';

const times = ['2026-11-01T02:00:00.000Z', '2026-11-02T02:00:00.000Z', '2026-11-03T02:00:00.000Z'];
const runs = times.map((at, day) => ({ run_id: `2026110${day + 1}T020000Z-00000${day}`, at }));

/** A published file of three snapshots of one stream. */
const published = {
  rows: async (sql: string): Promise<Record<string, unknown>[]> => {
    if (sql.includes('duckdb_schemas')) return [{ 1: 1 }];
    if (sql.includes('private.streams'))
      return [{ stream: 'members', state: JSON.stringify({ key: ['id'], columns: [{ name: 'id' }] }) }];
    return sql.includes('run_id') ? runs : [];
  },
};

async function spanOf(from?: string, to?: string) {
  const request = { stream: 'members', from, to, column: undefined, limit: 1, showValues: false };
  const found = await differenceOf(published, request, async () => []);
  return [found.from, found.to];
}

describe('the two snapshots of a difference', () => {
  it.each([
    ['the last two', undefined, undefined, times[1], times[2]],
    ['that of a run and the one before it', undefined, runs[1]?.run_id, times[0], times[1]],
    ['that of a time and the one before it', undefined, times[1], times[0], times[1]],
    ['the first, and nothing', undefined, runs[0]?.run_id, null, times[0]],
    ['those of two runs', runs[0]?.run_id, runs[2]?.run_id, times[0], times[2]],
    ['those of two runs, backwards', runs[2]?.run_id, runs[0]?.run_id, times[2], times[0]],
    ['those of a day and today', '2026-11-02', undefined, '2026-11-02T00:00:00.000Z', times[2]],
  ])('are %s', async (_, from, to, first, last) => {
    expect(await spanOf(from, to)).toEqual([first, last]);
  });

  it.each(['2', '2026-02-30', 'yesterday', '20261101T020000Z'])('are not those of %s', async (from) => {
    await expect(spanOf(from)).rejects.toMatchObject({ code: 'run_not_found' });
  });
});

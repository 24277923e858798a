import { describe, expect, it } from 'vitest';
import { withoutKeys } from '../../../src/engine/admin/erase-from-reports.js';

describe('a report whose keys are erased', () => {
  const report = (message: string) =>
    `${JSON.stringify({ status: 'held', jobs: [{ run_id: '20261101T020000Z-1aaaaa', streams: [{ name: 'made1', rows: 15, findings: [{ guard: 'max_deleted', message: 'deleted (1%)' }], error: { code: 'guard_max_deleted', message } }] }], error: null }, null, 1)}\n`;

  it('keeps its numbers, ids and names, even if a key is a digit', () => {
    const erased = JSON.parse(withoutKeys(report('5 rows deleted: 1, 7'), ['1'])) as Record<string, unknown>;
    expect(erased).toMatchObject({
      jobs: [
        {
          run_id: '20261101T020000Z-1aaaaa',
          streams: [{ name: 'made1', rows: 15, error: { message: '5 rows deleted: [forgotten], 7' } }],
        },
      ],
    });
  });

  it('has no key with quotes, and no key if it is torn', () => {
    expect(withoutKeys(report('deleted: a"b'), ['a"b'])).toContain('deleted: [forgotten]"');
    expect(withoutKeys('{"status": "held", "message": "deleted: anna', ['anna'])).not.toContain('anna');
  });

  it('is the same if it names none', () => {
    expect(withoutKeys(report('deleted: anna'), ['otto'])).toBe(report('deleted: anna'));
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FilePlace, FilePlaces, kindsOfPlace } from '../../fixtures/file-places.js';

const at = FilePlaces.ofTests();

interface Change {
  readonly op: 'upsert' | 'delete';
  readonly id: string;
  readonly land: string | null;
}

const changes = fc.uniqueArray(
  fc.record<Change>({
    op: fc.constantFrom('upsert', 'upsert', 'delete'),
    id: fc.integer({ min: 0, max: 12 }).map((n) => `k${n}`),
    land: fc.constantFrom('DE', 'US', null, '', "d'Or", 'x=y/z', 'HIVE'),
  }),
  { selector: ({ id }) => id, maxLength: 12 },
);
const histories = fc.record({
  format: fc.constantFrom(...(['parquet', 'csv', 'jsonl'] as const)),
  partitioned: fc.boolean(),
  loads: fc.array(fc.record({ absent: fc.constantFrom(...(['keep', 'delete', 'mark'] as const)), changes }), {
    minLength: 2,
    maxLength: 4,
  }),
});

const columnsSql = 'NULL::VARCHAR AS id, NULL::VARCHAR AS land, NULL::BIGINT AS n, NULL::TIMESTAMPTZ AS _deleted_at';

/** Rows of a load; the number of the load is their value. */
function rowsSql(list: readonly Change[], n: number, isMerge: boolean): string {
  const op = isMerge ? 'NULL::VARCHAR AS _op, ' : '';
  const texts = list.map(({ op: what, id, land }) => {
    const value = land === null ? 'NULL' : `'${land.replaceAll("'", "''")}'`;
    return `SELECT ${isMerge ? `'${what}', ` : ''}'${id}', ${value}, ${n}::BIGINT, NULL::TIMESTAMPTZ`;
  });
  return [`SELECT * FROM (SELECT ${op}${columnsSql}) WHERE false`, ...texts].join(' UNION ALL ');
}

async function expectModel(
  place: FilePlace,
  model: ReadonlyMap<string, { land: string | null; n: number; deleted: boolean }>,
): Promise<void> {
  const query = `SELECT id, land, n::INT AS n, _deleted_at IS NOT NULL AS deleted FROM (${await at.reading(place, 'p')})`;
  const found = new Map((await at.sql.rows(query)).map(({ id, ...rest }) => [String(id), rest]));
  expect(found).toEqual(new Map([...model].sort()));
  expect(found.size).toBe((await at.manifestOf(place, 'p')).rows);
}

describe.each(kindsOfPlace)('in %s', (_, make) => {
  it('a table is what its loads have made of it, whatever they are', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async ({ format, partitioned, loads }) => {
        const place = await make(at);
        const driver = await at.driver(place, { format, partition_by: partitioned ? ['land'] : [] });
        const model = new Map<string, { land: string | null; n: number; deleted: boolean }>();
        for (const [index, { absent, changes }] of loads.entries()) {
          const isFirst = index === 0;
          const action = isFirst ? ({ type: 'append' } as const) : ({ type: 'merge', absent } as const);
          const taken = isFirst ? changes.filter(({ op }) => op === 'upsert') : changes;
          await driver.load({
            table: 'p',
            query: rowsSql(taken, index, !isFirst),
            key: ['id'],
            sequence: index + 1,
            action,
            chunk: 3,
          });
          if (!isFirst && absent !== 'keep') {
            const coming = new Set(taken.map(({ id }) => id));
            for (const [id, row] of model) {
              if (coming.has(id)) continue;
              if (absent === 'delete') model.delete(id);
              else model.set(id, { ...row, deleted: true });
            }
          }
          for (const { op, id, land } of taken) {
            if (op === 'upsert') model.set(id, { land, n: index, deleted: false });
            else model.delete(id);
          }
          await expectModel(place, model);
          const live = [...model.values()].filter(({ deleted }) => !deleted).length;
          const counted = await driver.with(async (destination) => [
            (await destination.sums('p', [], false)).rows,
            (await destination.sums('p', [], true)).rows,
          ]);
          expect([await driver.sequence('p'), ...counted]).toEqual([index + 1, model.size, live]);
        }
      }),
      { numRuns: 5 },
    );
  }, 180_000);
});

import { describe, expect, it } from 'vitest';
import { sleep } from '../core/clock.js';
import { differences } from './compare.js';
import { after, before, column, delivered, gone, ownless, people, undelivered } from './rows.js';
import type { Workbench } from './suite.js';

const modes = ['append', 'upsert', 'mirror', 'replace'] as const;

/** Tests of each mode: first loads, changes, deletes and repetitions. */
export function loads(bench: Workbench): void {
  const declared = modes.filter((mode) => bench.hasMode(mode));

  describe.each(declared)('mode %s', (mode) => {
    it('loads all of a first snapshot', async () => {
      const subject = await bench.subject({ destination: { mode } });
      expect(delivered(await subject.run(before)).rows).toBe(95);
      expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
    });

    it('loads nothing from a first snapshot without rows, and the rows of later ones', async () => {
      const subject = await bench.subject({ destination: { mode } });
      expect(delivered(await subject.run(people(0, 0))).rows).toBe(0);
      expect(await subject.place.rows('people')).toEqual([]);
      delivered(await subject.run(people(0, 3)));
      expect(column(await subject.place.rows('people'), 'id')).toEqual(['p0', 'p1', 'p2']);
    });

    it('does nothing if nothing has changed', async () => {
      const subject = await bench.loaded(before, { destination: { mode } });
      const rows = await subject.place.rows('people');
      expect(delivered(await subject.run(before)).rows).toBe(0);
      expect(delivered(await subject.push()).rows).toBe(0);
      expect(differences(rows, await subject.place.rows('people'))).toEqual([]);
    });

    it('combines the changes of several runs', async () => {
      const subject = await bench.loaded(before, { destination: { mode } });
      await subject.commit(people(5, 100, "'in between'"));
      await subject.commit(`${people(0, 2)} UNION ALL ${people(5, 100, "'in between'")}`);
      await subject.commit(after);
      delivered(await subject.push());
      const rows = ownless(await subject.place.rows('people'));
      if (mode === 'append') {
        // 95 at first, 95 changed, 2 new, then 85 changed again, 5 changed, 3 new and 5 gone.
        expect(rows).toHaveLength(95 + 95 + 2 + 90 + 3 + 5);
        return;
      }
      const kept = mode === 'upsert' ? [...rows].filter((row) => !gone.includes(String(row.get('id')))) : rows;
      expect(differences(await subject.published(), kept)).toEqual([]);
      if (mode === 'upsert') expect(rows).toHaveLength(100);
    });
  });

  it.runIf(bench.hasMode('append'))('append: every change is one more row, with its operation', async () => {
    const subject = await bench.loaded(before, { destination: { mode: 'append' } });
    delivered(await subject.run(after));
    const rows = await subject.place.rows('people');
    const ops = (op: string) => rows.filter((row) => row.get('_op') === op);
    expect([ops('insert').length, ops('update').length, ops('delete').length]).toEqual([100, 5, 5]);
    expect(column(ops('delete'), 'id')).toEqual(gone);
    expect(new Set(column(rows, '_run_id')).size).toBe(2);
    expect(column(rows, '_synced_at').every((time) => /^\d{4}-\d\d-\d\dT/.test(String(time)))).toBe(true);
  });

  it.runIf(bench.hasMode('upsert'))('upsert: rows that the source has deleted stay', async () => {
    const subject = await bench.loaded(before, { destination: { mode: 'upsert' } });
    delivered(await subject.run(after));
    const rows = ownless(await subject.place.rows('people'));
    expect(rows).toHaveLength(100);
    const left = rows.filter((row) => !gone.includes(String(row.get('id'))));
    expect(differences(await subject.published(), left)).toEqual([]);
  });

  it.runIf(bench.deletes('hard'))('mirror: rows that the source has deleted are removed', async () => {
    const subject = await bench.loaded(before, { destination: { mode: 'mirror', deletes: 'hard' } });
    expect(delivered(await subject.run(after)).rows).toBe(15);
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  it.runIf(bench.deletes('soft'))(
    'mirror with soft deletes: a deleted row is marked, and unmarked when it is back',
    async () => {
      const subject = await bench.loaded(before, { destination: { mode: 'mirror', deletes: 'soft' } });
      delivered(await subject.run(after));
      const marked = (await subject.place.rows('people')).filter((row) => row.get('_deleted_at') !== null);
      expect(column(marked, 'id')).toEqual(gone);
      expect(marked[0]?.get('name')).toMatch(/^name 9/);
      delivered(await subject.run(before));
      const live = (await subject.place.rows('people')).filter((row) => row.get('_deleted_at') === null);
      expect(differences(await subject.published(), ownless(live))).toEqual([]);
    },
  );

  it.runIf(bench.deletes('soft'))(
    'mirror with soft deletes: a full load marks the rows that it lacks, once',
    async () => {
      const subject = await bench.loaded(before, { destination: { mode: 'mirror', deletes: 'soft' } });
      await subject.loseStorage();
      undelivered(await subject.run(after));
      delivered(await subject.push({ adopt: true }));
      const marks = async () => {
        const marked = (await subject.place.rows('people')).filter((row) => row.get('_deleted_at') !== null);
        return new Map(marked.map((row) => [row.get('id'), row.get('_deleted_at')]));
      };
      const atFirst = await marks();
      expect([...atFirst.keys()].sort()).toEqual(gone);
      // A row keeps the time of the load that marked it.
      delivered(await subject.push({ full: true }));
      expect(await marks()).toEqual(atFirst);
    },
  );

  const showsLoadsAtOnce = bench.harness.showsLoadsAtOnce ?? true;
  it.runIf(bench.hasMode('replace') && showsLoadsAtOnce)(
    'replace: a reader sees the old rows or the new ones',
    async () => {
      const subject = await bench.loaded(people(0, 20_000, "'old'"), { destination: { mode: 'replace' } });
      const seen = new Set<string>();
      let isLoading = true;
      const reading = (async () => {
        while (isLoading) {
          const rows = await subject.place.rows('people');
          seen.add(`${rows.length} ${[...new Set(column(rows, 'name'))].join()}`);
          // A driver that responds at once would let nothing else run.
          await sleep(1);
        }
      })();
      delivered(await subject.run(people(0, 15_000, "'new'")));
      isLoading = false;
      await reading;
      for (const state of seen) expect(['20000 old', '15000 new']).toContain(state);
    },
  );

  it.runIf(bench.keyed !== undefined)('sends everything once more on request, and duplicates no row', async () => {
    const subject = await bench.loaded(before, { destination: { mode: bench.keyed } });
    expect(delivered(await subject.push({ full: true })).rows).toBe(95);
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  it('drops columns, renames others, and names the table as configured', async () => {
    const columns = { score: { drop: true }, marks: { drop: true }, name: { rename: 'full_name' } };
    const subject = await bench.loaded(before, { destination: { columns, table: 'crm_{stream}' } });
    const [row] = ownless(await subject.place.rows('crm_people'));
    expect([...(row?.keys() ?? [])].sort()).toEqual(
      ['full_name', 'active', 'address', 'id', 'seen_at', 'visits'].sort(),
    );
    expect(row?.get('full_name')).toBe(`name ${row?.get('id')?.slice(1)}`);
  });

  it('loads two destinations of one kind side by side', async () => {
    const [subject, other] = [await bench.subject(), await bench.place()];
    const report = await subject.run(before, {
      others: [{ name: 'second', connector: 'under_test', ...other.options }],
    });
    expect(report.destinations.map(({ name, status }) => [name, status])).toEqual([
      ['target', 'ok'],
      ['second', 'ok'],
    ]);
    const expected = await subject.published();
    expect(differences(expected, ownless(await subject.place.rows('people')))).toEqual([]);
    expect(differences(expected, ownless(await other.rows('people')))).toEqual([]);
  });

  it.runIf(process.env.CDSYNC_TEST_MILLION)(
    'loads a million rows, and 1 % of changes',
    { timeout: 600_000 },
    async () => {
      const subject = await bench.subject();
      expect(delivered(await subject.run(people(0, 1_000_000))).rows).toBe(1_000_000);
      const changed = `${people(0, 10_000, "'changed'")} UNION ALL ${people(10_000, 1_000_000)}`;
      expect(delivered(await subject.run(changed)).rows).toBeGreaterThanOrEqual(10_000);
    },
  );
}

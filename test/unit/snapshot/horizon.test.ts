import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storeName } from '../../../src/snapshot/store-tables.js';
import { type GivenRow, type Run, Snapshots } from '../../fixtures/snapshots.js';

const day = 86_400_000;
const runCount = 40;
const keptDays = 7;
const tiers = ['bronze', 'silver', 'gold'];

/** The rows of a run: some persons change tier, some leave, some are new, one never changes. */
function membersOf(number: number): GivenRow[] {
  const ids = Array.from({ length: 12 }, (_, at) => number + at).filter((id) => id % 5 !== number % 5);
  return [
    { id: 'always', tier: 'gold' },
    ...ids.map((id) => ({
      id: `p-${String(id).padStart(4, '0')}`,
      tier: tiers[(id + Math.floor(number / (1 + (id % 3)))) % 3],
    })),
  ];
}

function vipOf(number: number): GivenRow[] {
  return membersOf(number)
    .filter(({ tier }) => tier === 'gold')
    .map(({ id }) => ({ profile_id: id }));
}

/** For a week the stream fails. */
const failed = (number: number) => number >= 24 && number < 31;

interface PastRun {
  readonly run: Run;
  readonly members: ReadonlyMap<string, string>;
  readonly vip: ReadonlySet<string>;
}

let snapshots: Snapshots;
let past: PastRun[];
let queries: string[];
let kept: PastRun[];

beforeAll(async () => {
  const page = await readFile('docs/analysts.md', 'utf8');
  queries = [...page.matchAll(/```sql\n([\s\S]*?);\n```/g)].map(([, sql = '']) => sql);
  // The last run is half a day ago.
  snapshots = await Snapshots.open({ began: Date.now() - day / 2 - (runCount - 1) * day, stepMs: day });
  past = [];
  for (let number = 0; number < runCount; number += 1) {
    const run = await snapshots.nextRun();
    const commits = [await snapshots.compare(run, 'members', membersOf(number))];
    if (!failed(number)) commits.push(await snapshots.compare(run, 'vip', vipOf(number), { key: ['profile_id'] }));
    await snapshots.commit(run, commits, { historyMs: keptDays * day });
    past.push({
      run,
      members: new Map(membersOf(number).map(({ id, tier }) => [String(id), String(tier)])),
      vip: new Set(vipOf(number).map(({ profile_id }) => String(profile_id))),
    });
  }
  kept = past.slice(-keptDays);
});
afterAll(() => snapshots.close());

describe.each(['UTC', 'Asia/Tokyo', 'America/New_York'])(
  'the questions of the page for analysts, asked in %s',
  (zone) => {
    beforeAll(async () => {
      const { session } = await snapshots.store();
      await session.run(`USE ${storeName}`);
      await session.run(`SET TimeZone = '${zone}'`);
    });
    afterAll(async () => {
      const { session } = await snapshots.store();
      await session.run("SET TimeZone = 'UTC'");
      await session.run('USE memory');
    });

    const ask = (number: number, replaced: Record<string, string> = {}) => {
      let sql = queries[number] ?? '';
      for (const [text, other] of Object.entries(replaced)) sql = sql.replace(text, other);
      return snapshots.query(sql);
    };
    const number = (back: number) => past.at(-1 - back) as PastRun;

    it('who changed tier in the last run', async () => {
      const expected = [...number(0).members].flatMap(([key, after]) => {
        const before = number(1).members.get(key);
        return before === undefined || before === after ? [] : [{ key, before, after }];
      });
      expect(expected.length).toBeGreaterThan(0);
      expect(await ask(0)).toEqual(expected.sort((a, b) => (a.key < b.key ? -1 : 1)));
    });

    it('who entered VIP since yesterday', async () => {
      const entered = [...number(0).vip].filter((id) => !number(1).vip.has(id)).sort();
      expect((await ask(1)).map(({ profile_id }) => profile_id)).toEqual(entered);
    });

    it('one person over time', async () => {
      const spans = await ask(2, { 'p-0001': 'always' });
      expect(spans.map(({ tier, _valid_to, _began_before }) => [tier, _valid_to, _began_before])).toEqual([
        ['gold', null, true],
      ]);
    });

    it('how many changes there were a day', async () => {
      const expected = kept.flatMap(({ run, members }, at) => {
        const before = (past[runCount - keptDays + at - 1] as PastRun).members;
        const counts = {
          delete: [...before.keys()].filter((id) => !members.has(id)).length,
          insert: [...members.keys()].filter((id) => !before.has(id)).length,
          update: [...members].filter(([id, tier]) => before.has(id) && before.get(id) !== tier).length,
        };
        const date = run.startedAt.slice(0, 10);
        return Object.entries(counts).flatMap(([change, rows]) => (rows === 0 ? [] : [[date, change, rows]]));
      });
      expect((await ask(3)).map(({ day: date, change, rows }) => [date, change, rows])).toEqual(expected);
    });

    it('the tiers of an earlier time, and an error for a time before the horizon', async () => {
      const at = new Date(Date.parse(number(3).run.finishedAt) + 60_000).toISOString();
      const rows = await ask(4, { '2026-10-25 06:00:00+00': at });
      expect(rows.map(({ id, tier }) => [id, tier])).toEqual(
        [...number(3).members].sort(([a], [b]) => (a < b ? -1 : 1)),
      );
      const early = new Date(Date.parse(number(20).run.finishedAt)).toISOString();
      await expect(ask(4, { '2026-10-25 06:00:00+00': early })).rejects.toThrow();
    });

    it('who was deleted, and who is new, in the last seven days', async () => {
      const pairs = kept.map((present, at) => [past[runCount - keptDays + at - 1] as PastRun, present] as const);
      const deleted = pairs.flatMap(([before, { members }]) =>
        [...before.members.keys()].filter((id) => !members.has(id)),
      );
      expect((await ask(5)).map(({ id }) => id)).toEqual(deleted.sort());
      const weekAgo = Date.now() - 7 * day;
      const isNew = (id: string) => {
        // A person who returns is a new row.
        const since = past.findLast(({ members }) => !members.has(id));
        const first = past[since === undefined ? 0 : past.indexOf(since) + 1] as PastRun;
        return since !== undefined && Date.parse(first.run.startedAt) > weekAgo;
      };
      expect((await ask(6)).map(({ id }) => id)).toEqual([...number(0).members.keys()].filter(isNew).sort());
    });

    it('how long each person has been in VIP, not more than is kept', async () => {
      const [freshness] = await snapshots.query(
        "SELECT epoch_ms(kept_from) AS ms FROM cdsync.freshness WHERE stream = 'vip'",
      );
      const from = Number(freshness?.ms);
      const committed = past.filter((_, at) => !failed(at));
      const seconds = new Map<string, number>();
      for (const [at, { run, vip }] of committed.entries()) {
        const [begin, end] = [run, committed[at + 1]?.run].map((one) =>
          one ? Date.parse(one.finishedAt) : Date.now(),
        );
        for (const id of vip) {
          const span = Math.max(0, Number(end) - Math.max(Number(begin), from)) / 1000;
          if (span > 0) seconds.set(id, (seconds.get(id) ?? 0) + span);
        }
      }
      const rows = await ask(7);
      expect(rows.map(({ profile_id }) => profile_id)).toEqual([...seconds.keys()].sort());
      for (const row of rows)
        expect(Math.abs(Number(row.seconds) - Number(seconds.get(String(row.profile_id))))).toBeLessThan(30);
      expect(rows.find(({ profile_id }) => profile_id === 'always')).toMatchObject({ or_longer: true });
    });

    it('the mix of tiers, for exactly the runs whose rows are kept', async () => {
      const rows = await ask(8);
      const shown = new Set(rows.map(({ finished_at }) => String(finished_at)));
      expect(shown.size).toBeGreaterThanOrEqual(keptDays - 1);
      expect(shown.size).toBeLessThanOrEqual(keptDays + 1);
      for (const finishedAt of shown) {
        const ended = past.find(({ run }) => Date.parse(run.finishedAt) === Date.parse(finishedAt));
        const { members } = ended as PastRun;
        const expected = tiers.flatMap((tier) => {
          const count = [...members.values()].filter((one) => one === tier).length;
          return count === 0 ? [] : [[tier, count]];
        });
        const mix = rows
          .filter((row) => String(row.finished_at) === finishedAt)
          .map(({ tier, members: count }) => [tier, count]);
        expect(mix).toEqual(expected.sort());
      }
    });

    it('is it fresh: the runs of each stream, and since when the past is complete', async () => {
      const rows = await snapshots.query(
        'SELECT stream, run_id, epoch_ms(kept_from) AS ms FROM cdsync.freshness ORDER BY stream',
      );
      expect(rows.map(({ stream, run_id }) => [stream, run_id])).toEqual([
        ['members', number(0).run.runId],
        ['vip', number(0).run.runId],
      ]);
      for (const { ms } of rows) expect(Number(ms)).toBeGreaterThan(Date.parse(number(keptDays + 1).run.startedAt));
    });
  },
);

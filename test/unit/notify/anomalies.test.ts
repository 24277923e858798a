import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StreamReport } from '../../../src/core/run-report.js';
import { detectAnomalies } from '../../../src/notify/anomalies.js';
import { pastReport, runEnd, streamReport } from '../../fixtures/run-ends.js';

type Day = Partial<StreamReport>;

/** The anomalies of a run that follows these runs. */
function unusualOf(days: readonly Day[], today: Day) {
  const past = days.map((day, index) => pastReport(index, [streamReport(day)])).reverse();
  return detectAnomalies(runEnd({ streams: [streamReport(today)] }), past);
}

const deletions = [12, 9, 14, 11, 3, 40, 12, 16, 10, 12, 13, 8, 12, 17];

describe('an anomaly of a run', () => {
  it('is said with the past that it is compared with', () => {
    const [found, ...more] = unusualOf(
      deletions.map((deleted) => ({ deleted })),
      { deleted: 5210 },
    );
    expect(more).toEqual([]);
    expect(found).toMatchObject({ stream: 'members', figure: 'deleted', value: 5210, least: 3, most: 40, runs: 14 });
    expect(found?.message).toBe('members: deleted 5,210; usually 12 (in the last 14 runs never above 40)');
  });

  it('is a list that lacks a tenth of its rows, if it has always had the same number', () => {
    const days = Array.from({ length: 10 }, () => ({ rows: 100_000 }));
    expect(unusualOf(days, { rows: 89_000 })[0]?.message).toBe(
      'members: has rows: 89,000; usually 100,000 (in the last 10 runs never below 100,000)',
    );
    expect(unusualOf(days, { rows: 95_000 })).toEqual([]);
  });

  it('is a run without updates, where there are a thousand each run', () => {
    const days = [1000, 1100, 950, 1020, 980, 1010, 990, 1000].map((updated) => ({ updated }));
    expect(unusualOf(days, { updated: 0 }).map(({ figure }) => figure)).toEqual(['updated']);
  });

  it('is a few hundred deletions where there never were any, but not a few', () => {
    const days = Array.from({ length: 20 }, () => ({ deleted: 0 }));
    expect(unusualOf(days, { deleted: 300 })).toHaveLength(1);
    expect(unusualOf(days, { deleted: 8 })).toEqual([]);
  });

  it('is a run that takes four times as long, but none that is quick or was resumed', () => {
    const days = [600, 620, 590, 640, 605, 610, 600].map((seconds) => ({ seconds }));
    expect(unusualOf(days, { seconds: 2460 })[0]?.message).toBe(
      'members: took 41 min 0 s; usually 10 min 5 s (in the last 7 runs never above 10 min 40 s)',
    );
    expect(unusualOf(days, { seconds: 20 })).toEqual([]);
    expect(unusualOf(days, { seconds: 2460, unrecognised: 'verify_every' })).toEqual([]);
    const past = days.map((day, index) => pastReport(index, [streamReport(day)]));
    expect(detectAnomalies(runEnd({ resumed: true, streams: [streamReport({ seconds: 2460 })] }), past)).toEqual([]);
  });

  it('is not reported before seven runs, of streams that are not ok, or of a run that is its own past', () => {
    const days = deletions.slice(0, 6).map((deleted) => ({ deleted }));
    expect(unusualOf(days, { deleted: 5210 })).toEqual([]);
    const more = deletions.map((deleted) => ({ deleted }));
    expect(unusualOf(more, { deleted: 5210, status: 'held' })).toEqual([]);
    const failed = deletions.map((deleted) => ({ deleted, status: 'failed' as const }));
    expect(unusualOf(failed, { deleted: 5210 })).toEqual([]);
    const end = runEnd({ streams: [streamReport({ deleted: 5210 })] });
    const itself = { ...pastReport(0, end.streams), run_id: end.runId as string };
    const past = more.map((day, index) => pastReport(index, [streamReport(day)]));
    expect(detectAnomalies(end, [itself, ...past])).toHaveLength(1);
  });

  it('does not count the first run, which inserts everything', () => {
    const days = [{ rows: 1000, inserted: 1000 }, ...Array.from({ length: 8 }, () => ({ inserted: 3 }))];
    expect(unusualOf(days, { inserted: 400 }).map(({ figure }) => figure)).toEqual(['inserted']);
    // A list that only grows inserts whatever it reads.
    const growing = Array.from({ length: 8 }, () => ({ rows: 500, inserted: 500 }));
    expect(unusualOf(growing, { rows: 9000, inserted: 9000 }).map(({ figure }) => figure)).toEqual([
      'rows',
      'inserted',
    ]);
  });
});

/** Normal numbers, from uniform ones. */
function normal(uniform: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** A separate generator for each series. */
function uniforms(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Kinds of quiet series: the figure of each run. */
const quiet: Record<string, (day: number, random: () => number, level: number) => number> = {
  constant: (_, __, level) => level,
  'about the same': (_, random, level) => level + Math.sqrt(level) * normal(random),
  'a third more or less': (_, random, level) => level * Math.exp(0.35 * normal(random)),
  growing: (day, random, level) => level * 1.02 ** day * Math.exp(0.02 * normal(random)),
  'none on two days of seven': (day, random, level) => (day % 7 > 4 ? 0 : level * Math.exp(0.2 * normal(random))),
};

describe('quiet series', () => {
  it.each(Object.keys(quiet))('%s: fewer than one run in two hundred is reported', (kind) => {
    const figure = quiet[kind] as (typeof quiet)[string];
    let [days, notices] = [0, 0];
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0, max: 100_000 }), (seed, level) => {
        const random = uniforms(seed);
        const series = Array.from({ length: 60 }, (_, day) => ({
          updated: Math.max(0, Math.round(figure(day, random, level))),
        }));
        // The week must have been seen once.
        for (let day = 8; day < series.length; day += 1) {
          const past = series.slice(Math.max(0, day - 30), day);
          days += 1;
          notices += unusualOf(past, series[day] as Day).length;
        }
      }),
      { numRuns: 40 },
    );
    expect(notices / days).toBeLessThan(1 / 200);
  });

  it('that jump a hundredfold are reported', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 10, max: 10_000 }), (seed, level) => {
        const random = uniforms(seed);
        const past = Array.from({ length: 20 }, () => ({
          updated: Math.round(level * Math.exp(0.35 * normal(random))),
        }));
        expect(unusualOf(past, { updated: level * 100 }).map(({ figure }) => figure)).toEqual(['updated']);
      }),
      { numRuns: 100 },
    );
  });
});

import { describe, expect, it } from 'vitest';
import { drawsBlock, heightOf } from '../../../src/cli/show-progress.js';
import { ProgressLines, RateEstimate, type RunView, type StreamView } from '../../../src/output/progress-lines.js';

const stream = (name: string, more: Partial<StreamView> = {}): StreamView => ({
  name,
  phase: 'reading',
  rows: 0,
  requests: 0,
  expectedRows: undefined,
  ...more,
});
const run = (streams: readonly StreamView[], more: Partial<RunView> = {}): RunView => ({
  phase: 'reading',
  streams,
  deliveries: [],
  share: undefined,
  ...more,
});
const wide = { columns: 120, rows: 24 };

describe('pace', () => {
  it('is the plain mean in the first seconds', () => {
    const pace = new RateEstimate(0, [0]);
    pace.observe(500, [100]);
    expect(pace.perSecond(0)).toBeCloseTo(200);
    pace.observe(1000, [200]);
    expect(pace.perSecond(0)).toBeCloseTo(200);
  });

  it('follows a change within some ten seconds, and does not swing with a single pause', () => {
    const pace = new RateEstimate(0, [0]);
    for (let at = 500; at <= 60_000; at += 500) pace.observe(at, [at]);
    pace.observe(61_000, [60_000]);
    expect(pace.perSecond(0)).toBeGreaterThan(850);
    for (let at = 61_500; at <= 81_000; at += 500) pace.observe(at, [60_000 + (at - 61_000) / 10]);
    expect(pace.perSecond(0)).toBeLessThan(300);
  });

  it('says nothing of no time', () => {
    const pace = new RateEstimate(5, [0]);
    pace.observe(5, [100]);
    expect(pace.perSecond(0)).toBe(0);
  });
});

describe('progress on a terminal', () => {
  it('shows rows of how many, a bar, rate, the limit with its share, and time left, from the first look on', () => {
    const lines = new ProgressLines(2000, 0);
    const view = run([stream('members', { rows: 25_000, requests: 500, expectedRows: 100_000 })]);
    expect(lines.block(view, 1000, wide)).toEqual([
      'members  [=====>              ]   25 %  25,000 of 100,000 rows  25,000/s  25 % of the Profile API  3.0 s left',
      '1.0 s: reading, about 3.0 s left',
    ]);
  });

  it('divides requests by the limit of their own API, and counts the responses of streams that ask by key', () => {
    const lines = new ProgressLines(2000, 0);
    const limit = { group: 'realtime', per_second: 200 } as const;
    const keyed = stream('vip', { rows: 150, requests: 150, expectedRows: 300, unit: 'answers', limit });
    expect(lines.block(run([keyed]), 1000, wide)[0]).toMatch(/150 of 300 answers .* 75 % of the Real-time API/);
  });

  it('counts the streams that wait in the time left', () => {
    const lines = new ProgressLines(2000, 0);
    const half = stream('a', { rows: 500, requests: 1, expectedRows: 1000 });
    const waits = stream('b', { phase: 'waiting', expectedRows: 10_000 });
    expect(lines.block(run([half, waits]), 1000, wide).at(-1)).toBe('1.0 s: reading, about 21 s left');
  });

  it('shows rate and rows where no one knows how many there are', () => {
    const lines = new ProgressLines(2000, 0);
    expect(lines.block(run([stream('members', { rows: 500, requests: 1 })]), 1000, wide)).toEqual([
      'members  500 rows  500/s  0 % of the Profile API',
      '1.0 s: reading',
    ]);
  });

  it('shows the result of a finished stream, and the phase of a run after the last page', () => {
    const lines = new ProgressLines(2000, 0);
    const done = { rows: 100_098, inserted: 200, updated: 978, deleted: 102 };
    const same = { rows: 3, inserted: 0, updated: 0, deleted: 0 };
    const streams = [
      stream('members', { phase: 'done', rows: 100_098, figures: done }),
      stream('indexes', { phase: 'held', rows: 3, figures: same }),
      stream('vip', { phase: 'checking', rows: 12 }),
    ];
    expect(lines.block(run(streams, { phase: 'comparing' }), 12_000, wide)).toEqual([
      'members  done: 100,098 rows, 200 inserted, 978 updated, 102 deleted',
      'indexes  held: 3 rows, nothing changed',
      'vip      checking  12 rows read',
      '12 s: comparing',
    ]);
    // Where that does not fit, the name counts more than the changes.
    expect(lines.block(run(streams.slice(0, 2), { phase: 'comparing' }), 12_000, { columns: 40, rows: 24 })).toEqual([
      'members  done: 100,098 rows',
      'indexes  held: 3 rows, nothing changed',
      '12 s: comparing',
    ]);
    expect(lines.block(run(streams, { phase: 'publishing' }), 13_000, wide).at(-1)).toBe('13 s: publishing');
  });

  it('says which destinations are still on the way', () => {
    const lines = new ProgressLines(2000, 0);
    const deliveries: RunView['deliveries'] = [
      { destination: 'warehouse', stream: 'members', phase: 'loading', rows: 500, total: 2000 },
      { destination: 'lake', stream: 'members', phase: 'done', rows: 2000, total: 2000 },
      { destination: 'hook', stream: 'members', phase: 'waiting', rows: 0, total: undefined },
    ];
    expect(lines.block(run([stream('members')], { phase: 'delivering', deliveries }), 60_000, wide)).toEqual([
      'members to warehouse: loading, 500 of 2,000 rows (25 %)',
      'members to lake: done, 2,000 of 2,000 rows (100 %)',
      '1 min 0 s: delivering to warehouse, hook',
    ]);
  });

  it.each([10, 20, 33, 40, 60, 79, 80, 200])('fits a terminal of %i columns', (columns) => {
    const view = run(
      [
        stream('a_stream_with_a_rather_long_name', { rows: 45_120, requests: 90, expectedRows: 100_000 }),
        stream('vip', { phase: 'done', figures: { rows: 9_999_999, inserted: 1, updated: 2, deleted: 3 } }),
      ],
      {
        share: { part: 0.5, otherProcesses: 3 },
        deliveries: [{ destination: 'warehouse', stream: 'vip', phase: 'loading', rows: 5, total: 10_000_000 }],
      },
    );
    const block = new ProgressLines(2000, 0).block(view, 2000, { columns, rows: 24 });
    expect(block.filter((line) => line.length >= columns)).toEqual([]);
    expect(block.length).toBe(5);
    if (columns >= 33) expect(block[0]).toMatch(/45 %/);
  });

  it.each([1, 2, 3, 5, 10, 24])('fits a terminal of %i rows, and counts the streams without a line', (rows) => {
    const streams = Array.from({ length: 40 }, (_, n) =>
      stream(`s${n}`, { phase: n < 20 ? 'done' : n < 24 ? 'reading' : n === 24 ? 'failed' : 'waiting' }),
    );
    const block = new ProgressLines(2000, 0).block(run(streams), 1000, { columns: 80, rows });
    expect(block.length).toBe(Math.max(1, rows - 1));
    if (rows < 10) return;
    expect(block.filter((line) => /^s2[0-3] /.test(line)).length).toBe(4);
    expect(block.some((line) => line.startsWith('s24 '))).toBe(true);
    expect(block.at(-2)).toMatch(/^and \d+ streams: .*\d+ done.*15 waiting$|^and \d+ streams: .*waiting.*$/);
  });
});

describe('progress in a log', () => {
  it('is a plain line for each stream under way, and one for the run', () => {
    const lines = new ProgressLines(2000, 0);
    const view = run([
      stream('members', { rows: 30_000, requests: 60, expectedRows: 100_000 }),
      stream('vip', { phase: 'waiting' }),
      stream('indexes', { phase: 'done', figures: { rows: 3, inserted: 3, updated: 0, deleted: 0 } }),
    ]);
    expect(lines.log(view, 15_000)).toEqual([
      'members  [======>             ]   30 %  30,000 of 100,000 rows  2,000/s  0 % of the Profile API  35 s left',
      '15 s: reading, about 35 s left',
    ]);
  });

  it('has twenty lines of streams at most in a log: of those that are being read first', () => {
    const lines = new ProgressLines(2000, 0);
    const streams = Array.from({ length: 50 }, (_, at) =>
      stream(`s${at}`, at < 40 ? { phase: 'read' } : { phase: 'reading', rows: 10, requests: at < 45 ? 1 : 0 }),
    );
    const found = lines.log(run(streams), 15_000);
    expect(found).toHaveLength(21);
    expect(found.filter((line) => /^s4[0-4] /.test(line))).toHaveLength(5);
    expect(found.at(-2)).toBe('and 31 streams: 31 under way');
  });

  it.each([
    [true, {}, true],
    [true, { TERM: 'xterm-256color' }, true],
    [false, { TERM: 'xterm' }, false],
    [true, { TERM: 'dumb' }, false],
    [true, { CI: 'true' }, false],
    [true, { NO_COLOR: '1' }, false],
  ])('is replaced by a block on a terminal (%j) with %j: %j', (isTerminal, env, expected) => {
    expect(drawsBlock(isTerminal, env)).toBe(expected);
  });
});

it('a block that was drawn wider takes more rows after the terminal has become narrower', () => {
  expect(heightOf(['a'.repeat(79), 'b'], 80)).toBe(2);
  expect(heightOf(['a'.repeat(79), 'b'], 40)).toBe(3);
  expect(heightOf(['', 'b'], 40)).toBe(2);
});

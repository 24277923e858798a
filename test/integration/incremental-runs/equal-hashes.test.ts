import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { RecordHasher } from '../../../src/columns/record-hash.js';
import type { RunChoices } from '../../../src/engine/run-context.js';
import type { ListPlan } from './list-service.js';
import { Reader } from './print.js';
import { plainStyle } from './record-text.js';
import { job, Side } from './side.js';

const day = 86_400_000;
const strong = RecordHasher.prototype.write;

/** As the real hash, but blind for digits: records that differ in nothing else collide. */
function blindForDigits(
  this: RecordHasher,
  view: DataView,
  from: number,
  to: number,
  target: Uint32Array,
  at: number,
): void {
  const bytes = Buffer.from(view.buffer, view.byteOffset + from, to - from);
  const seen = Buffer.from(bytes.toString('latin1').replaceAll(/\d/g, '0'), 'latin1');
  strong.call(this, new DataView(seen.buffer, seen.byteOffset, seen.length), 0, seen.length, target, at);
}

const record = (id: string, points: number, city = 'Ulm') =>
  `{"id":"${id}","index_id":"members","attributes":{"points":${points},"city":"${city}"}}`;

/** A list of these records. */
function listOf(texts: readonly string[]): ListPlan {
  const copies = texts.map((text) => ({ id: undefined, version: null, country: null, text }));
  return {
    list: { index: 'members', copies, one: (key) => texts.find((text) => text.startsWith(`{"id":"${key}"`)) },
    copies,
    later: copies,
    moves: [],
    deadFrom: undefined,
    mishaps: new Map(),
    ignoresFilter: false,
    lie: 0,
    style: plainStyle,
    between: ',',
    tokenFirst: false,
  };
}

let reader: Reader;
const folders: string[] = [];
beforeAll(async () => {
  reader = await Reader.open();
});
afterAll(async () => {
  reader.close();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

/** A storage folder whose records are hashed weakly, run after run. */
async function weakSide() {
  vi.spyOn(RecordHasher.prototype, 'write').mockImplementation(blindForDigits);
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-runs-'));
  folders.push(folder);
  const side = await Side.open(folder, true);
  side.now = Date.parse('2026-01-01T02:00:00Z');
  await side.configure({
    service: {},
    job: { guards: { max_changed: '100%', max_deleted: '100%' }, recognition: { verify_every: '30d' } },
    streams: [{ name: 'members', source: 'index_profiles', index: 'members', page_size: 4 }],
    destinations: [],
  });
  const runOnce = async (texts: readonly string[], days: number, choices: Partial<RunChoices> = {}) => {
    side.now += days * day;
    side.service.begin([listOf(texts)]);
    const result = await side.run(choices, undefined);
    if (result === 'killed' || 'failure' in result) throw new Error(JSON.stringify(result));
    const [stream] = result.report.streams;
    if (stream === undefined) throw new Error('the report has no stream');
    const { status, inserted, updated, deleted, unchanged, recognised: cacheHits } = stream;
    return { status, inserted, updated, deleted, unchanged, cacheHits };
  };
  const rows = () =>
    reader.attached(join(side.jobFolder, `${job}.duckdb`), (name) =>
      reader.lines(`(SELECT id, points, city FROM ${name}.members)`),
    );
  const close = async () => {
    vi.restoreAllMocks();
    await side.close();
  };
  return { side, runOnce, rows, close };
}

const row = (id: string, points: number, city = 'Ulm') => JSON.stringify({ id, points, city });

describe('records whose hashes are equal', () => {
  it('hide a change until every record is converted again, and harm nothing else', async () => {
    const { side, runOnce, rows, close } = await weakSide();
    try {
      const before = [record('a', 1), record('b', 2), record('c', 3), record('d', 4), record('e', 5)];
      expect(await runOnce(before, 0)).toMatchObject({ inserted: 5, cacheHits: 0 });
      // a changes its digits alone, which the hash cannot see; b changes in another way too; c is removed, f is added.
      const after = [record('a', 7), record('b', 2, 'Bonn'), record('d', 4), record('e', 5), record('f', 6)];
      expect(await runOnce(after, 1)).toMatchObject({
        inserted: 1,
        updated: 1,
        deleted: 1,
        unchanged: 3,
        cacheHits: 3,
      });
      const hidden = [row('a', 1), row('b', 2, 'Bonn'), row('d', 4), row('e', 5), row('f', 6)];
      expect(await rows()).toEqual(hidden);
      expect(await side.mismatches()).toEqual([]);
      expect(await runOnce(after, 28)).toMatchObject({ updated: 0, unchanged: 5, cacheHits: 5 });
      expect(await rows()).toEqual(hidden);
      // `verify_every` has passed.
      expect(await runOnce(after, 2)).toMatchObject({ updated: 1, unchanged: 4, cacheHits: 0 });
      expect(await rows()).toEqual([row('a', 7), ...hidden.slice(1)]);
      expect(await side.mismatches()).toEqual([]);
    } finally {
      await close();
    }
  });

  it('are found by --full too', async () => {
    const { runOnce, rows, close } = await weakSide();
    try {
      await runOnce([record('a', 1), record('b', 2)], 0);
      expect(await runOnce([record('a', 9), record('b', 2)], 1)).toMatchObject({ updated: 0, cacheHits: 2 });
      expect(await runOnce([record('a', 9), record('b', 2)], 1, { full: true })).toMatchObject({
        updated: 1,
        cacheHits: 0,
      });
      expect(await rows()).toEqual([row('a', 9), row('b', 2)]);
    } finally {
      await close();
    }
  });

  it('of two keys of one list hide that one of them goes, until every record is converted again', async () => {
    const { side, runOnce, rows, close } = await weakSide();
    try {
      // The keys differ in their digits alone.
      await runOnce([record('k1', 1), record('k2', 2), record('x', 3)], 0);
      expect(await rows()).toEqual([row('k1', 1), row('k2', 2), row('x', 3)]);
      const next = [record('k1', 1), record('x', 4, 'Bonn')];
      const { deleted, cacheHits, ...rest } = await runOnce(next, 1);
      expect(rest).toMatchObject({ status: 'ok', inserted: 0, updated: 1 });
      expect(deleted).toBe(cacheHits > 0 ? 0 : 1);
      expect(await side.mismatches()).toEqual([]);
      await runOnce(next, 31);
      expect(await rows()).toEqual([row('k1', 1), row('x', 4, 'Bonn')]);
      expect(await side.mismatches()).toEqual([]);
    } finally {
      await close();
    }
  });
});

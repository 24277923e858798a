import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Journal, type JournalEntry, noCounters } from '../../../src/store/journal.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'journal-'));
});
afterEach(() => rm(folder, { recursive: true }));

const start: JournalEntry = {
  type: 'start',
  version: 1,
  stream: 'members',
  fingerprint: 'f',
  started_at: '2026-11-03T02:15:00.000Z',
  total: null,
  partitions: ['*'],
};
const columns = [{ place: 'envelope' as const, field: 'id', name: 'id', shape: { k: 32 } }];

function checkpoint(number: number, token: string | null): JournalEntry {
  const part = {
    number,
    rows: 10,
    bytes: 100,
    sha256: 'a',
    columns,
    segments: [['*', 1, 10] as [string, number, number]],
    rejects: 0,
  };
  const cursor = { token, issued_at: null, pages: number, attempt: 1, done: token === null };
  return {
    type: 'checkpoint',
    part,
    cursors: { '*': cursor },
    counters: { ...noCounters, pages: number, kept: number * 10 },
  };
}

async function write(entries: readonly JournalEntry[]): Promise<void> {
  const journal = await Journal.open(folder, 0);
  for (const entry of entries) await journal.append(entry);
  await journal.close();
}

describe('the journal', () => {
  it('counts as missing before its first line is whole', async () => {
    expect(await Journal.read(folder)).toBeUndefined();
    await writeFile(Journal.path(folder), '{"type":"start","ver');
    expect(await Journal.read(folder)).toBeUndefined();
  });

  it('returns the last whole line wherever a crash cut it', async () => {
    const entries = [start, checkpoint(1, 'a'), checkpoint(2, 'b'), checkpoint(3, null)];
    await write(entries);
    const whole = await readFile(Journal.path(folder));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length }), async (cut) => {
        await writeFile(Journal.path(folder), whole.subarray(0, cut));
        const lines = whole.subarray(0, cut).toString('utf8').split('\n').length - 1;
        const state = await Journal.read(folder);
        expect(state?.parts.length ?? 0).toBe(Math.max(0, lines - 1));
        expect(state?.counters.pages ?? 0).toBe(Math.max(0, lines - 1));
      }),
    );
  });

  it('continues after a torn line as if that line had never begun', async () => {
    await write([start, checkpoint(1, 'a'), checkpoint(2, 'b')]);
    const { size } = await stat(Journal.path(folder));
    await truncate(Journal.path(folder), size - 5);
    const torn = await Journal.read(folder);
    const journal = await Journal.open(folder, torn?.length ?? 0);
    await journal.append(checkpoint(2, 'c'));
    await journal.close();
    const state = await Journal.read(folder);
    expect(state?.parts.map(({ number }) => number)).toEqual([1, 2]);
    expect(state?.cursors.get('*')?.token).toBe('c');
  });

  it('restarts a partition with its next attempt', async () => {
    await write([start, checkpoint(1, 'a'), { type: 'attempt', partition: '*', attempt: 2 }]);
    expect((await Journal.read(folder))?.cursors.get('*')).toEqual({
      token: null,
      issued_at: null,
      pages: 0,
      attempt: 2,
      done: false,
    });
  });

  it('refuses a whole line that is not its own, with file and line', async () => {
    await write([start]);
    await writeFile(Journal.path(folder), `${JSON.stringify(start)}\nhello\n`);
    await expect(Journal.read(folder)).rejects.toMatchObject({
      code: 'state_unreadable',
      message: expect.stringContaining('journal.jsonl:2'),
    });
  });
});

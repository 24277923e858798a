import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Journal, type JournalEntry, journalVersion, noCounters } from '../../../src/storage/journal.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'journal-'));
});
afterEach(() => rm(folder, { recursive: true }));

const start: JournalEntry = {
  type: 'start',
  version: journalVersion,
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
  const journal = await Journal.open(folder);
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
    const journal = await Journal.open(folder, torn);
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

  /** The journal's text after each way to damage it. */
  const damages: [string, (lines: string[]) => string[]][] = [
    ['a line is there twice', (lines) => lines.flatMap((line, index) => (index === 2 ? [line, line] : [line]))],
    ['the last line is there twice', (lines) => [...lines, lines.at(-1) as string]],
    ['a line is missing', (lines) => lines.filter((_, index) => index !== 2)],
    ['two lines are swapped', ([a, b, c, d]) => [a, c, b, d] as string[]],
    ['a line of another journal is in it', (lines) => lines.with(2, (lines[2] as string).replace('"b"', '"c"'))],
    ['there is a foreign line', (lines) => lines.with(1, 'hello')],
  ];
  it.each(damages)('is unreadable if %s', async (_, damage) => {
    await write([start, checkpoint(1, 'a'), checkpoint(2, 'b'), checkpoint(3, null)]);
    const lines = (await readFile(Journal.path(folder), 'utf8')).split('\n').slice(0, -1);
    await writeFile(Journal.path(folder), `${damage(lines).join('\n')}\n`);
    await expect(Journal.read(folder)).rejects.toMatchObject({
      code: 'state_unreadable',
      message: expect.stringMatching(/journal\.jsonl:[2-5]: /),
    });
  });

  it('is unreadable, or as it was, whichever bit of it flips', async () => {
    await write([start, checkpoint(1, 'a'), checkpoint(2, 'b'), checkpoint(3, null)]);
    const whole = await readFile(Journal.path(folder));
    const first = whole.indexOf('\n') + 1;
    const intact = await Journal.read(folder);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: first, max: whole.length - 2 }), fc.nat(7), async (at, bit) => {
        const flipped = Buffer.from(whole);
        flipped[at] = (flipped[at] as number) ^ (1 << bit);
        await writeFile(Journal.path(folder), flipped);
        const found = await Journal.read(folder).catch(({ code }) => code);
        if (found !== 'state_unreadable') expect(found).toEqual(intact);
      }),
    );
  });

  it('of another version is not resumed', async () => {
    const journal = await Journal.open(folder);
    await journal.append({ ...start, version: 2 } as never);
    await journal.close();
    const damaged: string[] = [];
    expect(await Journal.readUsable(folder, ({ code }) => damaged.push(code))).toBeUndefined();
    expect(damaged).toEqual(['state_unreadable']);
  });
});

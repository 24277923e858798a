import { appendFile, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sealedLine } from '../../../../src/core/sealed-json.js';
import { Acknowledgements, asRanges } from '../../../../src/delivery/records/acknowledgements.js';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-acknowledged-'));
  path = join(folder, 'acknowledged.jsonl');
});
afterEach(() => rm(folder, { recursive: true }));

const records = 40;
const reject = (offset: number) => ({ offset, key: `k${offset}`, column: null, reason: 'no', run_id: 'run-1' });

/** The notes of several senders in turn: batches of records, each record once, acknowledged or refused. */
const notes = fc.shuffledSubarray(Array.from({ length: records }, (_, offset) => offset)).chain((offsets) =>
  fc.array(fc.tuple(fc.nat(5), fc.boolean()), { minLength: offsets.length, maxLength: offsets.length }).map((drawn) => {
    const batches: { acknowledged: number[]; refused: number[] }[] = [];
    for (const [index, offset] of offsets.entries()) {
      const [ends, isRefused] = drawn[index] as [number, boolean];
      if (index === 0 || ends === 0) batches.push({ acknowledged: [], refused: [] });
      const batch = batches.at(-1) as (typeof batches)[number];
      (isRefused ? batch.refused : batch.acknowledged).push(offset);
    }
    return batches;
  }),
);

describe('acknowledgements', () => {
  it('are known as they were noted, also to the next process that opens the file', async () => {
    await fc.assert(
      fc.asyncProperty(notes, async (batches) => {
        await rm(path, { force: true });
        const [done, refused] = [new Set<number>(), [] as number[]];
        for (const half of [batches.slice(0, batches.length / 2), batches.slice(batches.length / 2)]) {
          const journal = await Acknowledgements.open(path);
          for (const batch of half) {
            journal.note(batch.acknowledged, batch.refused.map(reject));
            for (const offset of [...batch.acknowledged, ...batch.refused]) done.add(offset);
            refused.push(...batch.refused);
          }
          await journal.close();
          for (let offset = 0; offset < records; offset += 1) expect(journal.has(offset)).toBe(done.has(offset));
          expect([journal.count, await Acknowledgements.count(path)]).toEqual([done.size, done.size]);
          expect(journal.rejects.map(({ key }) => key)).toEqual(refused.map((offset) => `k${offset}`));
        }
      }),
      { numRuns: 40 },
    );
  });

  it('count a record once that is noted twice', async () => {
    for (const expected of [2, 2]) {
      const journal = await Acknowledgements.open(path);
      journal.note([0, 1], []);
      journal.note([1], [reject(0)]);
      await journal.close();
      expect([journal.count, journal.has(2)]).toEqual([expected, false]);
    }
  });

  it('say what helps if a line in the middle is damaged', async () => {
    await appendFile(path, 'x\n');
    await expect(Acknowledgements.open(path)).rejects.toMatchObject({
      code: 'state_unreadable',
      hint: expect.stringContaining('cdsync push --full'),
    });
  });

  it('lose only a last line that a crash tore, and continue after the others', async () => {
    const first = await Acknowledgements.open(path);
    first.note([0, 1, 2], []);
    await first.flush();
    first.note([7], [reject(3)]);
    await first.close();
    const { length } = await readFile(path);
    for (const lost of [1, 5]) {
      await truncate(path, length - lost);
      expect(await Acknowledgements.count(path)).toBe(4);
      const second = await Acknowledgements.open(path);
      expect([second.count, second.has(7), second.has(3)]).toEqual([4, true, false]);
      second.note([], [reject(3)]);
      await second.close();
      expect(await readFile(path, 'utf8')).toHaveLength(length);
    }
  });

  it('are refused, or as they were but for the last line, whichever bit flips', async () => {
    const written = await Acknowledgements.open(path);
    written.note([0, 1, 2], []);
    await written.flush();
    written.note([4], [reject(3)]);
    await written.close();
    const whole = await readFile(path);
    for (let bit = 0; bit < 8 * whole.length; bit += 1) {
      const damaged = Buffer.from(whole);
      damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
      await writeFile(path, damaged);
      const read = await Acknowledgements.count(path).catch(({ code }) => code);
      // Without its end, the last line looks like one that a crash tore.
      expect(read).toBe(bit >> 3 === whole.length - 1 ? 4 : 'state_unreadable');
    }
  });

  it('are none if there is no file', async () => {
    expect(await Acknowledgements.count(path)).toBe(0);
  });

  it('are refused if a complete line of the file is invalid', async () => {
    await appendFile(path, `${sealedLine({ done: [0, 2] }, 1)}\nnonsense\n`);
    await expect(Acknowledgements.open(path)).rejects.toThrow();
  });
});

it('consecutive offsets are one range', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(60)), (offsets) => {
      const ranges = asRanges(offsets);
      const all = ranges.flatMap(([from, to]) => Array.from({ length: to - from }, (_, index) => from + index));
      expect(all).toEqual([...offsets].sort((a, b) => a - b));
      for (const [index, [from]] of ranges.entries()) {
        if (index > 0) expect(from).toBeGreaterThan(ranges[index - 1]?.[1] as number);
      }
    }),
  );
});

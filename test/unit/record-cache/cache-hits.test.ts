import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type CacheHits, CacheHitsLog, readCacheHits } from '../../../src/record-cache/cache-hits.js';

const open = CacheHitsLog.open;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-test-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const whole = fc.integer({ min: 0, max: 2 ** 32 - 2 });
const run = fc.record({
  partition: fc.constantFrom('*', '=Zürich', '**', '=', `=${'x'.repeat(70)}`),
  attempt: fc.integer({ min: 1, max: 3 }),
  part: whole,
  row: whole,
  slots: fc.array(whole, { maxLength: 30 }),
});

async function read(path: string, length: number): Promise<CacheHits[]> {
  const found: CacheHits[] = [];
  for await (const { slots, ...rest } of readCacheHits(path, length))
    found.push({ ...rest, slots: [...Array.from(slots)] });
  return found;
}

describe('the log of cache hits', () => {
  test('returns the hits before each sync, and none after it', async () => {
    let files = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(run, { maxLength: 5 }), { maxLength: 4 }), async (batches) => {
        const path = join(folder, String(files++));
        const lengths: number[] = [];
        const log = await open(path, 0);
        for (const batch of batches) {
          for (const each of batch) log.add(each);
          lengths.push(await log.sync());
        }
        await log.close();
        for (const [index, length] of lengths.entries()) {
          expect(await read(path, length)).toEqual(batches.slice(0, index + 1).flat());
        }
      }),
      { numRuns: 30 },
    );
  });

  test('continues after the length that the journal has', async () => {
    const path = join(folder, 'log');
    const entry = (part: number): CacheHits => ({ partition: '*', attempt: 1, part, row: 0, slots: [part] });
    const first = await open(path, 0);
    first.add(entry(1));
    const length = await first.sync();
    first.add(entry(2));
    await first.sync();
    await first.close();
    const second = await open(path, length);
    second.add({ ...entry(3), partition: '=DE' });
    const end = await second.sync();
    await second.close();
    expect(await read(path, end)).toEqual([entry(1), { ...entry(3), partition: '=DE' }]);
  });

  test('is refused if any of its bytes has changed, or if its end is lost', async () => {
    const path = join(folder, 'log');
    const log = await open(path, 0);
    for (const part of [1, 2]) log.add({ partition: '=Zürich', attempt: 1, part, row: 7, slots: [5, 6, 7] });
    const length = await log.sync();
    await log.close();
    const bytes = await readFile(path);
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 0x10;
      await writeFile(path, changed);
      await expect(read(path, length)).rejects.toThrow(RangeError);
    }
    await writeFile(path, bytes.subarray(0, -8));
    await (await open(path, length)).close();
    await expect(read(path, length)).rejects.toThrow(RangeError);
  });

  test('takes little memory for few hits, for all streams of a run have one', async () => {
    const before = process.memoryUsage().arrayBuffers;
    const logs: CacheHitsLog[] = [];
    for (let stream = 0; stream < 50; stream += 1) {
      const log = await open(join(folder, `log-${stream}`), 0);
      log.add({ partition: '*', attempt: 1, part: 1, row: 7, slots: [5, 6, 7] });
      await log.sync();
      logs.push(log);
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(5_000_000);
    for (const log of logs) await log.close();
  });

  test('takes more than its buffer holds, and is refused if it is too short', async () => {
    const path = join(folder, 'log');
    const log = await open(path, 0);
    const slots = Array.from({ length: 300_000 }, (_, index) => index);
    for (const part of [1, 2, 3]) log.add({ partition: '*', attempt: 1, part, row: 7, slots });
    const length = await log.sync();
    await log.close();
    expect((await read(path, length)).map((each) => each.slots.length)).toEqual([300_000, 300_000, 300_000]);
    await expect(read(path, length + 4)).rejects.toThrow('too short');
    await expect(read(path, length - 4)).rejects.toThrow('inside an entry');
  });
});

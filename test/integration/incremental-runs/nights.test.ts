import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../../fixtures/seed.js';
import { Reader } from './print.js';
import { Season } from './season.js';

/** `npm run test:nights` sets it to 2,000. */
const nights = Number(process.env.CDSYNC_TEST_NIGHTS ?? 10);
const isLong = nights > 50;
const nightsInSeason = isLong ? 10 : 5;
const killsOnceIn = isLong ? 8 : undefined;
const tally = new Map<string, number>();
const seasons = Array.from({ length: Math.ceil(nights / nightsInSeason) }, (_, number) => seed + number);

let reader: Reader;
beforeAll(async () => {
  reader = await Reader.open();
});
afterAll(() => {
  reader.close();
  const lines = [...tally].sort().map(([what, times]) => `${String(times).padStart(6)} ${what}`);
  if (isLong) process.stderr.write(`In ${nights} nights:\n${lines.join('\n')}\n`);
});

const newFolder = () => mkdtemp(join(tmpdir(), 'cdsync-nights-'));

describe('nights with recognition and without', { timeout: 300_000 }, () => {
  it.for(seasons)('are the same in rows, changes, history, counters and files: season %i', async (number) => {
    const folder = await newFolder();
    await new Season({ seed: number, nights: nightsInSeason, folder, reader, killsOnceIn, tally }).run();
  });

  it('would differ if a record got lost', async () => {
    const folder = await newFolder();
    const spoil: ConstructorParameters<typeof Season>[0]['spoil'] = (plan) => ({
      ...plan,
      copies: plan.copies.slice(1),
    });
    const season = new Season({ seed: 3, nights: 10, folder, reader, killsOnceIn: undefined, tally: new Map(), spoil });
    await expect(season.run()).rejects.toThrow(/members: \d+ with recognition/);
  });
});

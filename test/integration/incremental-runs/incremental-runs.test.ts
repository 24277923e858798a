import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../../fixtures/seed.js';
import { Reader } from './print.js';
import { Scenario } from './scenario.js';

/** A script of package.json sets it to 2,000. */
const runs = Number(process.env.CDSYNC_TEST_NIGHTS ?? 10);
const isLong = runs > 50;
const runsInScenario = isLong ? 10 : 5;
const killsOnceIn = isLong ? 8 : undefined;
const tally = new Map<string, number>();
const scenarios = Array.from({ length: Math.ceil(runs / runsInScenario) }, (_, number) => seed + number);

let reader: Reader;
beforeAll(async () => {
  reader = await Reader.open();
});
afterAll(() => {
  reader.close();
  const lines = [...tally].sort().map(([what, times]) => `${String(times).padStart(6)} ${what}`);
  if (isLong) process.stderr.write(`In ${runs} runs:\n${lines.join('\n')}\n`);
});

const newFolder = () => mkdtemp(join(tmpdir(), 'cdsync-runs-'));

describe('runs with the record cache and without it', { timeout: 300_000 }, () => {
  it.for(scenarios)('are the same in rows, changes, history, counters and files: scenario %i', async (number) => {
    const folder = await newFolder();
    await new Scenario({ seed: number, runs: runsInScenario, folder, reader, killsOnceIn, tally }).run();
  });

  it('would differ if a record got lost', async () => {
    const folder = await newFolder();
    const spoil: ConstructorParameters<typeof Scenario>[0]['spoil'] = (plan) => ({
      ...plan,
      copies: plan.copies.slice(1),
    });
    const scenario = new Scenario({
      seed: 3,
      runs: 10,
      folder,
      reader,
      killsOnceIn: undefined,
      tally: new Map(),
      spoil,
    });
    await expect(scenario.run()).rejects.toThrow(/members: \d+ with recognition/);
  });
});

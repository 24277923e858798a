import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Baseline } from './baseline.js';
import type { Fault, FaultKind } from './fault.js';
import { Broken, tryFault } from './judge.js';
import { faultKinds } from './kinds/index.js';
import type { Lane } from './lane.js';
import { type Random, randomFrom, sample } from './random.js';
import { emptyTally, type Tally, tallyLine, tallyLines } from './tally.js';

/** Faults of each kind: a short form without it, `npm run test:fault` tries as many as each kind says. */
const most = Number(process.env.CDSYNC_TEST_FAULTS ?? 1);
const seed = Number(process.env.CDSYNC_TEST_SEED ?? Date.now() % 1_000_000);
const lanes = Number(process.env.CDSYNC_TEST_LANES ?? 2);
/** Only kinds and faults whose names hold these words: to try one of them again. */
const only = { kind: process.env.CDSYNC_TEST_KIND ?? '', fault: process.env.CDSYNC_TEST_FAULT ?? '' };

let folder: string;
let baseline: Baseline;
const open: Lane[] = [];
const tallies: Tally[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-faults-'));
  baseline = await Baseline.prepare(folder);
  for (let count = 0; count < lanes; count += 1) open.push(await baseline.openLane());
}, 900_000);

afterAll(async () => {
  console.info(`\n${tallyLines(tallies, seed).join('\n')}\n`);
  for (const lane of open) await lane.close();
  await rm(folder, { recursive: true, force: true });
});

async function tryOn(lane: Lane, fault: Fault, random: Random, tally: Tally): Promise<void> {
  try {
    if (await tryFault(baseline, lane, fault, random)) tally.survived += 1;
    else tally.missed += 1;
  } catch (error) {
    tally.broken.push(`${fault.name}: ${error instanceof Broken ? error.message : (error as Error).stack}`);
  }
}

/** Tries faults side by side, one at a time in each lane. */
async function tryAll(kind: FaultKind, tally: Tally): Promise<void> {
  const random = randomFrom(seed);
  const all = kind.faults(baseline.steps).filter(({ name }) => name.includes(only.fault));
  const left = sample(all, Math.min(most, kind.most), random).map((fault) => ({ fault, seed: random() * 2 ** 31 }));
  const work = async (lane: Lane) => {
    for (let next = left.pop(); next !== undefined; next = left.pop())
      await tryOn(lane, next.fault, randomFrom(next.seed), tally);
  };
  await Promise.all(open.map(work));
}

describe('a fault breaks nothing', () => {
  it.for(faultKinds.filter(({ name }) => name.includes(only.kind)))(
    '$name',
    { timeout: 3_600_000 },
    async (kind, context) => {
      const tally = emptyTally(kind.name);
      tallies.push(tally);
      tally.lacks = await kind.lacks?.();
      if (tally.lacks !== undefined) return context.skip(`NOT TRIED: ${tally.lacks}`);
      const began = performance.now();
      await tryAll(kind, tally);
      tally.seconds = (performance.now() - began) / 1000;
      console.info(tallyLine(tally));
      expect(tally.broken, `seed ${seed}`).toEqual([]);
      expect(tally.survived).toBeGreaterThan(0);
    },
  );
});

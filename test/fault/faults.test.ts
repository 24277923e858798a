import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { Baseline } from './baseline.js';
import type { Fault, FaultKind } from './fault.js';
import { faultKinds } from './kinds/index.js';
import type { Lane } from './lane.js';
import { type Random, randomFrom, sample } from './random.js';
import { situations } from './situations.js';
import { emptyTally, type Tally, tallyLine, tallyLines } from './tally.js';
import { Broken, tryFault } from './try-fault.js';

/** Faults of each kind that must strike: one, or as many as the kind says (`npm run test:fault`). */
const most = Number(process.env.CDSYNC_TEST_FAULTS ?? 1);
const isShort = process.env.CDSYNC_TEST_FAULTS === undefined;
const laneCount = Number(process.env.CDSYNC_TEST_LANES ?? 2);
/** Only kinds and faults whose names contain these words: to try one of them again. */
const only = { kind: process.env.CDSYNC_TEST_KIND ?? '', fault: process.env.CDSYNC_TEST_FAULT ?? '' };
const chosen = faultKinds.filter(({ name }) => name.includes(only.kind));

let folder: string;
let baseline: Baseline;
const lanes: Lane[] = [];
const tallies: Tally[] = [];
/** This many faults of all kinds are tried at the same time; each takes a lane. */
const sideBySide = pLimit(laneCount);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-faults-'));
  const others = sample(situations.slice(2), isShort ? 1 : situations.length, randomFrom(seed));
  baseline = await Baseline.prepare(folder, ['first', 'daily', ...others]);
  for (let count = 0; count < laneCount; count += 1) lanes.push(await baseline.openLane());
}, 900_000);

afterAll(async () => {
  console.info(`\n${tallyLines(tallies, seed).join('\n')}\n`);
  for (const lane of lanes) await lane.close();
  await rm(folder, { recursive: true, force: true });
});

async function tryOn(lane: Lane, fault: Fault, random: Random, tally: Tally): Promise<void> {
  const began = performance.now();
  try {
    if (await tryFault(baseline, lane, fault, random)) tally.survived += 1;
    else tally.missed += 1;
  } catch (error) {
    const message = `${fault.name}: ${error instanceof Broken ? error.message : (error as Error).stack}`;
    // Print it at once: the suite may take an hour, and be stopped.
    console.error(message);
    tally.broken.push(message);
  }
  tally.seconds += (performance.now() - began) / 1000;
}

/** Tries faults of a kind until as many as wanted have struck. */
async function tryAll(kind: FaultKind, tally: Tally): Promise<void> {
  const random = randomFrom(seed);
  const all = kind
    .faults(baseline.steps)
    .filter(({ name, situation }) => name.includes(only.fault) && baseline.knows(situation));
  const left = sample(all, all.length, random).map((fault) => ({ fault, seed: random() * 2 ** 31 }));
  const isEnough = () => tally.survived + tally.broken.length >= Math.min(most, kind.most);
  const tryNext = async () => {
    const next = isEnough() ? undefined : left.pop();
    if (next === undefined) return false;
    const lane = lanes.pop();
    if (lane === undefined) throw new Error('more faults side by side than lanes');
    await tryOn(lane, next.fault, randomFrom(next.seed), tally);
    lanes.push(lane);
    return true;
  };
  const work = async () => {
    while (await sideBySide(tryNext));
  };
  await Promise.all(Array.from({ length: Math.min(most, laneCount) }, work));
}

describe.concurrent('a fault breaks nothing', () => {
  it.for(chosen)('$name', { timeout: 4 * 3_600_000 }, async (kind, context) => {
    const tally = emptyTally(kind.name);
    tallies.push(tally);
    tally.lacks = await kind.lacks?.();
    if (tally.lacks !== undefined) return context.skip(`NOT TRIED: ${tally.lacks}`);
    await tryAll(kind, tally);
    console.info(tallyLine(tally));
    expect(tally.broken, `seed ${seed}`).toEqual([]);
    expect(tally.survived).toBeGreaterThan(0);
  });
});

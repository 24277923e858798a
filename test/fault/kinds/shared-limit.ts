import type { ChildProcess } from 'node:child_process';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ended } from '../../fixtures/workspace.js';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Random } from '../random.js';
import { type Situation, situations } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

/** Requests a second: few enough that two runs are in each other's way for some seconds. */
const profileLimit = 8;
const second = { name: 'second', storage: './second' };

const blows = {
  'kill -9 of the first': async (first: ChildProcess) => void first.kill('SIGKILL'),
  'kill -9 of the second': async (_: ChildProcess, other: ChildProcess) => void other.kill('SIGKILL'),
  'the first pauses': async (first: ChildProcess, _: ChildProcess, random: Random) => {
    first.kill('SIGSTOP');
    await wait(300 + random() * 3000);
    first.kill('SIGCONT');
  },
  'nothing else': async () => undefined,
} as const;

/** Counts of the service: 429s, and the most requests in any second. */
async function counts(lane: Lane): Promise<{ throttled: number; peak: number }> {
  const stats = (await (await lane.askControl('stats')).json()) as {
    throttled: number;
    peak_per_second: Record<string, { profile?: number }>;
  };
  return {
    throttled: stats.throttled,
    peak: Math.max(...Object.values(stats.peak_per_second).map(({ profile = 0 }) => profile)),
  };
}

/** Other faults give the folder where processes meet to another user; then they do not share. */
async function meetAnew(lane: Lane): Promise<void> {
  const folder = join(lane.folder, 'tmp');
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
}

function together(situation: Situation, blow: keyof typeof blows, number: number): Fault {
  return {
    name: `${situation}: ${blow} (${number})`,
    situation,
    strike: async (lane, random) => {
      await meetAnew(lane);
      await lane.startService('after', profileLimit);
      const hasRules = situation === 'rules';
      await lane.configure({ hasRules, profileLimit });
      await lane.configure({ hasRules, profileLimit, ...second });
      const first = await lane.start();
      const firstEnd = ended(first);
      await wait(random() * 1500);
      const other = await lane.start({ name: second.name });
      const otherEnd = ended(other);
      await Promise.race([wait(1500 + random() * 1500), firstEnd, otherEnd]);
      await blows[blow](first, other, random);
      const ends = [expectEnding(await firstEnd), expectEnding(await otherEnd)];
      for (const { code, stdout } of ends)
        if (code !== 0 && code !== null) throw new Broken(`beside another run, one ended with ${code}: ${stdout}`);
      const { throttled, peak } = await counts(lane);
      if (throttled > 0 || peak > profileLimit)
        throw new Broken(`${peak} requests in a second, of ${profileLimit}, and ${throttled} 429s`);
      await lane.configure({ hasRules });
      return true;
    },
    leave: async (lane) => {
      for (const name of ['second', 'second.json']) await rm(join(lane.folder, name), { recursive: true, force: true });
    },
  };
}

/** Two jobs of one tenant at once: together they keep within its limit, also when one of them dies. */
export const sharedLimit: FaultKind = {
  name: 'two processes at one limit',
  lacks: async () => (process.platform === 'win32' ? 'SIGSTOP' : undefined),
  faults: () =>
    (Object.keys(blows) as (keyof typeof blows)[]).flatMap((blow) =>
      situations.flatMap((situation) => [1, 2, 3].map((number) => together(situation, blow, number))),
    ),
  most: 40,
};

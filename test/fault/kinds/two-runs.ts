import { setTimeout as wait } from 'node:timers/promises';
import { ended } from '../../fixtures/workspace.js';
import type { CalmSteps, Ending, Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

/** Waits until the run has stopped at its step, or has ended without it. */
async function stopped(lane: Lane, end: Promise<unknown>): Promise<void> {
  const over = end.then(() => true);
  while (!(await lane.struck()) && !(await Promise.race([over, wait(20).then(() => false)])));
  await wait(50);
}

/** Whether a run has read and committed everything, and says of each destination that another run is loading it. */
function saysThatFirstDelivers({ code, stdout }: Ending): boolean {
  if (code !== 5) return false;
  const [job] = JSON.parse(stdout).jobs as {
    streams: { status: string }[];
    destinations: { status: string; error: { code: string } | null }[];
  }[];
  if (job === undefined || job.streams.some(({ status }) => status !== 'ok')) return false;
  return job.destinations.every(({ status, error }) => status === 'skipped' && error?.code === 'locked');
}

/** Starts a second run while the first one pauses at a step. */
function secondRunAt(situation: Situation, at: string): Fault {
  return {
    name: `${situation}: ${at}`,
    situation,
    strike: async (lane) => {
      const first = await lane.start({ strike: { at, when: 'before', action: 'pause' } });
      const end = ended(first);
      await stopped(lane, end);
      const struck = await lane.struck();
      const second = expectEnding(await lane.command(['run', 'cdsync.json', '--json', '--quiet']));
      first.kill('SIGCONT');
      const { code } = expectEnding(await end);
      const codes = `${code} and ${second.code}`;
      if (code !== 0 && code !== 75) throw new Broken(`of two runs, the paused one failed: they ended with ${codes}`);
      if (second.code !== 0 && second.code !== 75 && !saysThatFirstDelivers(second))
        throw new Broken(`of two runs, the second ended with ${second.code}`);
      if (code === 75 && second.code === 75) throw new Broken('of two runs, both found the lock taken');
      return struck;
    },
  };
}

function together(count: number, number: number): Fault {
  return {
    name: `${count} at once (${number})`,
    situation: 'daily',
    strike: async (lane) => {
      const codes = await Promise.all(Array.from({ length: count }, async () => expectEnding(await lane.run()).code));
      if (!codes.includes(0) || codes.some((code) => code !== 0 && code !== 75))
        throw new Broken(`runs that began together ended with ${codes.join(', ')}`);
      return true;
    },
  };
}

function pairsOf(steps: CalmSteps): Fault[] {
  const still = [...steps].flatMap(([situation, names]) => names.map((at) => secondRunAt(situation, at)));
  return [...still, ...Array.from({ length: 20 }, (_, number) => together(2 + (number % 3), number))];
}

/** Two runs of one job: one does everything, the other says who has the lock. */
export const twoRuns: FaultKind = {
  name: 'two runs at once',
  lacks: async () => (process.platform === 'win32' ? 'SIGSTOP' : undefined),
  faults: pairsOf,
  most: 60,
};

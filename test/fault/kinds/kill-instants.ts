import { setTimeout as wait } from 'node:timers/promises';
import { ended } from '../../fixtures/workspace.js';
import { slowReading } from '../baseline.js';
import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Random } from '../random.js';
import { situations } from '../situations.js';
import { killedBy } from './kill-steps.js';

/** About the time that a run takes; a run that ended sooner was not struck. */
const runMs = 2000;

async function killAtInstant(lane: Lane, random: Random): Promise<boolean> {
  const child = await lane.start();
  const result = ended(child);
  await Promise.race([wait(200 + random() * runMs), result]);
  child.kill('SIGKILL');
  return (await result).code === null;
}

function randomKills(): Fault[] {
  return Array.from({ length: 200 }, (_, number) => {
    const situation = situations[number % situations.length] ?? 'daily';
    const isSlow = number % 3 === 0;
    return {
      name: `${situation}${isSlow ? ', slow service' : ''} (${number})`,
      situation,
      strike: async (lane, random) => {
        if (isSlow) await lane.control('faults', slowReading);
        return killAtInstant(lane, random);
      },
    };
  });
}

/** kill -9 at any moment. */
export const killInstants: FaultKind = { name: 'kill -9 at a random instant', faults: randomKills, most: 80 };

function repeatedKills(steps: CalmSteps): Fault[] {
  const daily = steps.get('daily') ?? [];
  const [reading, repair] = [steps.get('reading') ?? daily, steps.get('repair') ?? daily];
  return daily.map((first, number) => {
    const [second, third] = [reading[(number * 7) % reading.length] ?? '', repair[(number * 13) % repair.length] ?? ''];
    return {
      name: `${first}, then ${second}, then ${third}`,
      situation: 'daily',
      strike: async (lane) => {
        const struck: boolean[] = [];
        for (const at of [first, second, third])
          struck.push(await killedBy(lane, { at, when: 'before', action: 'kill' }));
        return struck.filter(Boolean).length > 1;
      },
    };
  });
}

/** Kills a run, then the run that resumes it, then the one after that. */
export const killAgain: FaultKind = { name: 'kill -9 of the run that resumes', faults: repeatedKills, most: 60 };

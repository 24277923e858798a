import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';
import type { Strike } from '../strike.js';

/** Steps that take a while, or that others can see: a kill during or right after them differs from one before. */
const worthMore = /^(sql (COPY|COMMIT|ATTACH|DETACH)|rename|copyFile|appendFile|symlink|rm|write) /;

/** Starts a run that `strike` kills at a step. @returns whether it was killed there */
export async function killedBy(lane: Lane, strike: Strike): Promise<boolean> {
  const { code } = await lane.run({ strike });
  return code === null && (await lane.struck());
}

function killAt(situation: Situation, at: string, when: Strike['when']): Fault {
  return {
    name: `${situation}: ${when} ${at}`,
    situation,
    strike: (lane, random) => killedBy(lane, { at, when, action: 'kill', delayMs: random() * 12 }),
  };
}

function killsOf(steps: CalmSteps): Fault[] {
  return [...steps].flatMap(([situation, names]) =>
    names.flatMap((at) => [
      killAt(situation, at, 'before'),
      ...(worthMore.test(at) ? [killAt(situation, at, 'in'), killAt(situation, at, 'after')] : []),
    ]),
  );
}

/** kill -9 before each step by which a run writes; during and after the most important ones too. */
export const killSteps: FaultKind = { name: 'kill -9 at a step', faults: killsOf, most: 700 };

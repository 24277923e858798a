import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import { Broken, expectEnding } from '../judge.js';
import type { Situation } from '../situations.js';

function terminate(situation: Situation, at: string): Fault {
  return {
    name: `${situation}: SIGTERM ${at}`,
    situation,
    strike: async (lane) => {
      const { code } = expectEnding(await lane.run({ strike: { at, when: 'before', action: 'terminate' } }));
      if (code !== 0 && code !== 130 && code !== null) throw new Broken(`SIGTERM made the run end with ${code}`);
      return lane.struck();
    },
  };
}

/** The second signal ends the process at once, so there may be no document. */
function terminateTwice(situation: Situation, at: string): Fault {
  return {
    name: `${situation}: SIGTERM twice ${at}`,
    situation,
    strike: async (lane) => {
      const { code } = await lane.run({ strike: { at, when: 'before', action: 'terminate twice' } });
      if (code !== 0 && code !== 130 && code !== null) throw new Broken(`SIGTERM made the run end with ${code}`);
      return lane.struck();
    },
  };
}

function signalsOf(steps: CalmSteps): Fault[] {
  return [...steps].flatMap(([situation, names]) =>
    names.map((at, index) => (index % 4 === 0 ? terminateTwice(situation, at) : terminate(situation, at))),
  );
}

/** SIGTERM at each step. */
export const signals: FaultKind = { name: 'SIGTERM at a step', faults: signalsOf, most: 130 };

import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import { expectEnding } from '../judge.js';

const errors = ['ENOSPC', 'ENOSPC lasting', 'EIO', 'EACCES', 'EMFILE', 'EIO lasting'];

/** DuckDB's own writes fail in the kinds that fill a real disk; here it is the steps of our own code. */
function failuresOf(steps: CalmSteps): Fault[] {
  return [...steps].flatMap(([situation, names]) =>
    names
      .filter((at) => !at.startsWith('sql '))
      .map((at, index): Fault => {
        const error = errors[index % errors.length] ?? 'EIO';
        return {
          name: `${situation}: ${error} ${at}`,
          situation,
          strike: async (lane) => {
            expectEnding(await lane.run({ strike: { at, when: 'before', action: `error ${error}` } }));
            return lane.struck();
          },
        };
      }),
  );
}

/** A step of ours is answered with an error in its place, by the preload: no file system gives them one by one. */
export const failingSteps: FaultKind = {
  name: 'a step fails (errors put in its place)',
  faults: failuresOf,
  most: 150,
};

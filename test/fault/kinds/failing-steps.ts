import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import { expectEnding } from '../try-fault.js';

const errors = ['ENOSPC', 'ENOSPC lasting', 'EIO', 'EACCES', 'EMFILE', 'EIO lasting'];

/** Only steps of cdsync's own code fail here; the kinds that fill a real disk make DuckDB's writes fail. */
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

/** The preload makes a step of cdsync fail: no real file system can fail single steps. */
export const failingSteps: FaultKind = {
  name: 'a step fails (errors put in its place)',
  faults: failuresOf,
  most: 150,
};

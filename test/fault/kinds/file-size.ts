import type { Fault, FaultKind } from '../fault.js';
import type { Situation } from '../situations.js';
import { Broken, expectEnding, otherErrors } from '../try-fault.js';

function limited(situation: Situation, kib: number): Fault {
  return {
    name: `${situation}: ulimit -f ${kib}`,
    situation,
    strike: async (lane) => {
      const wrap = (command: readonly string[]) => ['bash', '-c', `ulimit -f ${kib}; exec "$@"`, 'bash', ...command];
      const ending = expectEnding(await lane.run({ wrap }));
      if (ending.code === 0) return false;
      const others = otherErrors(ending, ['disk_full', 'destination_refused']);
      if (others.length > 0) throw new Broken(`a file size limit was reported as ${others.join(', ')}`);
      return true;
    },
  };
}

function limits(): number[] {
  const found: number[] = [];
  for (let kib = 0; kib < 16_384; kib += kib < 256 ? 16 : kib < 2048 ? 128 : 512) found.push(kib);
  return found;
}

/** No file may grow beyond a size: EFBIG, from the kernel. */
export const fileSize: FaultKind = {
  name: 'files may not grow (EFBIG)',
  lacks: async () => (process.platform === 'win32' ? 'ulimit' : undefined),
  faults: () => limits().flatMap((kib) => (['daily', 'first', 'repair'] as const).map((each) => limited(each, kib))),
  most: 50,
};

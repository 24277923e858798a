import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

const [second, hour, day] = [1000, 3_600_000, 86_400_000];
const jumps: Readonly<Record<string, number>> = {
  'an hour back': -hour,
  'a day back': -day,
  '400 days back': -400 * day,
  'a second back': -second,
  'a day on': day,
  'five seconds on': 5 * second,
};

async function runWell(lane: Lane, at: string, byMs: number): Promise<boolean> {
  const { code, stderr } = expectEnding(await lane.run({ strike: { at, when: 'before', action: `clock ${byMs}` } }));
  if (code !== 0) throw new Broken(`a clock that jumps made the run end with ${code}: ${stderr}`);
  return lane.struck();
}

/** The clock jumps during a run. */
function inRun(steps: CalmSteps): Fault[] {
  const names = Object.keys(jumps);
  return [...steps].flatMap(([situation, all]) =>
    all.map((at, index): Fault => {
      const name = names[index % names.length] ?? 'a day back';
      return {
        name: `${situation}: ${name} ${at}`,
        situation,
        strike: (lane) => runWell(lane, at, jumps[name] ?? 0),
      };
    }),
  );
}

/** The clock jumps between two runs that both read changes: by the clock, the second may come before the first. */
function betweenRuns(): Fault[] {
  return Object.entries(jumps).map(([name, byMs]) => ({
    name: `between runs: ${name}`,
    situation: 'first',
    moves: true,
    strike: async (lane) => {
      await lane.startService('before');
      return runWell(lane, 'mkdir daily #1', -byMs);
    },
  }));
}

/** The service's clock differs from ours. */
function ofService(): Fault[] {
  return Object.entries(jumps).flatMap(([name, byMs]) =>
    (['daily', 'reading', 'first'] as const satisfies Situation[]).map((situation) => ({
      name: `the service's, ${situation}: ${name}`,
      situation,
      strike: async (lane) => {
        await lane.control('time', { advance_ms: byMs });
        expectEnding(await lane.run());
        return true;
      },
    })),
  );
}

/** The time of day jumps: in a run, between two runs, and at the service. */
export const clock: FaultKind = {
  name: 'a clock that jumps',
  faults: (steps) => [...betweenRuns(), ...ofService(), ...inRun(steps)],
  most: 80,
};

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunReport } from '../../../src/core/run-report.js';
import type { CalmSteps, Fault, FaultKind } from '../fault.js';
import { jobFacts, reportProblems } from '../held-report.js';
import type { Lane } from '../lane.js';
import { job, type Situation, streamNames } from '../situations.js';
import type { Strike } from '../strike.js';
import { Broken, expectEnding } from '../try-fault.js';

const signalNames = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

function propertiesOf(lane: Lane) {
  return jobFacts(lane.jobFolder, { job, streams: streamNames, destination: lane.destination });
}

/** A run that was stopped keeps its report beside its snapshots, and, before its commit, the records that it has read. */
async function expectKept(lane: Lane, { status, jobs: [report] }: RunReport): Promise<void> {
  if (report === undefined) return;
  const kept = await readFile(join(lane.jobFolder, 'reports', `${report.run_id}.json`), 'utf8').catch(() => '{}');
  const known = (JSON.parse(kept) as Partial<RunReport>).jobs?.[0];
  if (JSON.stringify(known) !== JSON.stringify(report))
    throw new Broken(`the kept report says ${kept}, the printed one ${JSON.stringify(report)}`);
  if (status !== 'interrupted' || report.streams.some((stream) => stream.status === 'ok')) return;
  const folder = join(lane.jobFolder, '.cdsync', 'runs', report.run_id);
  if ((await stat(folder).catch(() => undefined)) === undefined)
    throw new Broken('the records that were read are missing');
}

/** One signal: the report of the run agrees with its files. */
function once(situation: Situation, at: string, when: Strike['when'], signal: string): Fault {
  return {
    name: `${situation}: ${signal} ${when} ${at}`,
    situation,
    strike: async (lane, random) => {
      const before = await propertiesOf(lane);
      const action = `signal ${signal}`;
      const ended = expectEnding(await lane.run({ strike: { at, when, action, delayMs: random() * 12 } }));
      const { code, stdout } = ended;
      const struck = await lane.struck();
      if (code !== 130 && code !== 0) throw new Broken(`${signal} made the run end with ${code}: ${stdout}`);
      const report = JSON.parse(stdout) as RunReport;
      if ((report.status === 'interrupted') !== (code === 130)) throw new Broken(`${code} and ${report.status}`);
      const problems = reportProblems(report, before, await propertiesOf(lane));
      if (problems.length > 0) throw new Broken(`${problems.join('; ')}: ${stdout}`);
      await expectKept(lane, report);
      return struck;
    },
  };
}

/** The second signal ends the process at once, so there may be no document. */
function twice(situation: Situation, at: string, signal: string): Fault {
  return {
    name: `${situation}: ${signal} twice ${at}`,
    situation,
    strike: async (lane) => {
      const { code } = await lane.run({ strike: { at, when: 'before', action: `signal ${signal} twice` } });
      if (code !== 0 && code !== 130) throw new Broken(`${signal} twice made the run end with ${code}`);
      return lane.struck();
    },
  };
}

function signalsOf(steps: CalmSteps): Fault[] {
  return [...steps].flatMap(([situation, names]) =>
    names.flatMap((at, index) => [
      ...signalNames.flatMap((signal) => (['before', 'in'] as const).map((when) => once(situation, at, when, signal))),
      ...(index % 4 === 0 ? [twice(situation, at, signalNames[index % signalNames.length] as string)] : []),
    ]),
  );
}

/** SIGTERM, SIGINT and SIGHUP at each step, with the report compared with the files. */
export const signals: FaultKind = { name: 'signals at a step', faults: signalsOf, most: 300 };

import { formatCount } from '../../../src/core/quantities.js';
import type { Usage } from '../process.js';
import { machine, median } from '../table.js';
import { type Phase, phases, type Result } from './comparison.js';

type Measured = Exclude<Result, { missing: string }>;

function medians(usages: readonly Usage[]) {
  const of = (value: (usage: Usage) => number) => median(usages.map(value));
  return { wall: of((each) => each.wallSeconds), cpu: of((each) => each.cpuSeconds), peak: of((each) => each.peakMb) };
}

function cell({ usages, laterRuns }: Measured, phase: Phase): string {
  if (usages[phase].length === 0)
    return laterRuns === 'same' ? 'the first run again' : 'all is read again: not measured apart';
  const { wall, cpu, peak } = medians(usages[phase]);
  return `${wall.toFixed(1)} s / ${cpu.toFixed(1)} s / ${Math.round(peak)} MB`;
}

/** The usages that count for a phase. If it was not measured, it costs as much as the phase before it. */
function unchanged({ usages }: Measured, phase: Phase): readonly Usage[] {
  const last = phases.slice(0, phases.indexOf(phase) + 1).findLast((each) => usages[each].length > 0);
  return usages[last ?? 'first'];
}

function times(peer: Measured, ours: Measured): string {
  const parts = phases.map((phase) => {
    const [theirs, own] = [medians(unchanged(peer, phase)), medians(unchanged(ours, phase))];
    return `${(theirs.wall / own.wall).toFixed(1)} / ${(theirs.cpu / own.cpu).toFixed(1)} / ${(theirs.peak / own.peak).toFixed(1)}`;
  });
  return `| ${peer.name} | ${parts.join(' | ')} |`;
}

/** A line for each program whose later runs differ from its first run, as the README has them. */
function inShort(result: Measured): string {
  const [first, run, changed] = phases.map((phase) => {
    const { wall, cpu } = medians(unchanged(result, phase));
    return `${wall.toFixed(1)} s (${cpu.toFixed(1)} CPU s)`;
  });
  const runs =
    result.laterRuns === 'all'
      ? `a later run with nothing changed ${run}, with 1.3 % changed ${changed}`
      : `each later run ${run}, as it reads all again`;
  return `- ${result.name}: first run ${first}, ${runs}`;
}

/** The comparison as Markdown: the usage of each program, and its ratio to the usage of cdsync. */
export function peersTable(
  results: readonly Result[],
  { profiles, pageSize, rounds, date }: { profiles: number; pageSize: number; rounds: number; date: Date },
): string {
  const measured = results.filter((result): result is Measured => 'usages' in result);
  const ours = measured.find(({ name }) => name === 'cdsync');
  const head = '| program | first run | later run, nothing changed | later run, a day of changes (1.3 %) |';
  const rows = results.map((result) =>
    'missing' in result
      ? `| ${result.name} | not run: ${result.missing} | | |`
      : `| ${result.name} | ${phases.map((phase) => cell(result, phase)).join(' | ')} |`,
  );
  const against = ours === undefined ? [] : measured.filter((peer) => peer !== ours).map((peer) => times(peer, ours));
  return [
    `${formatCount(profiles)} profiles in pages of ${pageSize}, ${date.toISOString().slice(0, 10)}, medians of ${rounds} in turn. Machine: ${machine()}.`,
    '',
    'Wall time / CPU time / peak memory, of all processes of the program:',
    '',
    head,
    '|---|---|---|---|',
    ...rows,
    '',
    'The same, as multiples of cdsync. The cost of reading all again counts for each later run:',
    '',
    head,
    '|---|---|---|---|',
    ...against,
    '',
    'In short:',
    '',
    ...measured.filter(({ laterRuns }) => laterRuns !== 'same').map(inShort),
    '',
  ].join('\n');
}

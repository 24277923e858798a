import { formatBytes, formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { JobPlan, PlannedStream } from '../engine/plan/job-plan.js';
import { table } from './table.js';

const unknown = '?';

function counted(count: number | null): string {
  return count === null ? unknown : formatCount(count);
}

function how({ reads, chains, needs }: PlannedStream): string {
  if (reads === 'query') return `query over ${needs.join(', ') || 'files'}`;
  if (reads === 'list') return 'one list';
  if (reads === null) return '?';
  return `${counted(chains)} ${chains === 1 ? reads.slice(0, -1) : reads}`;
}

function cells(stream: PlannedStream): string[] {
  const { name, error, records, snapshot_rows, pages, requests, seconds } = stream;
  if (error !== null) return [name, 'cannot be read', ...Array(5).fill('-')];
  const time = seconds === null ? unknown : formatDuration(seconds * 1000);
  return [
    name,
    how(stream),
    counted(records),
    snapshot_rows === null ? '-' : formatCount(snapshot_rows),
    stream.reads === 'query' ? '-' : counted(pages),
    stream.source === 'sql' ? '-' : counted(requests),
    stream.reads === 'query' ? '-' : time,
  ];
}

function share(part: number, whole: number): string {
  return whole === 0 ? '0%' : `${Number(((part / whole) * 100).toFixed(1))}%`;
}

function sampleTable(streams: readonly PlannedStream[], lineWidth: number | undefined): string[] {
  const rows = streams.flatMap(({ name, sample }) => {
    if (sample === null || sample.records + sample.rejected === 0) return [];
    const { records, unchanged } = sample;
    const kinds = (['new', 'changed', 'unchanged'] as const).map((kind) => share(sample[kind] ?? 0, records));
    return [[name, formatCount(records), ...(unchanged === null ? ['first snapshot', '', ''] : kinds)]];
  });
  if (rows.length === 0) return [];
  const header = ['by sample', 'records', 'new', 'changed', 'unchanged'];
  return [
    '',
    ...table(header, rows, lineWidth),
    'a sample is a page or two from the beginning; it cannot show deletes',
  ];
}

function sampleLines({ name, sample }: PlannedStream): string[] {
  if (sample === null) return [];
  const { rejected, columns_added, columns_widened } = sample;
  const lines: string[] = [];
  if (rejected > 0) lines.push(`${name}: ${formatCounted(rejected, 'record')} of the sample could not be kept`);
  for (const { column, type } of columns_added) lines.push(`${name}: new column ${column} ${type}`);
  for (const { column, from, to } of columns_widened)
    lines.push(`${name}: column ${column} widens from ${from} to ${to}`);
  return lines;
}

/** `members: partitioned by country, 24 chains of pages`. */
function splitLines({ name, split }: PlannedStream): string[] {
  if (split === null) return [];
  const parts = `partitioned by ${split.by.join(' and ')}, ${formatCounted(split.chains, 'chain')} of pages`;
  return [split.used ? `${name}: ${parts}` : `${name}: set \`partition_by: auto\` to read it ${parts}`];
}

function stateLines({ name, resumes, held, error }: PlannedStream): string[] {
  const lines: string[] = [];
  if (error !== null) {
    lines.push(`${name}: ${error.message} [${error.code}]`);
    if (error.hint !== null) lines.push(`  ${error.hint}`);
  }
  if (resumes !== null) {
    const { run_id, records, pages } = resumes;
    lines.push(
      `${name}: resumes run ${run_id}, which has read ${formatCounted(records, 'record')} in ${formatCounted(pages, 'page')}`,
    );
  }
  if (held !== null) {
    const guards = held.findings.map(({ guard }) => guard).join(', ');
    lines.push(`${name}: run ${held.run_id} is held (${guards}); the next run supersedes it`);
  }
  return lines;
}

function diskLines({ need, free, short }: JobPlan['disk']): string[] {
  const parts = [
    `staging files ${formatBytes(need.staging)}`,
    `new files ${formatBytes(need.parts)}`,
    `growth of the store ${formatBytes(need.store)}`,
    `published copy ${formatBytes(need.published)}`,
  ];
  const lines = [
    `disk: about ${formatBytes(need.total)} at the peak (${parts.join(', ')}); ${formatBytes(free)} are free`,
  ];
  if (short === 'no') return lines;
  const what = short === 'refused' ? 'too little: a run would be refused [disk_short]' : 'this may be too little';
  return [...lines, `  ${what}; free some space, or keep less (\`keep\`)`];
}

function workflowLines({ workflows }: JobPlan): string[] {
  return workflows.map(({ config_id, would_start, deadline_ms }) =>
    would_start
      ? `workflow ${config_id} would be started first, for ${formatDuration(deadline_ms)} at most`
      : `workflow ${config_id} would not be started again: the run would resume one that was cut short`,
  );
}

const groupNames = { profile: 'Profile API', management: 'Management API', realtime: 'Real-time API' };

function budgetLine(budget: JobPlan['budgets'][number]): string {
  const { group, limit, other_processes: others, requests, seconds } = budget;
  const shared = others === 0 ? '' : ` (shared with ${others === 1 ? '1 other process' : `${others} other processes`})`;
  const name = groupNames[group];
  const time = formatDuration(seconds * 1000);
  return `${name}: ${formatCounted(requests, 'request')} at ${formatCount(limit)} a second${shared}: ${time} at least`;
}

/** A plan, for people. @param width of the terminal; undefined without one */
export function planLines(plan: JobPlan, width?: number): string[] {
  const lineWidth = width && width - 2;
  const { job, sequence, running, streams, budgets, requests, seconds, disk, notes } = plan;
  const header = ['stream', 'reads', 'records', 'last snapshot', 'pages', 'requests', 'time'];
  const busy =
    running === null
      ? []
      : [
          `run ${running.run_id ?? '(starting)'} is under way, process ${running.pid} on ${running.host}: another would exit with 75`,
        ];
  const limits = budgets.map(budgetLine);
  const about = streams.flatMap((stream) => [...stateLines(stream), ...splitLines(stream), ...sampleLines(stream)]);
  return [
    `job ${job}: ${sequence === null ? 'no snapshot yet' : `snapshot ${sequence}`}`,
    ...busy.map((line) => `  ${line}`),
    '',
    ...table(header, streams.map(cells), lineWidth).map((line) => `  ${line}`),
    ...sampleTable(streams, lineWidth).map((line) => (line === '' ? '' : `  ${line}`)),
    '',
    ...(about.length === 0 ? [] : [...about.map((line) => `  ${line}`), '']),
    ...workflowLines(plan).map((line) => `  ${line}`),
    ...limits.map((line) => `  ${line}`),
    `  about ${formatCounted(requests, 'request')}, ${formatDuration(seconds * 1000)} of reading`,
    ...diskLines(disk).map((line) => `  ${line}`),
    ...notes.map((note) => `  ${note}`),
    '  nothing was written',
  ];
}

/** The next step after a plan of a run that would fail. */
export function nextAfterPlan({ streams }: Pick<JobPlan, 'streams'>): string {
  const isUnreadable = streams.some(({ error }) => error !== null);
  return isUnreadable ? 'correct it, then: cdsync check' : 'free space, or keep less, then: cdsync plan';
}

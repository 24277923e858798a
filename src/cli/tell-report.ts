import type { JobReport, RunReport } from '../core/run.js';
import type { Output } from './output.js';
import type { JobWork, Verdict } from './work-on-jobs.js';

/** The codes of what failed. A stream that needs another one has failed for the reason of that one. */
function causesOf({ streams, destinations }: JobReport): string[] {
  const codes = [...streams, ...destinations].flatMap(({ error }) => (error === null ? [] : [error.code]));
  return codes.filter((code) => code !== 'dependency');
}

/** The exit code of a finished run (contract: exit codes; the first that applies). */
export function exitCodeOfRun(report: JobReport): number {
  const { status } = report;
  if (status === 'interrupted') return 130;
  if (status === 'partial') return 5;
  if (status === 'held') return 3;
  if (status !== 'failed') return 0;
  const causes = causesOf(report);
  return causes.length > 0 && causes.every((code) => authCodes.has(code)) ? 4 : 1;
}

const authCodes = new Set([
  'unauthorized',
  'forbidden',
  'oauth_failed',
  'token_unusable',
  'destination_login',
  'destination_permission',
]);

/** Shows what a run or a delivery did. @returns what follows from it */
async function tellReport(report: JobReport, output: Output): Promise<Verdict> {
  const { summarize } = await import('../report/summary.js');
  for (const line of summarize(report)) output.advice(line);
  if ((process.env.GITHUB_STEP_SUMMARY ?? '') !== '')
    await (await import('./step-summary.js')).writeStepSummary(report, output);
  const code = exitCodeOfRun(report);
  const { streams, destinations, job: _, ...facts } = report;
  for (const { name, ...of } of streams) {
    output.event('stream_finished', { stream: name, ...of }, of.error === null ? 'info' : 'error');
  }
  for (const { name, ...of } of destinations) {
    output.event('destination_finished', { destination: name, ...of }, of.error === null ? 'info' : 'error');
  }
  output.event('run_finished', { ...facts, exit_code: code }, code === 0 ? 'info' : 'error');
  const undelivered = destinations.some(
    ({ status, error }) => status === 'failed' || status === 'partial' || error?.code === 'interrupted',
  );
  const hasDone = [...streams, ...destinations].some(({ status }) => status === 'ok' || status === 'partial');
  const heldStream = streams.find(({ status }) => status === 'held')?.name;
  const causes = new Set(causesOf(report));
  const [errorCode] = causes.size === 1 ? causes : [];
  return { code, errorCode, held: report.run_id, heldStream, undelivered, hasDone };
}

/** The parts of a command that ends with a report. */
export function reporting(output: Output): Pick<JobWork<JobReport>, 'tell' | 'document'> {
  return {
    tell: (report) => tellReport(report, output),
    document: (report): RunReport => ({ status: report.status, jobs: [report], error: null }),
  };
}

import type { JobReport, RunReport } from '../core/run.js';
import type { JobArguments } from './load.js';
import type { Output } from './output.js';

/** The exit code of a finished run (contract: exit codes; the first that applies). */
export function exitCodeOfRun({ status, streams, destinations }: JobReport): number {
  if (status === 'interrupted') return 130;
  if (status === 'partial') return 5;
  if (status === 'held') return 3;
  if (status !== 'failed') return 0;
  const codes = [...streams, ...destinations].flatMap(({ error }) => (error === null ? [] : [error.code]));
  // A stream that needs another one has failed for the reason of that one.
  const causes = codes.filter((code) => code !== 'dependency');
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

/** Writes what a run or a delivery did. @returns the exit code of the process */
export async function tellReport(
  report: JobReport,
  args: JobArguments,
  output: Output,
  storage: string,
): Promise<number> {
  const { summarize } = await import('../report/summary.js');
  const { nextStep } = await import('./next-step.js');
  const document: RunReport = { status: report.status, jobs: [report], error: null };
  output.document(document);
  for (const line of summarize(report)) output.result(line);
  const code = exitCodeOfRun(report);
  const { streams, destinations, job, ...facts } = report;
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
  if (code !== 0)
    output.last(await nextStep({ code, storage, job, config: args.config, held: report.run_id, undelivered }));
  return code;
}

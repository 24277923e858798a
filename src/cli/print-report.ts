import { appendFile } from 'node:fs/promises';
import { errorType } from '../core/error-codes.js';
import { decisiveFailure, failuresOf, mayRetry } from '../core/failures.js';
import { formatNames } from '../core/quantities.js';
import type { JobReport, RunReport } from '../core/run-report.js';
import { errorWithoutKeys } from '../notify/result.js';
import type { CommandResult, JobCommand } from './for-each-job.js';
import type { Output } from './output.js';
import { terminalWidth } from './standard-streams.js';

/** The most names in the last line. */
const maxNames = 10;

type Ended = JobReport['streams'][number] | JobReport['destinations'][number];

/** The codes of what failed. A stream that needs another one has failed for the reason of that one. */
function causesOf(ended: readonly Ended[]): string[] {
  const codes = ended.flatMap(({ error }) => (error === null ? [] : [error.code]));
  return codes.filter((code) => code !== 'dependency');
}

/** The exit code of a finished run (contract: exit codes; the first that applies). */
export function exitCodeOfRun(report: JobReport): number {
  const { status } = report;
  if (status === 'interrupted') return 130;
  if (status === 'partial') return 5;
  if (status === 'held') return 3;
  if (status !== 'failed') return 0;
  const tried = report.destinations.filter((destination) => destination.status !== 'not_tried');
  const causes = causesOf([...report.streams, ...tried]);
  return causes.length > 0 && causes.every((code) => errorType(code).kind === 'auth') ? 4 : 1;
}

/** Shows a run or a delivery. @returns what follows from it */
async function printReport(report: JobReport, output: Output, isAlone: boolean): Promise<CommandResult> {
  const { summarize } = await import('../output/summary.js');
  const code = exitCodeOfRun(report);
  // Standard error is mailed: it has no key of a record.
  const shown = {
    ...report,
    streams: report.streams.map((stream) => ({ ...stream, error: errorWithoutKeys(stream) })),
  };
  const failures = failuresOf(shown);
  const decisive = decisiveFailure(failures);
  const heldStream = report.streams.find(({ status }) => status === 'held')?.name;
  // Of this stream, the last line says what to do.
  const withoutHint = code === 3 && isAlone ? heldStream : undefined;
  for (const line of summarize(report, { width: terminalWidth(), withoutHint })) output.advice(line);
  await writeStepSummary(report, output);
  output.failures(
    failures.filter(({ error }) => error.code !== 'interrupted'),
    report.job,
    isAlone,
  );
  const { streams, destinations, job: _, ...counts } = report;
  for (const { name, ...of } of streams) {
    output.event('stream_finished', { stream: name, ...of }, of.error === null ? 'info' : 'error');
  }
  for (const { name, ...of } of destinations) {
    output.event('destination_finished', { destination: name, ...of }, of.error === null ? 'info' : 'error');
  }
  output.event('run_finished', { ...counts, exit_code: code }, code === 0 ? 'info' : 'error');
  // A delivery that was not tried waits for a run, not for a push.
  const undelivered = destinations.some(({ status }) => status !== 'ok' && status !== 'not_tried');
  const hasDone = [...streams, ...destinations].some(({ status }) => status === 'ok' || status === 'partial');
  const errorCode = decisive?.error.code;
  const isDelivery = decisive?.destination !== undefined;
  // The record of a table at a destination is not among the files that `verify` reads.
  const next =
    isDelivery && errorCode === 'state_unreadable'
      ? 'do what the message says, then: cdsync push'
      : !isDelivery && errorCode === 'removal_owed'
        ? 'allow cdsync to delete in the bucket, then: cdsync run'
        : undefined;
  const about = {
    held: report.run_id,
    heldStream,
    isHeld: decisive?.isHeld,
    streams: isDelivery ? [] : decisive?.streams,
  };
  return { code, errorCode, ...about, undelivered, hasDone, next, retry: mayRetry(report) };
}

/** Names of streams of the snapshot before an approval, then of destinations with theirs. */
function stillOld({ streams, destinations }: JobReport): string[] {
  const old = streams.filter(({ status }) => status !== 'ok').map(({ name }) => name);
  const places = new Map<string, string[]>();
  for (const { name, stream, status } of destinations)
    if (status !== 'ok') places.set(name, [...(places.get(name) ?? []), stream]);
  const delivered = [...places].map(([name, streams]) => `${name} (${formatNames(streams, maxNames)})`);
  return [...(old.length === 0 ? [] : [formatNames(old, maxNames)]), ...delivered];
}

/** The parts of `approve`: its last line names old streams and destinations. */
export function approvalPrinter(output: Output): Pick<JobCommand<JobReport>, 'print' | 'document'> {
  return {
    ...reportPrinter(output),
    print: async (report, isAlone) => {
      const result = await printReport(report, output, isAlone);
      const waiting = report.streams.filter(({ status }) => status === 'skipped').map(({ name }) => name);
      const isOnlyWaiting =
        waiting.length > 0 && report.streams.every(({ status }) => ['ok', 'skipped'].includes(status));
      const next = `next: cdsync run${waiting.map((name) => ` --stream ${name}`).join('')}`;
      return {
        ...result,
        old: stillOld(report),
        ...(isOnlyWaiting && result.errorCode === undefined && { next, streams: waiting }),
      };
    },
  };
}

/** The parts of a command that ends with a report. */
export function reportPrinter(output: Output): Pick<JobCommand<JobReport>, 'print' | 'document'> {
  return {
    print: (report, isAlone) => printReport(report, output, isAlone),
    document: (report): RunReport => ({ status: report.status, retry: mayRetry(report), jobs: [report], error: null }),
  };
}

/** Adds the job's result to the summary of a build, if CI names a file for it (GITHUB_STEP_SUMMARY). No run fails for that. */
async function writeStepSummary(report: JobReport, output: Output): Promise<void> {
  const file = process.env.GITHUB_STEP_SUMMARY ?? '';
  if (file === '') return;
  const { markdownSummary } = await import('../output/summary.js');
  await appendFile(file, markdownSummary(report)).catch((error: NodeJS.ErrnoException) => {
    output.notice(`warning: the summary of this build could not be written: ${error.code}`);
  });
}

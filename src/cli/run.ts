import type { CommandModule } from 'yargs';
import type { Config, JobConfig } from '../config/config.js';
import { parseMoment } from '../core/quantities.js';
import type { JobReport, RunReport } from '../core/run.js';
import { configPositional, jobOption } from './arguments.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface RunArguments extends JobArguments {
  stream?: string[] | undefined;
  full: boolean;
  accept: boolean;
  rekey: boolean;
  from?: string | undefined;
  to?: string | undefined;
}

/** `cdsync run`: reads every stream of a job, commits what changed, publishes it. */
export const runCommand: CommandModule<CommonArguments, RunArguments> = {
  command: 'run [config]',
  describe: 'read the streams of a job, and publish what changed as Parquet and DuckDB',
  builder: (parser) =>
    jobOption(configPositional(parser))
      .option('stream', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'only this stream; may be given again',
      })
      .option('full', {
        type: 'boolean',
        default: false,
        describe: 'start anew, also where an earlier run was cut short',
      })
      .option('accept', {
        type: 'boolean',
        default: false,
        describe: 'take a changed filter, key or query as the new baseline, and judge no changes',
      })
      .option('rekey', {
        type: 'boolean',
        default: false,
        describe: 'hash columns anew whose salt has changed, and judge no changes',
      })
      .options({
        from: {
          type: 'string',
          requiresArg: true,
          describe: 'read streams that are read by time again from this time on, whatever was read before',
        },
        to: { type: 'string', requiresArg: true, describe: 'up to this time [default: now]' },
      })
      .epilogue(
        'A run that was cut short is continued by the next one. Exit codes: 0 done, 1 failed, 2 wrong configuration,\n' +
          '3 held by a guard, 4 refused by the service, 5 done in part, 75 another run has the lock, 130 interrupted (checkpoint kept).',
      ),
  handler: async (args) => {
    process.exitCode = await run(args, new Output(args));
  },
};

/** What a finished run exits with (contract: exit codes; the first that applies). */
export function exitCodeOfRun({ status, streams }: JobReport): number {
  if (status === 'interrupted') return 130;
  if (status === 'partial') return 5;
  if (status === 'held') return 3;
  if (status !== 'failed') return 0;
  const codes = streams.flatMap(({ error }) => (error === null ? [] : [error.code]));
  return codes.every((code) => authCodes.has(code)) ? 4 : 1;
}

const authCodes = new Set(['unauthorized', 'forbidden', 'oauth_failed', 'token_unusable']);

async function run(args: RunArguments, output: Output): Promise<number> {
  const { inJob, loadJob } = await import('./load.js');
  const { config, job } = await loadJob(args, output);
  return inJob(args, { storage: config.storage, job: job.name }, async () => {
    const report = await runShown(args, output, config, job);
    return tell(report, args, output, config.storage);
  });
}

/** @throws {CdsyncError} `usage` */
function rangeOf({ from, to }: RunArguments): { from: number; to: number } | undefined {
  if (from === undefined && to === undefined) return undefined;
  const bounds = { from: parseMoment(from ?? ''), to: to === undefined ? Date.now() : parseMoment(to) };
  if (bounds.from < bounds.to) return bounds;
  throw usageError(
    '--from and --to must be times, the first before the second',
    'for example: --from 2026-01-01 --to 2026-02-01',
  );
}

/** Runs the job with its progress on standard error, until it ends or is told to stop. */
async function runShown(args: RunArguments, output: Output, config: Config, job: JobConfig): Promise<JobReport> {
  const { jobContext, withEngine } = await import('../engine/open-engine.js');
  const { runJob } = await import('../engine/run-job.js');
  const { newProgress } = await import('../engine/progress.js');
  const { showProgress } = await import('./show-progress.js');
  const { interruption } = await import('./interruption.js');
  const stop = interruption(output);
  const range = rangeOf(args);
  const { stream: only, full, accept, rekey } = args;
  const progress = newProgress(job.name, args.stream ?? job.streams.map(({ name }) => name));
  const shown = showProgress(progress, config.service.rateLimits.profile, output, args);
  try {
    return await withEngine(config, { signal: stop.signal, notice: (line) => output.notice(line) }, (engine) =>
      runJob({ ...jobContext(engine, job, { only, full, accept, rekey, range }), progress }),
    );
  } finally {
    shown.stop();
    stop.release();
  }
}

async function tell(report: JobReport, args: RunArguments, output: Output, storage: string): Promise<number> {
  const { summarize } = await import('../report/summary.js');
  const { nextStep } = await import('./next-step.js');
  const document: RunReport = { status: report.status, jobs: [report], error: null };
  output.document(document);
  for (const line of summarize(report)) output.result(line);
  const code = exitCodeOfRun(report);
  const { streams, destinations, job: _, ...facts } = report;
  for (const { name, ...of } of streams) {
    output.event('stream_finished', { stream: name, ...of }, of.error === null ? 'info' : 'error');
  }
  for (const { name, ...of } of destinations) {
    output.event('destination_finished', { destination: name, ...of }, of.error === null ? 'info' : 'error');
  }
  output.event('run_finished', { ...facts, exit_code: code }, code === 0 ? 'info' : 'error');
  if (code !== 0)
    output.last(await nextStep({ code, storage, job: report.job, config: args.config, held: report.run_id }));
  return code;
}

import type { Argv } from 'yargs';
import type { Config, JobConfig, LocalConfig } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run-report.js';
import { redactor, Secret, secretsIn } from '../core/secret.js';
import type { PushPlan } from '../engine/run/plan-push.js';
import { type Command, configPositional, flag, type JobsArguments, jobsOptions, many } from './arguments.js';
import type { JobCommand } from './for-each-job.js';
import type { Interruption } from './interruption.js';
import { type CommonArguments, Output } from './output.js';

interface PushArguments extends JobsArguments {
  destination?: string[] | undefined;
  stream?: string[] | undefined;
  full: boolean;
  adopt: boolean;
  recreate: boolean;
  verify: boolean;
  dryRun: boolean;
  file?: string | undefined;
}

/** `cdsync push`: loads destinations with the published snapshots. */
export const pushCommand: Command<CommonArguments, PushArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('destination', many('only this destination; may be given again'))
      .option('stream', many('only this stream; may be given again'))
      .option('full', flag('send everything, even what the destination has already'))
      .option('adopt', flag('take over tables that are not from this storage folder'))
      .option('recreate', flag('drop the tables, and load them from the start'))
      .option('verify', flag('compare whole tables with the snapshot; one that differs is loaded again'))
      .option('file', {
        type: 'string',
        implies: 'full',
        describe: 'with --full: write the file of this old name again',
      })
      .option('dry-run', flag('show what would be done, and write nothing'))
      .epilogue(
        'Asks the service for nothing, and runs beside a run. Exit codes: 0 ok, 1 failed, 2 wrong configuration,\n' +
          '4 refused by the destinations, 5 partial or, with --dry-run, something would be refused, 75 locked by another process,\n' +
          '130 interrupted.',
      ) as unknown as Argv<PushArguments>,
  handler: async (args) => {
    process.exitCode = await push(args, new Output(args));
  },
};

async function push(args: PushArguments, output: Output): Promise<number> {
  const { loadDestinations } = await import('./load.js');
  const { interruption } = await import('./interruption.js');
  const { reportPrinter } = await import('./print-report.js');
  const { forEachJob } = await import('./for-each-job.js');
  const { config, jobs } = await loadDestinations(args, output);
  const only = { streams: args.stream, destinations: args.destination, delivering: true };
  const stop = interruption(output, 'loads under way are rolled back');
  const { storage } = config;
  const task = { command: 'push', args, output, storage, jobs, only, stop };
  if (args.dryRun) return forEachJob(task, await planning(args, output, { config, stop }));
  return forEachJob(task, {
    ...reportPrinter(output),
    work: (job, chosen) => {
      assertDelivered(job, chosen);
      return pushShown({ ...args, job, ...chosen }, output, { config, stop });
    },
  });
}

/** @throws {CdsyncError} `stream_not_found` for a stream of the job that none of the destinations gets */
export function assertDelivered(
  { streams: jobStreams, destinations }: JobConfig,
  chosen: Parameters<JobCommand<unknown>['work']>[1],
): void {
  const targets = destinations.filter(({ name }) => chosen.destinations?.includes(name) ?? true);
  const delivered = [...new Set(targets.flatMap(({ streams }) => streams))];
  const isLeftOut = (name: string) => jobStreams.some((stream) => stream.name === name) && !delivered.includes(name);
  const name = targets.length === 0 ? undefined : chosen.streams?.find(isLeftOut);
  if (name === undefined) return;
  throw new CdsyncError(`${targets.map((target) => target.name).join(', ')}: no delivery of stream "${name}"`, {
    code: 'stream_not_found',
    hint: `these streams are delivered there: ${delivered.join(', ')}`,
  });
}

/** The work of `--dry-run`. */
async function planning(
  args: PushArguments,
  output: Output,
  { config, stop }: { config: LocalConfig & Partial<Config>; stop: Interruption },
): Promise<JobCommand<PushPlan>> {
  const { readJobFiles } = await import('../engine/job-files.js');
  const { withDelivery } = await import('../engine/open-engine.js');
  const { planPush } = await import('../engine/run/plan-push.js');
  const { pushPlanLines } = await import('../output/push-plan.js');
  const { engineOptions } = await import('./engine-options.js');
  const { environment } = await import('./load.js');
  const { full, adopt, recreate, verify, file, showValues: showsValues } = args;
  const options = engineOptions(stop, output, config.service);
  const env = await environment(args);
  const ofVariables = config.secretVariables.map((name) => new Secret(env[name] ?? ''));
  const ofOptions = secretsIn(config.jobs.map(({ destinations }) => destinations.map(({ options }) => options)));
  const hide = redactor([...ofVariables, ...ofOptions], '***');
  return {
    work: (job, chosen) => {
      assertDelivered(job, chosen);
      return readJobFiles({ config, job: job.name, need: 'deliver', ...options }, (place) =>
        withDelivery(config, { ...options, place }, (engine) =>
          planPush(
            { ...engine, layout: place.layout },
            { job, ...chosen, full, adopt, recreate, verify, file },
            { showsValues, hide },
          ),
        ),
      );
    },
    document: ({ auth: _, ...plan }) => ({ status: plan.status, jobs: [plan], error: null }),
    print: (plan) => {
      for (const line of pushPlanLines(plan.destinations, Date.now())) output.advice(line);
      if (plan.status === 'ok') return { code: 0 };
      if (plan.status === 'failed')
        return { code: plan.auth ? 4 : 1, next: 'correct the destination, then: cdsync push --dry-run' };
      return { code: 5, next: 'choose what the lines above name, then: cdsync push' };
    },
  };
}

interface PushTask
  extends Pick<
    PushArguments,
    'full' | 'file' | 'adopt' | 'recreate' | 'verify' | 'quiet' | 'json' | 'verbose' | 'showValues' | 'logFormat'
  > {
  readonly job: JobConfig;
  readonly streams?: readonly string[] | undefined;
  readonly destinations?: readonly string[] | undefined;
}

/** Delivers, with progress on standard error, until it is done or interrupted. */
async function pushShown(
  { job, streams, destinations, full, file, adopt, recreate, verify, ...common }: PushTask,
  output: Output,
  { config, stop }: { config: LocalConfig & Partial<Config>; stop: Interruption },
): Promise<JobReport> {
  const { withJobFiles } = await import('../engine/job-files.js');
  const { withDelivery } = await import('../engine/open-engine.js');
  const { newProgress } = await import('../engine/progress.js');
  const { pushAndNotify } = await import('../engine/run/push-job.js');
  const { showProgress } = await import('./show-progress.js');
  const { engineOptions } = await import('./engine-options.js');
  const progress = newProgress(job.name, []);
  progress.phase = 'delivering';
  const shown = showProgress(progress, 1, output, common);
  const options = engineOptions(stop, output, config.service);
  try {
    return await withJobFiles({ config, job: job.name, need: 'deliver', ...options }, (place) =>
      withDelivery(config, { ...options, place }, (engine) =>
        pushAndNotify(
          { ...engine, config, layout: place.layout },
          { job, destinations, streams, full, file, adopt, recreate, verify, progress: progress.destinations },
        ),
      ),
    );
  } finally {
    shown.stop();
  }
}

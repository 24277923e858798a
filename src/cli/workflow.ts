import type { CommandModule } from 'yargs';
import type { WorkflowRun } from '../api/management-api.js';
import { asCdsyncError, type CdsyncError, reworded } from '../core/errors.js';
import { printable, withoutAddresses } from '../core/printable.js';
import type { WorkflowContext } from '../engine/workflow/start-workflow.js';
import { table } from '../output/table.js';
import {
  type Command,
  configAndWords,
  flag,
  oneOf,
  positionals,
  type ServiceArguments,
  serviceOptions,
  textOption,
} from './arguments.js';
import { exitCodeOf, failureDocument, Output, usageError } from './output.js';

/** Fields that name the person who started a run; shown only if values may be. */
const personal = new Set(['principal_name', 'principal_email']);

/**
 * A run as the service gave it; fields that name a person only if `showValues`. Never the `data` of an error: no one knows
 * the service's texts there.
 */
function shownRun(run: WorkflowRun, showValues: boolean): Record<string, unknown> {
  return JSON.parse(JSON.stringify(run), (name, value: unknown) => {
    if (name === 'error' && typeof value === 'object' && value !== null) return { ...value, data: undefined };
    if (showValues) return value;
    if (personal.has(name)) return undefined;
    return typeof value === 'string' ? withoutAddresses(value) : value;
  }) as Record<string, unknown>;
}

function word(value: unknown): string {
  return value === undefined || value === null || value === '' ? '-' : printable(String(value));
}

/** A workflow run for people, with its tasks if the service sent them. */
function workflowLines({ id, state, type, name, created_at, ended_at, error, task_instances }: WorkflowRun): string[] {
  const about = [type, name].filter(Boolean).map(word).join(' ');
  const lines = [
    `run ${word(id)}: ${word(state)}${about === '' ? '' : ` (${about})`}`,
    `  created ${word(created_at)}, ended ${word(ended_at)}`,
  ];
  if (error) {
    lines.push(`  ${word(error.type)}: ${word(error.message)} (attribution: ${word(error.attribution)})`);
  }
  if (!task_instances || task_instances.length === 0) return lines;
  const rows = task_instances.map((task) =>
    [task.label ?? task.id, task.state, task.created_at, task.ended_at, task.error?.message].map(word),
  );
  return [...lines, '', ...table(['task', 'state', 'created', 'ended', 'error'], rows).map((line) => `  ${line}`)];
}

interface WorkflowArguments extends ServiceArguments {
  words: string[];
}

interface StartArguments extends WorkflowArguments {
  runMode?: 'source' | 'refresh' | 'full' | undefined;
  rangeFrom?: string | undefined;
  rangeTo?: string | undefined;
  wait: boolean;
  deadline?: string | undefined;
}

/** Workflows run for hours; the service itself warns after about a day. */
const defaultDeadlineMs = 86_400_000;
const maxDeadlineMs = 7 * 86_400_000;

/** Hints for errors of the service, if the command knows more than its client. */
const hints: Readonly<Record<string, string>> = {
  not_found: 'is the id right? A run has its own id, which `cdsync workflow start` shows',
  conflict: 'it has ended already, or is busy: cdsync workflow status shows its state',
};

function withHint(thrown: unknown): CdsyncError {
  const error = asCdsyncError(thrown);
  const hint = hints[error.code];
  if (hint === undefined) return error;
  return reworded(error, error.message, { hint, requestId: error.requestId, cause: error });
}

type Work = (
  context: WorkflowContext,
  id: string,
) => Promise<{ readonly run: WorkflowRun; readonly error?: CdsyncError }>;

/** Does a subcommand's work on the one id among its words, and shows the run. */
async function withWorkflows(args: WorkflowArguments, what: string, work: Work): Promise<void> {
  const { config: file, words } = configAndWords(args.words);
  const [id] = words;
  if (id === undefined || words.length > 1)
    throw usageError(`name one ${what}`, 'write its id alone, or after the name of a configuration file');
  const { applyConfigToOutput } = await import('./load.js');
  const { loadService } = await import('./service-from-flags.js');
  const { withExplorer } = await import('../engine/inspect/explorer.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const output = new Output(args);
  const config = await loadService({ ...args, config: file });
  applyConfigToOutput(config, output);
  const stop = interruption(output);
  const options = engineOptions(stop, output, config.service);
  try {
    const { run, error: thrown } = await withExplorer(config.service, options, (explorer) =>
      work({ ...explorer, notice: options.notice }, id).catch((thrown: unknown) => {
        throw withHint(thrown);
      }),
    );
    const error = thrown && withHint(thrown);
    const { status, error: reported } = error === undefined ? { status: 'ok', error: null } : failureDocument(error);
    output.document({ status, run: shownRun(run, args.showValues), error: reported });
    for (const line of workflowLines(run)) output.result(line);
    if (error === undefined) return;
    output.error(error);
    output.last(`next: cdsync workflow status ${run.id} --view verbose`);
    process.exitCode = exitCodeOf(error);
  } finally {
    stop.release();
  }
}

async function deadlineOf({ wait, deadline }: StartArguments): Promise<number> {
  if (deadline === undefined) return defaultDeadlineMs;
  if (!wait) throw usageError('--deadline is for --wait', 'add --wait, or leave it out');
  const { parseDurationMs } = await import('../core/quantities.js');
  const ms = parseDurationMs(deadline);
  if (ms !== undefined && ms >= 1_000 && ms <= maxDeadlineMs) return ms;
  throw usageError('--deadline is no duration from 1s to 7d', 'for example: --deadline 90m');
}

/** The range as full times in UTC. @throws {CdsyncError} `usage` */
async function rangeOf({ rangeFrom, rangeTo }: StartArguments): Promise<Pick<StartArguments, 'rangeFrom' | 'rangeTo'>> {
  if (rangeFrom === undefined && rangeTo !== undefined)
    throw usageError('--range-to is the end of a range without a beginning', 'add --range-from, or leave out both');
  const { fullTime } = await import('../core/quantities.js');
  const end = (option: string, written: string | undefined) => {
    const time = written === undefined ? undefined : fullTime(written);
    if (written === undefined || time !== undefined) return time;
    throw usageError(`${option} is no date or time`, 'for example: 2026-01-31, or 2026-01-31T12:00:00Z');
  };
  return { rangeFrom: end('--range-from', rangeFrom), rangeTo: end('--range-to', rangeTo) };
}

const startCommand: CommandModule<ServiceArguments, StartArguments> = {
  command: 'start <words..>',
  describe: 'start a workflow; with --wait, follow it to its end',
  builder: (parser) =>
    parser
      .positional('words', positionals('[configuration file] CONFIG_ID'))
      .options({
        'run-mode': oneOf(
          'run-mode',
          ['source', 'refresh', 'full'],
          'how much of it to run [default: what its schedule says]',
        ),
        'range-from': textOption('beginning of the range to run it for, such as 2026-01-01; alone, that one day'),
        'range-to': textOption('end of that range, not included'),
        wait: flag('wait until it has ended; Ctrl-C stops it in the service too'),
        deadline: textOption('with --wait: stop it after this time, such as 90m [default: 24h]'),
      })
      .epilogue(
        'Exit codes: 0 started (with --wait: succeeded), 1 it failed, was stopped or met its deadline, 130 interrupted.',
      ) as never,
  handler: async (args) => {
    const deadlineMs = await deadlineOf(args);
    const { startWorkflow } = await import('../engine/workflow/start-workflow.js');
    const { followWorkflow } = await import('../engine/workflow/follow-workflow.js');
    const { requireSuccess } = await import('../engine/workflow/ended-run.js');
    const { runMode, wait } = args;
    const range = await rangeOf(args);
    await withWorkflows(args, 'configuration of a workflow', async (context, configId) => {
      const started = await startWorkflow(context, { configId, runMode, ...range });
      if (!wait) return { run: started };
      let run = started;
      const onRun = (seen: WorkflowRun) => {
        run = seen;
      };
      try {
        run = await followWorkflow(context, started, { name: configId, deadlineMs, onRun });
        requireSuccess(run, configId);
        return { run };
      } catch (error) {
        return { run, error: asCdsyncError(error) };
      }
    });
  },
};

const statusCommand: CommandModule<
  ServiceArguments,
  WorkflowArguments & { view?: 'overview' | 'verbose' | undefined }
> = {
  command: 'status <words..>',
  describe: 'show a run of a workflow',
  builder: (parser) =>
    parser.positional('words', positionals('[configuration file] RUN')).option('view', {
      choices: ['overview', 'verbose'] as const,
      requiresArg: true,
      describe: 'verbose shows its tasks as well',
    }) as never,
  handler: async (args) => {
    const { getWorkflowRunOperation, readWorkflowRun } = await import('../api/management-api.js');
    const { newMeter } = await import('../engine/workflow/start-workflow.js');
    await withWorkflows(args, 'run', async ({ client, signal }, id) => {
      const operation = getWorkflowRunOperation(id, args.view);
      return { run: await client.send(operation, readWorkflowRun, { signal, meter: newMeter() }) };
    });
  },
};

const stopCommand: CommandModule<ServiceArguments, WorkflowArguments> = {
  command: 'stop <words..>',
  describe: 'stop a run of a workflow',
  builder: (parser) => parser.positional('words', positionals('[configuration file] RUN')) as never,
  handler: async (args) => {
    const { readWorkflowRun, stopWorkflowOperation } = await import('../api/management-api.js');
    const { newMeter } = await import('../engine/workflow/start-workflow.js');
    await withWorkflows(args, 'run', async ({ client, signal }, id) => {
      return { run: await client.send(stopWorkflowOperation(id), readWorkflowRun, { signal, meter: newMeter() }) };
    });
  },
};

/** `cdsync workflow`: starts, shows and stops workflows of the service (specification, section 4.11). */
export const workflowCommand: Command<ServiceArguments, ServiceArguments> = {
  builder: (parser) =>
    serviceOptions(parser)
      .command(startCommand as unknown as CommandModule)
      .command(statusCommand as unknown as CommandModule)
      .command(stopCommand as unknown as CommandModule)
      .demandCommand(1, 'choose: start, status or stop') as never,
  handler: () => undefined,
};

import { relative, resolve } from 'node:path';
import { type ConfigProblem, describeProblem } from '../config/problem.js';
import { type Command, configPositional, flag, type JobsArguments, jobsOptions } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';

const escapes: Readonly<Record<string, string>> = { '%': '%25', '\r': '%0D', '\n': '%0A', ':': '%3A', ',': '%2C' };

function escaped(text: string, characters: RegExp): string {
  return text.replace(characters, (character) => escapes[character] ?? character);
}

/**
 * The line by which GitHub Actions shows a problem at its place in the file.
 * @param workspace the folder of the checkout, from which GitHub takes the path: a step may work in another one
 */
export function annotation(problem: ConfigProblem, workspace = process.cwd()): string {
  const { file, line, column } = problem;
  const path = relative(workspace, resolve(file));
  const place = `file=${escaped(path.startsWith('..') ? file : path, /[%\r\n:,]/g)},line=${line},col=${column}`;
  return `::error ${place}::${escaped(describeProblem(problem), /[%\r\n]/g)}`;
}

interface CheckArguments extends JobsArguments {
  contract: boolean;
  offline: boolean;
}

/** `cdsync check`: shows whether a run would work, without running it. */
export const checkCommand: Command<CommonArguments, CheckArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('contract', flag('compare columns and types with the last snapshot, by a page or two of each stream'))
      .option(
        'offline',
        flag('read the configuration file and nothing else: no service, no storage; variables may be unset'),
      )
      .epilogue(
        'Asks the service for one record of each stream, logs in to each destination, and writes nothing.\n' +
          'Exit codes: 0 all is well, 2 wrong configuration, 4 refused, 1 a stream cannot be read or breaks its contract, or a\n' +
          'destination cannot be loaded.',
      ),
  handler: async (args) => {
    const output = new Output(args);
    if (args.offline && args.contract)
      throw usageError('--contract asks the service, and --offline asks nothing', 'leave one of them out');
    process.exitCode = await (args.offline ? lint(args, output) : check(args, output));
  },
};

async function check(args: CheckArguments, output: Output): Promise<number> {
  const { loadJobs } = await import('./load.js');
  const { readJobFiles } = await import('../engine/job-files.js');
  const { withEngine } = await import('../engine/open-engine.js');
  const { checkJob } = await import('../engine/plan/check-job.js');
  const { checkLines, exitCodeOfCheck, nextAfterCheck } = await import('../output/check.js');
  const { inquiryOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const { forEachJob } = await import('./for-each-job.js');
  const { config, jobs } = await loadJobs(args, output, { destinations: true, outcome: true });
  const stop = interruption(output);
  const options = inquiryOptions(stop, output, config.service);
  return forEachJob(
    { command: 'check', args, output, storage: config.storage, jobs, stop },
    {
      work: (job) =>
        readJobFiles({ config, job: job.name, need: args.contract ? 'published' : 'small', ...options }, (place) =>
          withEngine(config, { ...options, place }, (engine) => checkJob(engine, job, args)),
        ),
      document: (checked) => checked,
      print: (checked) => {
        for (const line of checkLines(checked)) output.advice(line);
        if (checked.status === 'ok') return { code: 0 };
        return { code: exitCodeOfCheck(checked), next: nextAfterCheck(checked) };
      },
    },
  );
}

/** Checks the file alone. On GitHub, each mistake is also shown at its line. */
async function lint(args: CheckArguments, output: Output): Promise<number> {
  const { defaultFile, environment } = await import('./load.js');
  const { lintFile } = await import('../config/load.js');
  const { ConfigError } = await import('../config/problem.js');
  const file = args.config ?? defaultFile;
  output.at({ config: args.config, isOffline: true });
  const isGitHub = (process.env.GITHUB_ACTIONS ?? '') !== '';
  try {
    const { warnings, unset, jobs } = await lintFile(file, {
      env: await environment(args),
      envFile: args.envFile,
      job: args.job,
    });
    const { queryProblems } = await import('../engine/plan/query-problems.js');
    const problems = await queryProblems(jobs);
    if (problems.length > 0) throw new ConfigError(problems);
    for (const warning of warnings) output.remark(`warning: ${warning}`);
    output.document({ status: 'ok', file, warnings, unset });
    const unchecked = unset.length === 0 ? '' : `; without a value here: ${unset.join(', ')}`;
    output.result(`${file}: ok${unchecked}`);
    return 0;
  } catch (error) {
    if (isGitHub && error instanceof ConfigError)
      for (const problem of error.problems)
        output.annotation(annotation(problem, process.env.GITHUB_WORKSPACE || process.cwd()));
    throw error;
  }
}

import yargs, { type Argv } from 'yargs';
import { asCdsyncError } from '../core/errors.js';
import { packageVersion } from '../core/package-version.js';
import { logFormat } from './arguments.js';
import { commands } from './commands.js';
import { logFormatVariable } from './log-line.js';
import {
  CommandFailure,
  type CommonArguments,
  type Ending,
  exitCodeOf,
  failureDocument,
  Output,
  usageError,
} from './output.js';

function commonOptions(words: readonly string[]): Argv<CommonArguments> {
  const parser = yargs(words)
    .scriptName('cdsync')
    .usage('$0 <command>\n\nCustomer profiles out of the Customer Data Service, into Parquet, DuckDB and warehouses.')
    .options({
      json: { type: 'boolean', default: false, describe: 'one JSON document on standard output, nothing else there' },
      'env-file': { type: 'string', requiresArg: true, describe: 'file of variables for the configuration' },
      quiet: { type: 'boolean', default: false, describe: 'no progress, no notices' },
      verbose: { type: 'boolean', default: false, describe: 'causes of errors too' },
      'show-values': { type: 'boolean', default: false, describe: 'show values of records, which are personal data' },
      'log-format': {
        type: 'string',
        requiresArg: true,
        default: process.env[logFormatVariable] || 'text',
        defaultDescription: `$${logFormatVariable}, or text`,
        coerce: logFormat,
        describe: 'standard error as lines of text, or of json, one object each [choices: text, json]',
      },
    });
  // yargs gives options with dashes a second name in camel case, which its types do not tell.
  return parser as unknown as Argv<CommonArguments>;
}

/** A list takes one word for each flag: the word behind it may be the configuration. */
const wordRules = { 'strip-dashed': true, 'greedy-arrays': false, 'boolean-negation': false };

function parser(words: readonly string[]) {
  return commonOptions(words)
    .command(commands)
    .middleware(({ _: [command] }) => {
      // Whatever a command writes is the user's alone, also what DuckDB makes; only the configuration is for a team.
      if (command !== 'init') process.umask(0o077);
    })
    .demandCommand(1, 'name a command')
    .strict()
    .check((given, options) => refuseRepeated(given, options as unknown as { array: readonly string[] }))
    .recommendCommands()
    .version(packageVersion())
    .help()
    .wrap(Math.min(110, process.stdout.columns ?? 100))
    .epilogue(
      'First: cdsync serve, then in another terminal: cdsync run configs/quickstart.yaml\nReference: docs/ in the package.',
    )
    .parserConfiguration(wordRules)
    .exitProcess(false)
    .fail((message, error) => {
      // What a command throws comes as an error; a wrong word only as a message.
      throw error === undefined ? usageError(message ?? 'wrong usage', seeHelp) : error;
    });
}

/** A wrong word that yargs throws as an error of its own is wrong usage like any other. */
function asUsageError(thrown: unknown): unknown {
  return thrown instanceof Error && thrown.name === 'YError' ? usageError(thrown.message, seeHelp) : thrown;
}

/** yargs makes a list of an option that is given twice, whatever its type. @throws {CdsyncError} `usage` */
function refuseRepeated(given: Readonly<Record<string, unknown>>, { array }: { array: readonly string[] }): true {
  const repeated = Object.keys(given).find(
    (name) => Array.isArray(given[name]) && name !== '_' && !array.includes(name),
  );
  if (repeated === undefined) return true;
  const flag = repeated.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw usageError(`--${flag} was given more than once`, 'leave one of them');
}

const seeHelp = 'see: cdsync --help, or cdsync <command> --help';

/** What every command takes, read before yargs has looked at the words: an error must be told in the right form. */
export function commonArguments(words: readonly string[]): CommonArguments {
  const has = (flag: string) => words.includes(flag);
  const flags = {
    json: has('--json'),
    quiet: has('--quiet'),
    verbose: has('--verbose'),
    showValues: has('--show-values'),
  };
  const at = words.findIndex((word) => /^--log-format(=|$)/.test(word));
  const format = at < 0 ? process.env[logFormatVariable] : (words[at]?.split('=')[1] ?? words[at + 1]);
  return { ...flags, logFormat: format === 'json' ? 'json' : 'text' };
}

/** What to do next with commands that concern no job's snapshot. */
const withoutJob: Readonly<Record<string, string>> = {
  serve: 'cdsync serve --help',
  discover: 'cdsync discover',
  init: 'cdsync init',
  lookup: 'cdsync lookup --help',
  workflow: 'cdsync workflow --help',
};

/** The last line of a command that failed. */
async function lastLine(words: readonly string[], ending: Ending): Promise<string> {
  const [command = ''] = words;
  const next = withoutJob[command];
  if (next !== undefined)
    return command === 'serve' || ending.code === 130 ? `next: ${next}` : `correct it, then: ${next}`;
  const { nextStep } = await import('./next-step.js');
  return nextStep({ config: words.slice(1).find((word) => /\.(ya?ml|json)$/.test(word)), ...ending });
}

/**
 * Runs one command line to its end and leaves its exit code in `process.exitCode`, and a umask that lets nobody else read. It throws nothing: an error is told on
 * standard error, in the words of the command line. One at a time in a process.
 */
export async function runCommandLine(words: readonly string[]): Promise<void> {
  const output = Output.begin(commonArguments(words));
  try {
    await parser(words).parseAsync();
  } catch (thrown) {
    const failure = thrown instanceof CommandFailure ? thrown : undefined;
    const error = asCdsyncError(failure?.cause ?? asUsageError(thrown));
    const code = exitCodeOf(error);
    if (failure?.ending.job !== undefined) output.about({ job: failure.ending.job });
    output.document(failureDocument(error));
    output.error(error);
    output.last(await lastLine(words, { code, ...failure?.ending }));
    process.exitCode = code;
  }
}

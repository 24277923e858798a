import type yargs from 'yargs';
import type { Argv } from 'yargs';
import { type CommandPlace, shellWord } from '../core/command-hints.js';
import { asCdsyncError, interrupted } from '../core/errors.js';
import { packageVersion } from '../core/package-version.js';
import { commonOptions, nameOf } from './arguments.js';
import { commands } from './commands.js';
import { closeResources, endAtSignal } from './interruption.js';
import {
  CommandFailure,
  type CommonArguments,
  type Ending,
  exitCodeOf,
  failureDocument,
  logFormatVariable,
  Output,
  usageError,
} from './output.js';
import { loadYargs } from './yargs.js';

type Yargs = typeof yargs;

function parserOf(words: readonly string[], create: Yargs): Argv<CommonArguments> {
  const parser = create(words)
    .scriptName('cdsync')
    .detectLocale(false)
    .usage(
      '$0 <command>\n\nCopies customer profiles from the Customer Data Service into Parquet, DuckDB and warehouses.',
    )
    .options(commonOptions());
  // yargs also gives options with dashes a name in camel case; its types do not show that.
  return parser as unknown as Argv<CommonArguments>;
}

/** An option that is a list takes one word per flag: the next word may be the configuration file. */
const wordRules = { 'strip-dashed': true, 'greedy-arrays': false, 'boolean-negation': false };

/** Precedes a word that followed `--`, so that yargs does not take it for an option. No argument of a process can have it. */
const wordMark = '\0';

/** Words for yargs, which would leave those behind `--` out of a command's own. */
function marked(words: readonly string[]): string[] {
  const end = words.indexOf('--');
  return end < 0 ? [...words] : [...words.slice(0, end), ...words.slice(end + 1).map((word) => wordMark + word)];
}

function unmark(args: Record<string, unknown>): void {
  const plain = (value: unknown) =>
    typeof value === 'string' && value.startsWith(wordMark) ? value.slice(wordMark.length) : value;
  for (const [name, value] of Object.entries(args)) args[name] = Array.isArray(value) ? value.map(plain) : plain(value);
}

/** The options that a parser knows at present: while a command is read, the command's. yargs has this without a type. */
function optionsOf(parser: unknown): string[] {
  return Object.keys((parser as { getOptions(): { key: Record<string, unknown> } }).getOptions().key);
}

function strictParser(words: readonly string[], create: Yargs): Argv<CommonArguments> {
  const parser = parserOf(marked(words), create);
  parser
    .command(commands)
    .middleware((args) => {
      unmark(args);
      const [command] = args._;
      // Files of a command, DuckDB's too, are for the user alone. Only a configuration may be shared with a team.
      if (command !== 'init') process.umask(0o077);
    })
    .demandCommand(1, 'no command was given')
    .strict()
    .check((args, options) => assertNotRepeated(args, options as unknown as { array: readonly string[] }))
    .check((_, options) => assertNoValues(words, options as unknown as { boolean: readonly string[] }))
    .recommendCommands()
    .version(packageVersion())
    .alias('v', 'version')
    .help()
    .alias('h', 'help')
    // yargs makes the help text of every command that it runs; without a width that takes a tenth of the time.
    .wrap(asksForHelp(words) ? Math.min(110, process.stdout.columns ?? 100) : null)
    .epilogue('First: cdsync quickstart. For your own service: cdsync init. Reference: docs/ in the package.')
    .parserConfiguration(wordRules)
    .exitProcess(false)
    .fail((message, error) => {
      // A command threw the error. For a wrong word, yargs gives only a message.
      if (error !== undefined) throw error;
      throw new WrongWords(message ?? 'wrong usage', optionsOf(parser));
    });
  return parser;
}

/** Whether a help text may be printed. */
function asksForHelp(words: readonly string[]): boolean {
  return words.some((word) => /^(--help|-\w*h)/.test(word));
}

/** Words that yargs does not take. */
class WrongWords extends Error {
  /** The options of the command. */
  readonly options: readonly string[];

  constructor(message: string, options: readonly string[]) {
    super(message);
    this.options = options;
  }
}

/** Turns refused words, and the errors that yargs itself throws for a wrong word, into usage errors. */
async function asUsageError(thrown: unknown, words: readonly string[]): Promise<unknown> {
  const isOfYargs = thrown instanceof Error && thrown.name === 'YError';
  if (!isOfYargs && !(thrown instanceof WrongWords)) return thrown;
  const { argumentErrors } = await import('./invalid-arguments.js');
  const options = thrown instanceof WrongWords ? thrown.options : [];
  return argumentErrors(thrown.message, { words, command: commandIn(words), options });
}

/** Refuses an option given twice: yargs makes it a list, whatever its type. @throws {CdsyncError} `usage` */
function assertNotRepeated(args: Readonly<Record<string, unknown>>, { array }: { array: readonly string[] }): true {
  const repeated = Object.keys(args).find((name) => Array.isArray(args[name]) && name !== '_' && !array.includes(name));
  if (repeated === undefined) return true;
  const flag = repeated.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw usageError(`--${flag} was given more than once`, 'leave one of them');
}

/** Refuses a value after a switch: `--full=maybe`. @throws {CdsyncError} `usage` */
function assertNoValues(words: readonly string[], { boolean }: { boolean: readonly string[] }): true {
  for (const word of words.slice(0, words.indexOf('--') < 0 ? undefined : words.indexOf('--'))) {
    const [, name = '', value = ''] = /^--([\w-]+)=(.*)$/s.exec(word) ?? [];
    if (name === '' || !boolean.includes(name) || value === 'true' || value === 'false') continue;
    throw usageError(`--${name} is a switch and takes no value`, `write --${name}, or leave it out`);
  }
  return true;
}

/** The last value of an option among the words: `--name value` or `--name=value`. */
function lastValue(words: readonly string[], flag: string): string | undefined {
  const at = words.findLastIndex((word) => word === flag || word.startsWith(`${flag}=`));
  if (at < 0) return undefined;
  return words[at] === flag ? words[at + 1] : words[at]?.slice(flag.length + 1);
}

/** Whether a flag is set, as yargs reads it: `--json`, `--json=true` or `--json true`. */
function isSet(words: readonly string[], flag: string): boolean {
  const value = lastValue(words, flag);
  return value !== undefined || words.includes(flag) ? value !== 'false' : false;
}

/** The options that every command takes. Read without yargs, so that its errors too are shown in the right form. */
export function commonArguments(all: readonly string[]): CommonArguments {
  const end = all.indexOf('--');
  const words = end < 0 ? all : all.slice(0, end);
  const format = lastValue(words, '--log-format') ?? process.env[logFormatVariable];
  return {
    json: isSet(words, '--json'),
    quiet: isSet(words, '--quiet'),
    verbose: isSet(words, '--verbose'),
    showValues: isSet(words, '--show-values'),
    logFormat: format === 'json' ? 'json' : 'text',
    envFile: lastValue(words, '--env-file'),
  };
}

/** The parts of a command line that are read before a command: enough for the hints of its errors. */
function placeOf(words: readonly string[], { envFile }: CommonArguments): CommandPlace {
  const isFile = (word: string) => /^[^-].*\.(ya?ml|json)$/.test(word) && word !== envFile;
  const job = lastValue(words, '--job');
  const jobs = words.includes('--all') ? 'all' : job === undefined ? undefined : [job];
  return { envFile, config: words.slice(1).find(isFile), jobs };
}

/**
 * The command that failed, if it does not work on a job: the next step is that command again, or its help.
 * @param isUnderstood whether its options are its own: words that no option takes may be secrets
 */
function withoutJob(words: readonly string[], config: string | undefined, isUnderstood: boolean): string | undefined {
  const [command = '', place = ''] = words;
  const inPlace = (path: string | undefined) => `cdsync ${command}${path ? ` ${shellWord(path)}` : ''}`;
  // An address with a login is not repeated either.
  if (['discover', 'init'].includes(command) && isUnderstood && !words.some((word) => word.includes('@')))
    return `cdsync ${words.map(shellWord).join(' ')}`;
  if (command === 'discover') return inPlace(undefined);
  if (command === 'init') return inPlace(config?.endsWith('.json') ? undefined : config);
  if (command === 'quickstart') return inPlace(place.startsWith('-') ? undefined : place);
  return ['serve', 'lookup', 'workflow'].includes(command) ? `cdsync ${command} --help` : undefined;
}

const subcommands: Readonly<Record<string, readonly string[]>> = {
  serve: ['keys'],
  state: ['show', 'reset', 'remove'],
  workflow: ['start', 'status', 'stop'],
};

/** The command of some words, with its subcommand if it has one; undefined if they do not begin with one. */
function commandIn([first = '', second = '']: readonly string[]): string | undefined {
  if (!commands.some((command) => nameOf(command) === first)) return undefined;
  return subcommands[first]?.includes(second) ? `${first} ${second}` : first;
}

/** The last line of a command that failed. */
async function lastLine(words: readonly string[], ending: Ending, common: CommonArguments): Promise<string> {
  const { nextCommand, nextStep } = await import('./next-step.js');
  const next = withoutJob(words, placeOf(words, common).config, ending.errorCode !== 'usage');
  if (next !== undefined) {
    if (ending.errorCode === 'usage' && next.endsWith(' --help')) return nextCommand(ending);
    return words[0] === 'serve' || ending.code === 130 ? `next: ${next}` : `correct it, then: ${next}`;
  }
  if (ending.storage !== undefined) return nextStep(ending);
  // The command failed before it knew its job.
  const { jobInFile } = await import('./load.js');
  const { config } = placeOf(words, common);
  return nextStep({ ...ending, ...(await jobInFile(common, { config, job: lastValue(words, '--job') })) });
}

/** Ends a command that does not listen to signals itself. */
async function endInterrupted(words: readonly string[], output: Output): Promise<never> {
  const { nextCommand } = await import('./next-step.js');
  const error = interrupted();
  const command = commandIn(words);
  output.document(failureDocument(error));
  output.failure(error, nextCommand({ code: 130, errorCode: error.code, command }));
  process.exit(130);
}

/**
 * Runs one command line to its end. It leaves the exit code in `process.exitCode`, and a umask under which only the user
 * can read new files. It throws nothing: it writes an error to standard error, in the format that the words ask for. A
 * process may run one at a time.
 */
export async function runCommandLine(written: readonly string[]): Promise<void> {
  // `help COMMAND` is the same as `COMMAND --help`.
  const words = written[0] === 'help' ? [...written.slice(1), '--help'] : written;
  const common = commonArguments(words);
  const output = Output.begin(common);
  output.at(placeOf(words, common));
  endAtSignal(() => void endInterrupted(words, output));
  try {
    if (words[0] === '__complete')
      return await (await import('./complete-words.js')).answerShell(words.slice(1), commands);
    const parser = strictParser(words, await loadYargs());
    if (written[0] === 'help' && commandIn(words) === undefined && !(words[0] ?? '').startsWith('-'))
      throw (await import('./invalid-arguments.js')).unknownCommand(words[0] as string, commands.map(nameOf));
    if (words.length === 0) output.notice(`${await parser.getHelp()}\n`);
    await parser.parseAsync();
  } catch (thrown) {
    const failure = thrown instanceof CommandFailure ? thrown : undefined;
    const error = asCdsyncError(failure?.cause ?? (await asUsageError(thrown, words)));
    const code = exitCodeOf(error);
    if (failure?.ending.job !== undefined) output.about({ job: failure.ending.job });
    output.document(failureDocument(error));
    // A job that is not there is not named again.
    if (error.code === 'job_not_found') output.at({ jobs: undefined });
    const ending = { code, errorCode: error.code, command: commandIn(words), ...failure?.ending };
    output.failure(error, await lastLine(words, ending, common));
    process.exitCode = code;
  } finally {
    await closeResources();
  }
}

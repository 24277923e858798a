import type { CdsyncError } from '../core/errors.js';
import { printable } from '../core/printable.js';
import { nearest } from '../core/suggestions.js';
import { usageError } from './output.js';

/** A command line that the parser refused. */
interface WrongWords {
  readonly words: readonly string[];
  /** Undefined if they begin with none. */
  readonly command: string | undefined;
  /** The options that the command takes, without dashes. */
  readonly options: readonly string[];
}

/** Commands whose words may be keys of profiles. */
const mayBeKeys: ReadonlySet<string> = new Set(['forget', 'lookup', 'query']);

/** The words that a command cannot do without. */
const needed: Readonly<Record<string, string>> = {
  query: 'SQL',
  diff: 'STREAM',
  forget: 'STREAM and KEY',
  approve: 'RUN',
  discard: 'RUN',
  lookup: 'COLLECTION',
  'workflow start': 'CONFIG_ID',
  'workflow status': 'RUN',
  'workflow stop': 'RUN',
};

/** Options of other tools, and of other commands, with their equivalents here. */
const equivalents: Readonly<Record<string, string>> = {
  '--dry-run': 'cdsync plan shows what a run would do; cdsync push --dry-run what a delivery would do',
  '--limit': 'write LIMIT into the SQL',
  '--force': 'cdsync run --full reads everything again; cdsync run --accept takes a result that a guard would hold',
  '--full-refresh': 'the same here: cdsync run --full',
  '--select': 'the same here: --stream NAME',
  '--url': 'the address of the service: --base-url',
  '--config': 'the configuration file is the first argument',
  '-c': 'the configuration file is the first argument',
  '--output': 'see --format, --json and --out',
};

/** An option by its flag, with the one that may have been meant. */
function unknownOption(flag: string, options: readonly string[]): string {
  const [near] = nearest(flag.replace(/^-+/, ''), options, 1);
  return near === undefined ? flag : `${flag} (did you mean --${near}?)`;
}

/**
 * A message about words that are not options does not quote them: an unexpected word may be the key of a profile.
 * @param names what yargs does not know, without dashes
 */
function unknownWords(names: readonly string[], { words, options, command }: WrongWords): string {
  const end = words.indexOf('--');
  const args = end < 0 ? words : words.slice(0, end);
  const flags = args.filter((word) => /^-{1,2}[^-\d]/.test(word)).map((word) => word.split('=')[0] as string);
  const knownNames = new Set(options.flatMap((name) => [`--${name}`, `-${name}`]));
  const unknown = [...new Set(flags)].filter((flag) => !knownNames.has(flag));
  if (unknown.length > 0) return `no such option: ${unknown.map((flag) => unknownOption(flag, options)).join(', ')}`;
  // A word that may be a key or an address is not shown.
  if (mayBeKeys.has(command ?? '') || !names.every((name) => /^[a-z][a-z_-]*$/i.test(name)))
    return `${names.length === 1 ? 'an unexpected argument' : `${names.length} unexpected arguments`} at the end`;
  return `unexpected argument${names.length === 1 ? '' : 's'}: ${names.map((name) => `"${printable(name)}"`).join(', ')}`;
}

/** The error for `help WORD` of a word that is no command. */
export function unknownCommand(word: string, commands: readonly string[]): CdsyncError {
  const [near] = nearest(word, commands, 1);
  const instead = near === undefined ? '' : `; did you mean "${near}"?`;
  return usageError(`there is no command "${printable(word)}"${instead}`, 'see: cdsync --help');
}

/** The error for a command line that yargs refused with `message`. */
export function argumentErrors(message: string, wrong: WrongWords): CdsyncError {
  const { words, command } = wrong;
  const [first = '', second = ''] = words;
  const see = `see: cdsync ${command === undefined ? '' : `${command} `}--help`;
  const [, near] = /^Did you mean (\S+)\?$/.exec(message) ?? [];
  const instead = near === undefined ? '' : `; did you mean "${near}"?`;
  if (first !== '' && !first.startsWith('-') && command === undefined)
    return usageError(`there is no command "${first}"${instead}`, see);
  if (near !== undefined) return usageError(`there is no command "${first} ${second}"${instead}`, see);
  const [, names] = /^Unknown arguments?: (.*)$/s.exec(message) ?? [];
  const actions = { workflow: 'start, status or stop', state: 'show, reset or remove' }[command ?? ''];
  if (names !== undefined && actions !== undefined && second !== '' && !second.startsWith('-'))
    return usageError(`unknown action "${printable(second)}"; choose ${actions}`, see);
  const flag = words.map((word) => word.split('=')[0] as string).find((word) => Object.hasOwn(equivalents, word));
  const another = words.filter((word) => /^[\w./-]+\.(ya?ml|json)$/.test(word))[1];
  if (names !== undefined && another !== undefined && !mayBeKeys.has(command ?? ''))
    return usageError(`a second configuration file: ${another}`, 'one file at a time; a file may have several jobs');
  if (names !== undefined && flag !== undefined && unknownWords(names.split(', '), wrong).startsWith('no such option'))
    return usageError(`no such option here: ${flag}`, equivalents[flag] as string);
  if (names !== undefined) return usageError(unknownWords(names.split(', '), wrong), see);
  const [, valueless] = /^Not enough arguments following: (.*)$/.exec(message) ?? [];
  if (valueless !== undefined) return usageError(`--${valueless} needs a value`, see);
  if (/^Not enough non-option arguments/.test(message))
    return usageError(
      `missing argument${command !== undefined && command in needed ? `: ${needed[command]}` : ''}`,
      see,
    );
  const [, argument, value, choices] = /Argument: ([\w-]+), Given: (.*), Choices: (.*)$/m.exec(message) ?? [];
  if (choices !== undefined)
    return usageError(
      `${words.includes(`--${argument}`) ? `--${argument}` : argument} must be one of ${choices.replaceAll('"', '')}, not ${value}`,
      see,
    );
  return usageError(message, see);
}

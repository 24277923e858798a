import type { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { usageError } from './output.js';

/** A command line that the parser refused. */
export interface WrongWords {
  readonly words: readonly string[];
  /** Undefined if they begin with none. */
  readonly command: string | undefined;
  /** The options that the command takes, without dashes. */
  readonly options: readonly string[];
}

/** An option by its flag, with the one that may have been meant. */
function unknownOption(flag: string, options: readonly string[]): string {
  const [near] = nearest(flag.replace(/^-+/, ''), options, 1);
  return near === undefined ? flag : `${flag} (did you mean --${near}?)`;
}

/**
 * What is wrong with words that are no options is said without them: a word too many may be the key of a profile.
 * @param names what yargs does not know, without dashes
 */
function unknownWords(names: readonly string[], { words, options }: WrongWords): string {
  const end = words.indexOf('--');
  const given = end < 0 ? words : words.slice(0, end);
  const flags = given.filter((word) => /^-{1,2}[^-]/.test(word)).map((word) => word.split('=')[0] as string);
  const known = new Set(options.flatMap((name) => [`--${name}`, `-${name}`]));
  const unknown = [...new Set(flags)].filter((flag) => !known.has(flag));
  if (unknown.length > 0) return `no such option: ${unknown.map((flag) => unknownOption(flag, options)).join(', ')}`;
  return names.length === 1 ? 'one word too many' : `${names.length} words too many`;
}

/** The error for a command line that yargs refused with `message`. */
export function wrongWords(message: string, wrong: WrongWords): CdsyncError {
  const { words, command } = wrong;
  const [first = '', second = ''] = words;
  const see = `see: cdsync ${command === undefined ? '' : `${command} `}--help`;
  const [, near] = /^Did you mean (\S+)\?$/.exec(message) ?? [];
  const instead = near === undefined ? '' : `; did you mean "${near}"?`;
  if (first !== '' && !first.startsWith('-') && command === undefined)
    return usageError(`there is no command "${first}"${instead}`, see);
  if (near !== undefined) return usageError(`there is no command "${first} ${second}"${instead}`, see);
  const [, names] = /^Unknown arguments?: (.*)$/s.exec(message) ?? [];
  if (names !== undefined) return usageError(unknownWords(names.split(', '), wrong), see);
  const [, valueless] = /^Not enough arguments following: (.*)$/.exec(message) ?? [];
  if (valueless !== undefined) return usageError(`--${valueless} needs a value`, see);
  if (/^Not enough non-option arguments/.test(message)) return usageError('a word is missing', see);
  return usageError(message, see);
}

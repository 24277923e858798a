import type { Argv } from 'yargs';
import { type LogFormat, logFormats, logFormatVariable } from './log-line.js';
import { usageError } from './output.js';

/** The configuration file as first word. */
export function configPositional<T>(parser: Argv<T>) {
  return parser.positional('config', { type: 'string', describe: 'configuration file [default: ./cdsync.yaml]' });
}

export function jobOption<T>(parser: Argv<T>) {
  return parser.option('job', { type: 'string', requiresArg: true, describe: 'the job, where the file has several' });
}

/** An option that takes a text. */
export function textOption(describe: string) {
  return { type: 'string', requiresArg: true, describe } as const;
}

/**
 * One of a few words, for an option with a dash in its name: of those yargs checks no `choices`, since it has taken the name
 * with the dash away by then.
 */
export function oneOf<const V extends readonly string[]>(flag: string, words: V, describe: string) {
  const coerce = (word: string): V[number] => {
    // What was given twice is refused for that.
    if (words.includes(word) || Array.isArray(word)) return word;
    throw usageError(`--${flag} is none of ${words.join(', ')}`, 'leave it out for the default');
  };
  return { ...textOption(`${describe} [choices: ${words.join(', ')}]`), coerce } as const;
}

/** How standard error is to be written. @throws {CdsyncError} `usage` */
export function logFormat(written: string | string[]): LogFormat {
  const format = logFormats.find((known) => known === written);
  if (format !== undefined) return format;
  throw usageError(`--log-format, or $${logFormatVariable}, is none of text, json`, 'leave it out for text');
}

/** The words of a command whose first may name the configuration file. */
export function configAndWords(all: readonly string[]): { config: string | undefined; words: readonly string[] } {
  const [first = '', ...rest] = all;
  return /^[^=]+\.(ya?ml|json)$/.test(first) ? { config: first, words: rest } : { config: undefined, words: all };
}

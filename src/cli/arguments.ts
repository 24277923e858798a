import type { Argv } from 'yargs';
import { type LogFormat, logFormats, logFormatVariable } from './log-line.js';
import { usageError } from './output.js';

/** The configuration file, as the first word of a command. */
export function configPositional<T>(parser: Argv<T>) {
  return parser.positional('config', { type: 'string', describe: 'configuration file [default: ./cdsync.yaml]' });
}

export function jobOption<T>(parser: Argv<T>) {
  return parser.option('job', { type: 'string', requiresArg: true, describe: 'the job, if the file has several' });
}

/** For commands that work on several jobs, one after the other. */
export function jobsOptions<T>(parser: Argv<T>) {
  return parser.options({
    job: {
      type: 'string',
      array: true,
      requiresArg: true,
      describe: 'the job, if the file has several; may be given again',
    },
    all: { type: 'boolean', default: false, describe: 'all jobs of the file, one after the other' },
  });
}

/** An option that takes a text. */
export function textOption(describe: string) {
  return { type: 'string', requiresArg: true, describe } as const;
}

/**
 * An option that takes one of a few words. For options with a dash in their name: yargs does not check their `choices`,
 * because it has removed the name with the dash by then.
 */
export function oneOf<const V extends readonly string[]>(flag: string, words: V, describe: string) {
  const coerce = (word: string): V[number] => {
    // A list is an option that was given twice; the command line refuses it for that.
    if (words.includes(word) || Array.isArray(word)) return word;
    throw usageError(`--${flag} is none of ${words.join(', ')}`, 'leave it out for the default');
  };
  return { ...textOption(`${describe} [choices: ${words.join(', ')}]`), coerce } as const;
}

/** The format of standard error. @throws {CdsyncError} `usage` */
export function logFormat(written: string | string[]): LogFormat {
  const format = logFormats.find((known) => known === written);
  if (format !== undefined) return format;
  throw usageError(`--log-format, or $${logFormatVariable}, is none of text, json`, 'leave it out for text');
}

/** Splits the words of a command: the first may name the configuration file. Keys (`a=b`) and SQL are no such names. */
export function configAndWords(all: readonly string[]): { config: string | undefined; words: readonly string[] } {
  const [first = '', ...rest] = all;
  return /^[^='"()]+\.(ya?ml|json)$/.test(first) ? { config: first, words: rest } : { config: undefined, words: all };
}

/** The options of every command. */
export function commonOptions() {
  return {
    json: { type: 'boolean', default: false, describe: 'one JSON document on standard output, nothing else there' },
    'env-file': { type: 'string', requiresArg: true, describe: 'file of variables for the configuration' },
    quiet: { type: 'boolean', default: false, describe: 'no progress, no notices; warnings about the work stay' },
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
  } as const;
}

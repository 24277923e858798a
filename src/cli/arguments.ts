import type { Argv } from 'yargs';
import { usageError } from './output.js';

/** The configuration file as first word. */
export function configPositional<T>(parser: Argv<T>) {
  return parser.positional('config', { type: 'string', describe: 'configuration file [default: ./cdsync.yaml]' });
}

export function jobOption<T>(parser: Argv<T>) {
  return parser.option('job', { type: 'string', requiresArg: true, describe: 'the job, where the file has several' });
}

/** A text that may be given once; yargs makes a list of more. */
export function single(flag: string, describe: string) {
  const coerce = (value: string | string[]) => {
    if (!Array.isArray(value)) return value;
    throw usageError(`--${flag} was given more than once`, 'leave one of them');
  };
  return { type: 'string', requiresArg: true, describe, coerce } as const;
}

/** The words of a command whose first may name the configuration file. */
export function configAndWords(all: readonly string[]): { config: string | undefined; words: readonly string[] } {
  const [first = '', ...rest] = all;
  return /^[^=]+\.(ya?ml|json)$/.test(first) ? { config: first, words: rest } : { config: undefined, words: all };
}

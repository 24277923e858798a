import { existsSync } from 'node:fs';
import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';
import { printable } from '../core/printable.js';
import { type CommonArguments, type LogFormat, logFormats, logFormatVariable, usageError } from './output.js';

/** A command: the options that it adds to those of `Before`, and its handler. */
export interface Command<Before, After> {
  builder(parser: Argv<Before>): Argv<After>;
  handler(args: ArgumentsCamelCase<After>): void | Promise<void>;
}

/** The name of a command out of its usage: `run` of `run [config]`. */
export function nameOf({ command }: CommandModule): string {
  return String(command).split(' ')[0] ?? '';
}

/** Options of the commands that work on one job of a configuration. */
export interface JobArguments extends CommonArguments {
  config?: string | undefined;
  job?: string | undefined;
}

/** Options of the commands that work on several jobs, one after the other. */
export interface JobsArguments extends CommonArguments {
  config?: string | undefined;
  job?: string[] | undefined;
  all: boolean;
}

/** The configuration file, as the first word of a command. */
export function configPositional<T>(parser: Argv<T>) {
  return parser.positional('config', { type: 'string', describe: 'configuration file [default: ./cdsync.yaml]' });
}

export function jobOption<T>(parser: Argv<T>) {
  return parser.option('job', textOption('the job, if the file has several'));
}

/** For commands that work on several jobs, one after the other. */
export function jobsOptions<T>(parser: Argv<T>) {
  return parser.options({
    job: many('the job, if the file has several; may be given again'),
    all: flag('all jobs of the file, one after the other'),
  });
}

/** An option that is on or off. */
export function flag(describe: string) {
  return { type: 'boolean', default: false, describe } as const;
}

/** An option that takes a text, and may be given again. The same text twice counts once. */
export function many(describe: string) {
  const coerce = (words: string[] | undefined) => words && [...new Set(words)];
  return { type: 'string', array: true, requiresArg: true, describe, coerce } as const;
}

/** The arguments of a command that takes several. */
export function positionals(describe: string) {
  return { type: 'string', array: true, demandOption: true, describe } as const;
}

/** An option that takes a text. */
export function textOption(describe: string) {
  return { type: 'string', requiresArg: true, describe } as const;
}

/** An option that takes a whole number of a range. */
export function wholeNumber(flag: string, describe: string, [min, max]: readonly [min: number, max?: number]) {
  const coerce = (word: unknown): number => {
    const number = Number(word);
    if (word !== '' && Number.isSafeInteger(number) && number >= min && number <= (max ?? number)) return number;
    // A list is an option that was given twice; the command line refuses it for that.
    if (Array.isArray(word)) return word as unknown as number;
    const range = max === undefined ? `a whole number from ${min}` : `an integer from ${min} to ${max}`;
    throw usageError(`--${flag} must be ${range}, not ${shownWord(word)}`, 'leave it out for the default');
  };
  return { ...textOption(describe), coerce } as const;
}

/**
 * An option that takes one of a few words. For options with a dash in their name: yargs does not check their `choices`,
 * because it has removed the name with the dash by then.
 */
export function oneOf<const V extends readonly string[]>(flag: string, words: V, describe: string) {
  const coerce = (word: string): V[number] => {
    // A list is an option that was given twice; the command line refuses it for that.
    if (words.includes(word) || Array.isArray(word)) return word;
    throw usageError(`--${flag} must be ${choiceOf(words)}, not ${shownWord(word)}`, 'leave it out for the default');
  };
  return { ...textOption(`${describe} [choices: ${words.join(', ')}]`), coerce } as const;
}

/** A word of the command line for a message. */
export function shownWord(word: unknown): string {
  return JSON.stringify(printable(String(word)).slice(0, 60));
}

/** `a, b or c` */
function choiceOf(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** The format of standard error. @throws {CdsyncError} `usage` */
function logFormat(written: string | string[]): LogFormat {
  const format = logFormats.find((format) => format === written);
  if (format !== undefined) return format;
  throw usageError(
    `--log-format, or $${logFormatVariable}, must be text or json, not ${shownWord(written)}`,
    'leave it out for text',
  );
}

const configFile = /\.(ya?ml|json)$/;

/** What SQL, keys (`a=b`) and paths may have; no SQL begins like a path. */
const otherSigns = /[='"()]/;
const pathStart = /^(\/(?!\*)|\.\.?\/)/;

function namesConfig(word: string): boolean {
  return configFile.test(word) && (!otherSigns.test(word) || pathStart.test(word) || existsSync(word));
}

/** Splits the words of a command: the first may name the configuration file. Keys (`a=b`) and SQL are no such names. */
export function configAndWords(all: readonly string[]): { config: string | undefined; words: readonly string[] } {
  const [first = '', ...rest] = all;
  if (namesConfig(first)) return { config: first, words: rest };
  const last = rest.at(-1);
  // SQL may end in such a word.
  if (last !== undefined && !otherSigns.test(last) && namesConfig(last) && !/\s/.test(last))
    throw usageError(`the configuration file must be first: ${last}`, 'write it before the other words');
  return { config: undefined, words: all };
}

/** The options of every command. */
export function commonOptions() {
  return {
    json: flag('print one JSON document on standard output'),
    'env-file': textOption('file of variables for the configuration'),
    quiet: flag('hide progress and notices; summary and warnings remain'),
    verbose: flag('also show causes of errors and the memory plan'),
    'show-values': flag('show values of records, which are personal data'),
    'log-format': {
      type: 'string',
      requiresArg: true,
      default: process.env[logFormatVariable] || 'text',
      defaultDescription: `$${logFormatVariable}, or text`,
      coerce: logFormat,
      describe: 'log format: text or JSON lines [choices: text, json]',
    },
  } as const;
}

/** The service, given as flags instead of a configuration file. Secrets come only from the environment. */
export interface ServiceArguments extends CommonArguments {
  baseUrl?: string | undefined;
  tenantId?: string | undefined;
  tenantHeader?: string | undefined;
  oauthTenantHeader?: string | undefined;
  oauthTokenUrl?: string | undefined;
  allowHttp?: boolean | undefined;
  auth?: 'token' | 'oauth' | 'token_file' | undefined;
  tokenFile?: string | undefined;
}

export function serviceOptions<T>(parser: Argv<T>) {
  return parser.options({
    'base-url': textOption('address of the service, without /api [default: $CDS_BASE_URL]'),
    'tenant-id': textOption('the tenant or sandbox [default: $CDS_TENANT_ID]'),
    'tenant-header': textOption('real name of the tenant header'),
    'oauth-tenant-header': textOption('the same at the token endpoint'),
    'oauth-token-url': textOption('the token endpoint, if it is on another host'),
    'allow-http': flag('send tokens and profiles to another machine over http://, where others can read them'),
    auth: {
      choices: ['token', 'oauth', 'token_file'] as const,
      requiresArg: true,
      describe: 'log in with $CDS_TOKEN, with $CDS_CLIENT_ID and $CDS_CLIENT_SECRET, or with a file',
      defaultDescription: 'the one that is set',
    },
    'token-file': textOption('file that holds a token'),
  });
}

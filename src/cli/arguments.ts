import type { Argv } from 'yargs';

/** The configuration file as first word. */
export function configPositional<T>(parser: Argv<T>) {
  return parser.positional('config', { type: 'string', describe: 'configuration file [default: ./cdsync.yaml]' });
}

export function jobOption<T>(parser: Argv<T>) {
  return parser.option('job', { type: 'string', requiresArg: true, describe: 'the job, where the file has several' });
}

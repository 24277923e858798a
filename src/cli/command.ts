import type { ArgumentsCamelCase, Argv } from 'yargs';

/** A command: the options that it adds to those of `Given`, and what it does with them. */
export interface Command<Given, Taken> {
  builder(parser: Argv<Given>): Argv<Taken>;
  handler(args: ArgumentsCamelCase<Taken>): void | Promise<void>;
}

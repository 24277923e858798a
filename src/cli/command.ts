import type { ArgumentsCamelCase, Argv } from 'yargs';

/** A command: the words that it takes beside those of `Given`, and what it does with them. */
export interface Command<Given, Taken> {
  builder(parser: Argv<Given>): Argv<Taken>;
  handler(args: ArgumentsCamelCase<Taken>): void | Promise<void>;
}

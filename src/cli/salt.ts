import { randomBytes } from 'node:crypto';
import type { Command } from './arguments.js';
import { type CommonArguments, Output } from './output.js';

/** `cdsync salt`: prints a new key for the hashes of a column. It is stored nowhere. */
export const saltCommand: Command<CommonArguments, CommonArguments> = {
  builder: (parser) =>
    parser.epilogue('Another salt gives other hashes: keep it as long as hashes must be comparable.'),
  handler: (args) => {
    const output = new Output(args);
    const salt = randomBytes(32).toString('hex');
    output.document({ salt });
    output.resultData(salt);
  },
};

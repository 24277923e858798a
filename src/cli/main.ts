#!/usr/bin/env node
import { asCdsyncError } from '../core/errors.js';
import { commonArguments, runCommandLine } from './command-line.js';
import { logStrayWarnings } from './log-line.js';
import { exitCodeOf, Output } from './output.js';
import { outliveReaders } from './standard-streams.js';

/** An error that nothing caught ends the process like any other error, and is written in the format of the log. */
function catchStray(output: Output): void {
  if (output.logsJson) logStrayWarnings((message) => output.notice(`warning: ${message}`));
  process.on('uncaughtException', (thrown) => {
    const error = asCdsyncError(thrown);
    output.error(error);
    process.exit(exitCodeOf(error));
  });
}

const words = process.argv.slice(2);
outliveReaders();
catchStray(new Output(commonArguments(words)));
await runCommandLine(words);

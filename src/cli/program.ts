import { setFlagsFromString } from 'node:v8';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { commonArguments, runCommandLine } from './command-line.js';
import { exitCodeOf, failureDocument, logStrayWarnings, Output } from './output.js';
import { surviveClosedPipes } from './standard-streams.js';

/** An error that nothing caught ends the process like any other error, and is written in the format of the log. */
function catchStray(output: Output): void {
  if (output.logsJson) logStrayWarnings((message) => output.notice(`warning: ${message}`));
  process.on('uncaughtException', (thrown) => {
    const error = asCdsyncError(thrown);
    output.error(error);
    process.exit(exitCodeOf(error));
  });
}

/**
 * After some ten responses, V8 compiles undici's HTTP parser again, with its optimizing compiler: 0.1 s of CPU time and 40 MB. With a
 * hundredth of the haste only runs of thousands of requests do that. V8 complains about options that it does not know.
 */
function deferOptimizing(): void {
  const [major = 0] = process.versions.node.split('.').map(Number);
  if (major <= 24) setFlagsFromString('--wasm-tiering-budget=180000000');
}

/**
 * zod compiles a function for each object that it checks. A run checks few objects, so that costs more than it saves: 0.03 s of CPU time
 * of 0.6. zod reads this setting when a schema is made, which is while modules load; its own `config` would load zod for each command.
 */
function checkWithoutCompiling(): void {
  Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });
}

/** What could not be shown is no success, whatever was done. */
function failWithoutOutput(output: Output, cause: Error): void {
  const error = new CdsyncError('standard output cannot be written', {
    code: 'output_failed',
    hint: 'the work continues without it: is the disk full to which the output is written?',
    cause,
  });
  output.error(error);
  process.on('exit', (code) => {
    if (code !== 0) return;
    output.last('free space for the output; what was done: cdsync status');
    process.exitCode = exitCodeOf(error);
  });
}

/** The folder in which the program was started has been removed, or may not be seen. */
function failWithoutFolder(output: Output): void {
  const error = new CdsyncError('the working directory is gone: change to another folder, and run the command again', {
    code: 'usage',
  });
  output.document(failureDocument(error));
  output.error(error);
  process.exitCode = exitCodeOf(error);
}

/**
 * The program, from the words of its command line to its exit code.
 * @param hasFolder whether the process has a working directory
 */
export async function runProgram({ hasFolder }: { readonly hasFolder: boolean }): Promise<void> {
  deferOptimizing();
  checkWithoutCompiling();
  const words = process.argv.slice(2);
  const output = new Output(commonArguments(words));
  surviveClosedPipes((error) => failWithoutOutput(output, error));
  catchStray(output);
  if (!hasFolder) return failWithoutFolder(output);
  await runCommandLine(words);
}

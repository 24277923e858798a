import { basename } from 'node:path';
import type { Command } from './command.js';
import { completionScripts, type Shell, shells } from './completion-scripts.js';
import { writeData } from './standard-streams.js';

interface CompletionArguments {
  shell?: Shell | undefined;
}

/** `cdsync completion`: prints a script that makes a shell complete the words of cdsync. */
export const completionCommand: Command<object, CompletionArguments> = {
  builder: (parser) =>
    parser
      .positional('shell', { choices: shells, describe: 'the shell [default: that of $SHELL, or bash]' })
      .epilogue(
        'For this shell: source <(cdsync completion bash). For each new one: add that line to its start-up file.',
      ),
  handler: ({ shell }) => {
    const own = basename(process.env.SHELL ?? '') as Shell;
    writeData(completionScripts[shell ?? (shells.includes(own) ? own : 'bash')]);
  },
};

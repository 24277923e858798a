import { basename } from 'node:path';
import type { Command } from './command.js';
import { completionScripts, type Shell, shells } from './completion-scripts.js';
import { type CommonArguments, Output } from './output.js';
import { writeData } from './standard-streams.js';

interface CompletionArguments extends CommonArguments {
  shell?: Shell | undefined;
}

/** `cdsync completion`: prints a script that makes a shell complete the words of cdsync. */
export const completionCommand: Command<CommonArguments, CompletionArguments> = {
  builder: (parser) =>
    parser
      .positional('shell', { choices: shells, describe: 'the shell [default: that of $SHELL, or bash]' })
      .epilogue(
        'For this shell: source <(cdsync completion bash). For each new one: add that line to its start-up file.',
      ),
  handler: (args) => {
    const output = new Output(args);
    const own = basename(process.env.SHELL ?? '') as Shell;
    const shell = args.shell ?? (shells.includes(own) ? own : 'bash');
    const script = completionScripts[shell];
    output.document({ shell, script });
    if (!output.isDocument) writeData(script);
  },
};

import { basename } from 'node:path';
import type { Command } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { terminalWidth, writeData } from './standard-streams.js';

/*
 * Each script asks `cdsync __complete SHELL WORD…` for the possible words at the cursor: one a line, then a tab and its description.
 * A last line `:any` or `:config` says that files are possible there too.
 */

const bash = `# bash completion of cdsync. For each new shell: echo 'source <(cdsync completion bash)' >> ~/.bashrc
_cdsync() {
  local current="\${COMP_WORDS[COMP_CWORD]}" line
  [ "$current" = "=" ] && current=""
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :any) compopt -o default ;;
      :config)
        compopt -o filenames
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
          compgen -f -X '!*.yaml' -- "$current"; compgen -f -X '!*.yml' -- "$current"
          compgen -f -X '!*.json' -- "$current"; compgen -d -- "$current")
        ;;
      ?*) COMPREPLY+=("\${line%%$'\\t'*}") ;;
    esac
  done < <("$1" __complete bash "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _cdsync cdsync
`;

const zsh = `#compdef cdsync
# zsh completion of cdsync. For each new shell: echo 'source <(cdsync completion zsh)' >> ~/.zshrc, below compinit
_cdsync() {
  local line files='' prefix=''
  local -a found
  [[ "$PREFIX" == --*=* ]] && prefix="\${PREFIX%%=*}="
  while IFS= read -r line; do
    case "$line" in
      :any) files='*' ;;
      :config) files='*.(yaml|yml|json)(-.)' ;;
      ?*) found+=("\${prefix}\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}") ;;
    esac
  done < <("\${words[1]}" __complete zsh "\${(@)words[2,CURRENT]}" 2>/dev/null)
  local nothing=1
  (( $#found )) && _describe -t words cdsync found && nothing=0
  [[ -n "$files" ]] && _files -g "$files" && nothing=0
  return nothing
}
if [[ "\${zsh_eval_context[-1]}" == loadautofunc ]]; then _cdsync "$@"; else compdef _cdsync cdsync; fi
`;

const fish = `# fish completion of cdsync. For each new shell: cdsync completion fish > ~/.config/fish/completions/cdsync.fish
function __cdsync_words
  set -l words (commandline -opc) (commandline -ct)
  set -l prefix (string match -r -- '^--[^=]+=' "$words[-1]")
  for line in ($words[1] __complete fish $words[2..-1] 2>/dev/null)
    switch $line
      case :any :config
        __fish_complete_path (commandline -ct)
      case '*'
        # In quotes: without them, an empty prefix would leave nothing of the line.
        printf '%s\\n' "$prefix$line"
    end
  end
end
complete -c cdsync -f -a '(__cdsync_words)'
`;

const completionScripts = { bash, zsh, fish } as const;

/** What to write so that a shell reads its script. */
const uses: Readonly<Record<Shell, string>> = {
  bash: 'source <(cdsync completion bash)',
  zsh: 'source <(cdsync completion zsh)',
  fish: 'cdsync completion fish | source',
};

type Shell = keyof typeof completionScripts;

const shells = Object.keys(completionScripts) as Shell[];

/** `cdsync completion`: prints a script that makes a shell complete the words of cdsync. */
export const completionCommand: Command<CommonArguments, CommonArguments & { shell?: Shell | undefined }> = {
  builder: (parser) =>
    parser
      .positional('shell', { choices: shells, describe: 'the shell [default: that of $SHELL]' })
      .epilogue(
        'For this shell: source <(cdsync completion bash). For each new one: add that line to its start-up file.',
      ),
  handler: (args) => {
    const output = new Output(args);
    const current = basename(process.env.SHELL ?? '') as Shell;
    const shell = args.shell ?? (shells.includes(current) ? current : undefined);
    if (shell === undefined)
      throw usageError('missing argument: bash, zsh or fish', `for example, in bash: ${uses.bash}`);
    const script = completionScripts[shell];
    output.document({ shell, script });
    if (output.isDocument) return;
    writeData(script);
    if (terminalWidth() !== undefined) output.notice(`\nThis is a script. To use it in this shell: ${uses[shell]}`);
  },
};

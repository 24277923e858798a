import type { Argv, CommandModule } from 'yargs';

/** An option, as completion needs it. */
export interface OptionWord {
  /** Without its dashes. */
  readonly name: string;
  readonly describe: string;
  readonly takesValue: boolean;
  readonly mayRepeat: boolean;
  readonly choices: readonly string[];
}

/** The words that a command takes. */
export interface CommandSpec {
  readonly options: readonly OptionWord[];
  readonly commands: readonly CommandModule[];
  /** The words of its first positional that has a closed list of them. */
  readonly choices: readonly string[];
}

interface Declared {
  readonly type?: string;
  readonly array?: boolean;
  readonly describe?: string;
  readonly choices?: readonly string[];
}

/** `choices`, or those that the description lists: yargs does not check choices of options with a dash in their name. */
function choicesOf({ choices, describe = '' }: Declared): readonly string[] {
  return choices ?? /\[choices: ([^\]]+)\]/.exec(describe)?.[1]?.split(', ') ?? [];
}

export function optionWord(name: string, declared: Declared): OptionWord {
  const { type, array = false, describe = '' } = declared;
  return { name, describe, takesValue: type !== 'boolean', mayRepeat: array, choices: choicesOf(declared) };
}

/** The name of a command out of its usage: `run` of `run [config]`. */
export function nameOf({ command }: CommandModule): string {
  return String(command).split(' ')[0] ?? '';
}

/**
 * The words that a command declares. Its builder gets a stand-in for yargs that only takes notes: nothing is parsed, and
 * what a handler needs is not loaded.
 */
export async function wordsOf({ builder }: CommandModule): Promise<CommandSpec> {
  const options: OptionWord[] = [];
  const commands: CommandModule[] = [];
  const choices: string[] = [];
  const note: Record<string, (...given: never[]) => void> = {
    option: (name: string, declared: Declared) => options.push(optionWord(name, declared)),
    options: (all: Readonly<Record<string, Declared>>) => {
      for (const [name, declared] of Object.entries(all)) options.push(optionWord(name, declared));
    },
    positional: (_: string, declared: Declared) => choices.push(...(declared.choices ?? [])),
    command: (module: CommandModule) => commands.push(module),
  };
  const parser: Argv = new Proxy({} as Argv, {
    // A promise would take the stand-in for another promise if it had `then`.
    get: (_, name) =>
      name === 'then'
        ? undefined
        : (...given: never[]) => {
            note[String(name)]?.(...given);
            return parser;
          },
  });
  if (typeof builder === 'function') await builder(parser);
  return { options, commands, choices };
}

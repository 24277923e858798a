import { readFile } from 'node:fs/promises';
import type { Argv, CommandModule } from 'yargs';
import { commonOptions, nameOf } from './arguments.js';
import { writeData } from './standard-streams.js';

/** An option or a positional, as a command declares it for yargs. */
interface Declared {
  readonly type?: string;
  readonly array?: boolean;
  readonly describe?: string;
  readonly choices?: readonly string[];
}

/** The words that a command takes. */
interface CommandSpec {
  /** By their names, without dashes. */
  readonly options: ReadonlyMap<string, Declared>;
  readonly commands: readonly CommandModule[];
  /** The words of its first positional that has a closed list of them. */
  readonly choices: readonly string[];
}

/** `choices`, or those that the description lists: yargs does not check choices of options with a dash in their name. */
function choicesOf({ choices, describe = '' }: Declared): readonly string[] {
  return choices ?? /\[choices: ([^\]]+)\]/.exec(describe)?.[1]?.split(', ') ?? [];
}

/**
 * The words that a command declares. Its builder gets a substitute for yargs that only takes notes: nothing is parsed, and
 * the modules of a handler are not loaded.
 */
async function wordsOf({ builder }: CommandModule): Promise<CommandSpec> {
  const options = new Map<string, Declared>();
  const commands: CommandModule[] = [];
  const choices: string[] = [];
  const note: Record<string, (...args: never[]) => void> = {
    option: (name: string, declared: Declared) => options.set(name, declared),
    options: (all: Readonly<Record<string, Declared>>) => {
      for (const [name, declared] of Object.entries(all)) options.set(name, declared);
    },
    positional: (_: string, declared: Declared) => choices.push(...(declared.choices ?? [])),
    command: (module: CommandModule) => commands.push(module),
  };
  const parser: Argv = new Proxy({} as Argv, {
    // A promise would take the substitute for another promise if it had `then`.
    get: (_, name) =>
      name === 'then'
        ? undefined
        : (...args: never[]) => {
            note[String(name)]?.(...args);
            return parser;
          },
  });
  if (typeof builder === 'function') await builder(parser);
  return { options, commands, choices };
}

/** A word that is possible at the cursor. */
interface Completion {
  readonly word: string;
  readonly describe: string;
}

/** The possible words there, and files if `files` says so. */
interface Completions {
  readonly words: readonly Completion[];
  /** `config`: files that can be a configuration. */
  readonly files: 'none' | 'any' | 'config';
}

/** Names in a configuration. */
interface ConfigNames {
  readonly job: string;
  readonly stream: readonly string[];
  readonly destination: readonly string[];
}

/** Everything that completion asks for. */
interface CompletionSource {
  readonly commands: readonly CommandModule[];
  /** The jobs of a configuration file; none if it cannot be read. @param file undefined for the default file */
  jobs(file: string | undefined): Promise<readonly ConfigNames[]>;
}

const isConfig = (word: string) => /\.(ya?ml|json)$/.test(word);
const fileOptions = new Set(['env-file', 'token-file', 'state', 'out']);
/** Commands whose words after the configuration are names of streams. */
const takesStreams = new Set(['diff', 'forget']);
const takesConfig = /\[config\]|[<[][a-z]+\.\.[>\]]/;

/** Makes two words of `--job=nightly`, which bash splits into three. */
function rejoined(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (const [at, word] of words.entries()) {
    const isSign = word === '=' && joined.at(-1)?.startsWith('--') === true;
    if (!isSign) joined.push(...(/^--[^=]+=/.test(word) ? splitOption(word) : [word]));
    else if (at === words.length - 1) joined.push('');
  }
  return joined;
}

function splitOption(word: string): string[] {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}

/** The words before the cursor, as they are understood. */
interface Line {
  readonly command: CommandModule | undefined;
  readonly words: CommandSpec;
  /** The command's words: not its name, no options, no values of options. */
  readonly positionals: readonly string[];
  /** Options before the cursor. */
  readonly options: ReadonlyMap<string, readonly string[]>;
  /** The name of the option whose value is at the cursor. */
  readonly awaiting: string | undefined;
}

async function read(before: readonly string[], commands: readonly CommandModule[]): Promise<Line> {
  const help = { type: 'boolean', describe: 'show help' };
  const version = { type: 'boolean', describe: 'show the version' };
  const common: Readonly<Record<string, Declared>> = { ...commonOptions(), help, version };
  let words: CommandSpec = { options: new Map(Object.entries(common)), commands, choices: [] };
  let command: CommandModule | undefined;
  const positionals: string[] = [];
  const options = new Map<string, string[]>();
  let awaiting: string | undefined;
  for (const word of before) {
    const next = positionals.length === 0 ? words.commands.find((command) => nameOf(command) === word) : undefined;
    if (awaiting !== undefined) {
      options.get(awaiting)?.push(word);
      awaiting = undefined;
    } else if (word.startsWith('--')) {
      const name = word.slice(2);
      options.set(name, options.get(name) ?? []);
      const option = words.options.get(name);
      if (option !== undefined && option.type !== 'boolean') awaiting = name;
    } else if (next === undefined) positionals.push(word);
    else {
      command = next;
      const below = await wordsOf(next);
      // The options above a command apply below it too.
      words = { ...below, options: new Map([...below.options, ...words.options]) };
    }
  }
  return { command, words, positionals, options, awaiting };
}

const named = (words: readonly string[], describe: string): Completion[] =>
  [...new Set(words)].map((word) => ({ word, describe }));

/** Names in the configuration: of its jobs, or of streams or destinations of the jobs that the line chooses. */
async function namesOf(
  kind: keyof ConfigNames,
  { options, positionals }: Line,
  source: CompletionSource,
): Promise<Completion[]> {
  const jobs = await source.jobs(positionals.find(isConfig));
  const chosen = kind === 'job' ? [] : (options.get('job') ?? []);
  const among = jobs.filter(({ job }) => chosen.length === 0 || chosen.includes(job));
  const names = among.flatMap((job) => job[kind]);
  return named(names, kind);
}

/** The possible values of an option. */
async function valuesOf(name: string, line: Line, source: CompletionSource): Promise<Completions> {
  const choices = choicesOf(line.words.options.get(name) ?? {});
  if (choices.length > 0) return { words: named(choices, ''), files: 'none' };
  if (fileOptions.has(name)) return { words: [], files: 'any' };
  if (name !== 'job' && name !== 'stream' && name !== 'destination') return { words: [], files: 'none' };
  return { words: await namesOf(name, line, source), files: 'none' };
}

function optionsOf({ words, options }: Line): Completion[] {
  return [...words.options]
    .filter(([name, { array }]) => array === true || !options.has(name))
    .map(([name, { describe = '' }]) => ({ word: `--${name}`, describe }));
}

/** The possible words that are not options. */
async function positionalsOf(line: Line, source: CompletionSource): Promise<Completions> {
  const { command, words, positionals } = line;
  const isFirst = positionals.length === 0;
  if (isFirst && words.choices.length > 0) return { words: named(words.choices, ''), files: 'none' };
  if (isFirst && words.commands.length > 0) {
    const shown = words.commands.filter(({ describe }) => typeof describe === 'string');
    return {
      words: shown.map((command) => ({ word: nameOf(command), describe: String(command.describe) })),
      files: 'none',
    };
  }
  const usage = String(command?.command ?? '');
  const filesInUsage = takesConfig.test(usage) ? 'config' : /\[(file|folder)\]/.test(usage) ? 'any' : 'none';
  const files = isFirst ? filesInUsage : 'none';
  const takesStream = command !== undefined && takesStreams.has(nameOf(command)) && positionals.every(isConfig);
  return { words: takesStream ? await namesOf('stream', line, source) : [], files };
}

/**
 * The possible words at the cursor.
 * @param words of the command line after `cdsync`, up to the one that the cursor is in, which may be empty
 */
export async function completionsOf(words: readonly string[], source: CompletionSource): Promise<Completions> {
  const all = rejoined(words);
  const current = all.at(-1) ?? '';
  const line = await read(all.slice(0, -1), source.commands);
  const possible =
    line.awaiting !== undefined
      ? await valuesOf(line.awaiting, line, source)
      : current.startsWith('-')
        ? { words: optionsOf(line), files: 'none' as const }
        : await positionalsOf(line, source);
  return { ...possible, words: possible.words.filter(({ word }) => word.startsWith(current)) };
}

/** Names that need no quotes and that no terminal takes for a command. */
const isName = (name: unknown): name is string => typeof name === 'string' && /^[a-z][a-z0-9_]{0,47}$/.test(name);

const namesIn = (list: unknown): string[] =>
  Array.isArray(list) ? list.map((destination) => (destination as { name?: unknown } | null)?.name).filter(isName) : [];

/** The names in a configuration, which may be unfinished. Nothing but names is taken from it. */
async function jobsOf(file = 'cdsync.yaml'): Promise<ConfigNames[]> {
  const { parse } = await import('yaml');
  try {
    const { jobs = {}, defaults } = parse(await readFile(file, 'utf8'), { logLevel: 'silent' });
    return Object.entries(jobs as Record<string, { streams?: unknown; destinations?: unknown } | null>)
      .filter(([job]) => isName(job))
      .map(([job, of]) => ({
        job,
        stream: namesIn(of?.streams ?? defaults?.streams),
        destination: namesIn(of?.destinations ?? defaults?.destinations),
      }));
  } catch {
    return [];
  }
}

/**
 * Writes the possible words at the cursor, for the scripts of `cdsync completion`.
 * @param args the shell, then the words after `cdsync`
 */
export async function answerShell(
  [, ...words]: readonly string[],
  commands: CompletionSource['commands'],
): Promise<void> {
  const { words: possible, files } = await completionsOf(words, { commands, jobs: jobsOf });
  const lines = possible.map(({ word, describe }) => `${word}\t${describe}`);
  writeData([...lines, ...(files === 'none' ? [] : [`:${files}`])].map((line) => `${line}\n`).join(''));
}

import { readFile } from 'node:fs/promises';
import type { Argv, CommandModule } from 'yargs';
import { commonOptions } from './arguments.js';
import { writeData } from './standard-streams.js';

/** An option, as completion needs it. */
interface OptionWord {
  /** Without its dashes. */
  readonly name: string;
  readonly describe: string;
  readonly takesValue: boolean;
  readonly mayRepeat: boolean;
  readonly choices: readonly string[];
}

/** The words that a command takes. */
interface CommandSpec {
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
 * The words that a command declares. Its builder gets a substitute for yargs that only takes notes: nothing is parsed, and
 * the modules of a handler are not loaded.
 */
export async function wordsOf({ builder }: CommandModule): Promise<CommandSpec> {
  const options: OptionWord[] = [];
  const commands: CommandModule[] = [];
  const choices: string[] = [];
  const note: Record<string, (...args: never[]) => void> = {
    option: (name: string, declared: Declared) => options.push(optionWord(name, declared)),
    options: (all: Readonly<Record<string, Declared>>) => {
      for (const [name, declared] of Object.entries(all)) options.push(optionWord(name, declared));
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
  readonly streams: readonly string[];
  readonly destinations: readonly string[];
}

/** Everything that completion asks for. */
interface CompletionSource {
  readonly commands: readonly CommandModule[];
  /** Options of every command. */
  readonly common: readonly OptionWord[];
  /** The jobs of a configuration file; none if it cannot be read. @param file undefined for the default file */
  jobs(file: string | undefined): Promise<readonly ConfigNames[]>;
}

const nothing: Completions = { words: [], files: 'none' };
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

interface Found {
  readonly command: CommandModule | undefined;
  readonly words: CommandSpec;
  /** The command's words: not its name, no options, no values of options. */
  readonly positionals: readonly string[];
  /** Options before the cursor. */
  readonly options: ReadonlyMap<string, readonly string[]>;
  /** The option whose value is at the cursor. */
  readonly awaiting: OptionWord | undefined;
}

/** Reads the words before the cursor. */
async function find(before: readonly string[], { commands, common }: CompletionSource): Promise<Found> {
  let words: CommandSpec = { options: common, commands, choices: [] };
  let command: CommandModule | undefined;
  const positionals: string[] = [];
  const options = new Map<string, string[]>();
  let awaiting: OptionWord | undefined;
  for (const word of before) {
    if (awaiting !== undefined) {
      options.get(awaiting.name)?.push(word);
      awaiting = undefined;
    } else if (word.startsWith('--')) {
      const option = words.options.find(({ name }) => `--${name}` === word);
      const name = option?.name ?? word.slice(2);
      options.set(name, options.get(name) ?? []);
      if (option?.takesValue === true) awaiting = option;
    } else {
      const next = positionals.length === 0 ? words.commands.find((each) => nameOf(each) === word) : undefined;
      if (next === undefined) positionals.push(word);
      else {
        command = next;
        const own = await wordsOf(next);
        // The options above a command apply below it too.
        words = { ...own, options: [...own.options, ...words.options] };
      }
    }
  }
  return { command, words, positionals, options, awaiting };
}

const named = (words: readonly string[], describe: string): Completion[] =>
  [...new Set(words)].map((word) => ({ word, describe }));

/** The possible values of an option. */
async function valuesOf(
  option: OptionWord,
  { options, positionals }: Found,
  source: CompletionSource,
): Promise<Completions> {
  if (option.choices.length > 0) return { words: named(option.choices, ''), files: 'none' };
  if (fileOptions.has(option.name)) return { words: [], files: 'any' };
  if (!['job', 'stream', 'destination'].includes(option.name)) return nothing;
  const jobs = await source.jobs(positionals.find(isConfig));
  if (option.name === 'job')
    return {
      words: named(
        jobs.map(({ job }) => job),
        'job',
      ),
      files: 'none',
    };
  const chosen = options.get('job') ?? [];
  const among = jobs.filter(({ job }) => chosen.length === 0 || chosen.includes(job));
  const names = among.flatMap((each) => (option.name === 'stream' ? each.streams : each.destinations));
  return { words: named(names, option.name), files: 'none' };
}

function optionsOf({ words, options }: Found): Completion[] {
  return words.options
    .filter(({ name, mayRepeat }) => mayRepeat || !options.has(name))
    .map(({ name, describe }) => ({ word: `--${name}`, describe }));
}

/** The possible words that are not options. */
async function positionalsOf(found: Found, source: CompletionSource): Promise<Completions> {
  const { command, words, positionals } = found;
  if (words.commands.length > 0 && positionals.length === 0 && !words.choices.length) {
    return {
      words: words.commands
        .filter(({ describe }) => typeof describe === 'string')
        .map((each) => ({ word: nameOf(each), describe: String(each.describe) })),
      files: 'none',
    };
  }
  if (positionals.length === 0 && words.choices.length > 0) return { words: named(words.choices, ''), files: 'none' };
  const usage = String(command?.command ?? '');
  const mayBeConfig = positionals.length === 0 && takesConfig.test(usage);
  const files = mayBeConfig ? 'config' : /\[(file|folder)\]/.test(usage) && positionals.length === 0 ? 'any' : 'none';
  if (command === undefined || !takesStreams.has(nameOf(command)) || positionals.some((word) => !isConfig(word)))
    return { words: [], files };
  const jobs = await source.jobs(positionals.find(isConfig));
  const chosen = found.options.get('job') ?? [];
  const streams = jobs.filter(({ job }) => chosen.length === 0 || chosen.includes(job)).flatMap((each) => each.streams);
  return { words: named(streams, 'stream'), files };
}

/**
 * The possible words at the cursor.
 * @param words of the command line after `cdsync`, up to the one that the cursor is in, which may be empty
 */
export async function completionsOf(words: readonly string[], source: CompletionSource): Promise<Completions> {
  const all = rejoined(words);
  const current = all.at(-1) ?? '';
  const found = await find(all.slice(0, -1), source);
  const possible =
    found.awaiting !== undefined
      ? await valuesOf(found.awaiting, found, source)
      : current.startsWith('-')
        ? { words: optionsOf(found), files: 'none' as const }
        : await positionalsOf(found, source);
  return { ...possible, words: possible.words.filter(({ word }) => word.startsWith(current)) };
}

/** Names that need no quotes and that no terminal takes for a command. */
const isName = (name: unknown): name is string => typeof name === 'string' && /^[a-z][a-z0-9_]{0,47}$/.test(name);

const namesIn = (list: unknown): string[] =>
  Array.isArray(list) ? list.map((each) => (each as { name?: unknown } | null)?.name).filter(isName) : [];

/** The names in a configuration, which may be unfinished. Nothing but names is taken from it. */
async function jobsOf(file = 'cdsync.yaml'): Promise<ConfigNames[]> {
  const { parse } = await import('yaml');
  try {
    const { jobs = {}, defaults } = parse(await readFile(file, 'utf8'), { logLevel: 'silent' });
    return Object.entries(jobs as Record<string, { streams?: unknown; destinations?: unknown } | null>)
      .filter(([job]) => isName(job))
      .map(([job, of]) => ({
        job,
        streams: namesIn(of?.streams ?? defaults?.streams),
        destinations: namesIn(of?.destinations ?? defaults?.destinations),
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
  const help = { type: 'boolean', describe: 'show help' } as const;
  const version = { type: 'boolean', describe: 'show the version' } as const;
  const common = Object.entries({ ...commonOptions(), help, version });
  const source: CompletionSource = {
    commands,
    common: common.map(([name, declared]) => optionWord(name, declared)),
    jobs: jobsOf,
  };
  const { words: found, files } = await completionsOf(words, source);
  const lines = found.map(({ word, describe }) => `${word}\t${describe}`);
  writeData([...lines, ...(files === 'none' ? [] : [`:${files}`])].map((line) => `${line}\n`).join(''));
}

/** The file and the jobs that a command line needs besides its own words, to work on those of the present one. */
export interface CommandPlace {
  /** The configuration file as it was given; undefined for `./cdsync.yaml`. */
  readonly config?: string | undefined;
  readonly envFile?: string | undefined;
  /** The jobs, if the file has several. */
  readonly jobs?: readonly string[] | 'all' | undefined;
  /** The flags that say where the service is, if no configuration does. */
  readonly service?: readonly string[] | undefined;
  /** Whether only the file is looked at: another check than that would want its variables. */
  readonly isOffline?: boolean;
}

const ofJobs = 'run|plan|check|status|push|verify|report';
const ofOneJob = 'query|diff|forget|approve|discard|state show|state reset';
const ofService = 'discover|lookup|workflow start|workflow status|workflow stop';
/** A configuration, as {@link shellWord} gives it. */
const named = "( (?:'(?:[^']|'\\\\'')*\\.(?:ya?ml|json)'|[\\w@%+=:,./-]+\\.(?:ya?ml|json))(?=[\\s,;:()`]|$))?";
const commands = new RegExp(`\\bcdsync (${ofJobs}|${ofOneJob}|${ofService})(?![\\w-])${named}([^,;:()\`\\n]*)`, 'g');

/** A word as the shell reads it back. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A path that no command takes for an option. */
function pathWord(path: string): string {
  return shellWord(path.startsWith('-') ? `./${path}` : path);
}

function jobWords(command: string, jobs: CommandPlace['jobs'], rest: string): string[] {
  if (jobs === undefined || / --(job|all)\b/.test(rest)) return [];
  const takesSeveral = ofJobs.split('|').includes(command);
  if (jobs === 'all') return takesSeveral ? ['--all'] : [];
  return (takesSeveral ? jobs : jobs.slice(0, 1)).map((job) => `--job ${shellWord(job)}`);
}

/**
 * Completes the commands of a text, `cdsync push --full` for example, with the words without which they would work on something
 * else: the configuration, the jobs, the file of variables. Each can then be pasted into a shell as it is.
 */
export function completed(text: string, { config, envFile, jobs, service = [], isOffline }: CommandPlace): string {
  return text.replace(commands, (whole: string, command: string, suffix: string | undefined, rest: string) => {
    if (/^ --help\b/.test(rest)) return whole;
    const asksService = ofService.split('|').includes(command);
    // A text may come through here twice, and be shown from another folder the second time.
    const file = config === undefined ? (suffix ?? '') : ` ${pathWord(config)}`;
    const variables = envFile === undefined || rest.includes(' --env-file ') ? [] : [`--env-file ${pathWord(envFile)}`];
    const flags = rest.includes(` ${service[0]} `) ? [] : service.map(shellWord);
    const words = asksService ? flags : jobWords(command, jobs, rest);
    if (isOffline && command === 'check' && !rest.includes(' --offline')) words.push('--offline');
    // Flags come after the name of the configuration.
    return `cdsync ${command}${file}${[...words, ...variables].map((word) => ` ${word}`).join('')}${rest}`;
  });
}

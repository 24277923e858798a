import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { CdsyncError, interrupted } from '../core/errors.js';
import type { JobReport, RunReport } from '../core/run-report.js';
import { type Command, wholeNumber } from './arguments.js';
import { interruption } from './interruption.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { commandText, ended, shellWord, startCommand } from './own-command.js';
import { defaultProfiles, type LocalLogin, QuickstartFolder, quickstartJob, servicePort } from './quickstart-folder.js';

/** The port if nothing on this machine listens there, otherwise 0: any free one. */
export function freePort(port: number, host = '127.0.0.1'): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(0));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(port)));
  });
}

interface QuickstartArguments extends CommonArguments {
  folder: string;
  profiles?: number | undefined;
}

/** The document that `cdsync serve --json` writes once it listens. */
interface Listening extends LocalLogin {
  readonly url: string;
  readonly control_token: string;
}

const maxProfiles = 10_000_000;

/** `cdsync quickstart`: a local service, a job, and two days of it; once more, another day. */
export const quickstartCommand: Command<CommonArguments, QuickstartArguments> = {
  builder: (parser) =>
    parser
      .positional('folder', { type: 'string', default: '.', describe: 'where to write configuration and data' })
      .option(
        'profiles',
        wholeNumber('profiles', `profiles of the local service [default: ${defaultProfiles}]`, [100, maxProfiles]),
      )
      .epilogue('Needs no account and no network. Run it again: another day passes. It never overwrites a file.'),
  handler: async (args) => {
    process.exitCode = await new Quickstart(args, await QuickstartFolder.open(args.folder)).run();
  },
};

/** A command of the quickstart that ended with another exit code than 0. It has said why. */
class EndedWith extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`a command ended with exit code ${code}`);
    this.code = code;
  }
}

class Quickstart {
  readonly #output: Output;
  readonly #args: QuickstartArguments;
  readonly #folder: QuickstartFolder;
  readonly #profiles: number;
  readonly #signal: AbortSignal;
  readonly #jobs: JobReport[] = [];
  #env: NodeJS.ProcessEnv = {};

  /** @throws {CdsyncError} `usage` */
  constructor(args: QuickstartArguments, folder: QuickstartFolder) {
    this.#args = args;
    this.#folder = folder;
    this.#output = new Output(args);
    this.#profiles = args.profiles ?? folder.profiles ?? defaultProfiles;
    if (folder.profiles !== undefined && this.#profiles !== folder.profiles) {
      throw usageError(
        `the service of this quickstart has ${folder.profiles} profiles`,
        'leave out --profiles, or name another folder',
      );
    }
    this.#signal = interruption(this.#output).signal;
  }

  /** @returns the exit code */
  async run(): Promise<number> {
    await this.#folder.make();
    const service = await this.#startService();
    try {
      await this.#days(service.listening);
    } catch (error) {
      if (this.#signal.aborted) throw interrupted();
      if (!(error instanceof EndedWith)) throw error;
      // Held streams can be decided on without the service. All else needs it, and it stops now.
      if (error.code !== 3) this.#output.last(`${error.code === 2 ? 'correct it, then' : 'next'}: ${this.#again}`);
      return error.code;
    } finally {
      await service.stop();
    }
    this.#conclude();
    return 0;
  }

  /** The configuration file as the user names it: nothing where it is the default. */
  get #config(): string[] {
    const path = relative('.', this.#folder.config);
    return path === 'cdsync.yaml' ? [] : [path];
  }

  async #startService() {
    const profiles = this.#profiles.toLocaleString('en-US');
    this.#say(`Starting a Customer Data Service on this machine, with ${profiles} profiles ...`);
    // The address of the configuration, if it is free: to a job, a service at another one may have other records.
    const port = String(await freePort(servicePort));
    const words = ['--port', port, '--profiles', String(this.#profiles), '--state', this.#folder.state];
    const child = startCommand(['serve', '--json', '--quiet', ...words], { stdout: 'pipe', isConnected: true });
    const end = ended(child);
    const lines = createInterface(child.stdout as NodeJS.ReadableStream);
    const [line] = (await Promise.race([once(lines, 'line'), end.then(() => [undefined])])) as [string | undefined];
    const listening = line === undefined ? undefined : (JSON.parse(line) as Partial<Listening>);
    // A service that cannot start prints the document of its error.
    if (listening?.url === undefined) {
      await end;
      throw new CdsyncError('the local service did not start', {
        code: 'service_not_started',
        hint: `its message is above; it is this command: ${commandText(['serve', ...words])}`,
      });
    }
    const stop = async () => {
      child.kill('SIGTERM');
      await end;
    };
    return { listening: listening as Listening, stop };
  }

  async #days(service: Listening): Promise<void> {
    this.#env = {
      CDS_BASE_URL: service.url,
      CDS_TENANT_ID: service.tenant_id,
      CDS_CLIENT_ID: service.client_id,
      CDS_CLIENT_SECRET: service.client_secret,
    };
    if (this.#folder.profiles === undefined) {
      await this.#folder.write(service, this.#profiles);
      this.#say(`Wrote ${relative('.', this.#folder.config)}: a job of four streams.`);
      this.#say('', 'The first run reads everything.');
      await this.#job();
    }
    await nextDay(service);
    this.#say('', 'A day passes at the service. The next run reads the changes.');
    await this.#job();
    if (this.#args.json) return;
    this.#say('', 'Who changed tier since yesterday, from what to what (for each person, select key):');
    const changes =
      'select before, after, count(*) as members from members__last_changes as change' +
      " where change.column = 'tier' group by all order by all";
    await this.#command(['query', ...this.#config, changes]);
    this.#say('', 'Profiles that the service has merged or split, which it forgets itself after some weeks:');
    await this.#command([
      'query',
      ...this.#config,
      'select old_id, new_id, how from became order by _synced_at desc, how, old_id limit 10',
    ]);
  }

  async #job(): Promise<void> {
    const { stdout } = await this.#command(['run', ...this.#config]);
    if (this.#args.json) this.#jobs.push(...(JSON.parse(stdout) as RunReport).jobs);
  }

  /** Shows a command, and runs it to its end. @throws {EndedWith} */
  async #command(words: readonly string[]) {
    if (this.#signal.aborted) throw interrupted();
    this.#say('', `$ ${commandText(words)}`);
    const { json, quiet } = this.#args;
    const flags = [...(json ? ['--json'] : []), ...(json || quiet ? ['--quiet'] : [])];
    const child = startCommand([...words, ...flags], { env: this.#env, stdout: json ? 'pipe' : 'inherit' });
    const stop = () => child.kill('SIGTERM');
    this.#signal.addEventListener('abort', stop, { once: true });
    const result = await ended(child);
    this.#signal.removeEventListener('abort', stop);
    if (result.code === 0) return result;
    if (json) this.#output.documentText(result.stdout.trim());
    throw new EndedWith(result.code);
  }

  #say(...lines: readonly string[]): void {
    if (!this.#args.quiet) for (const line of lines) this.#output.result(line);
  }

  #conclude(): void {
    const { job, config } = this.#folder;
    const next = this.#next();
    this.#output.document({
      status: 'ok',
      config,
      jobs: this.#jobs,
      next: next.map(([command]) => command),
      error: null,
    });
    const path = (...names: string[]) => relative('.', join(job, ...names));
    this.#say(
      '',
      'Published:',
      `  ${path(`${quickstartJob}.duckdb`)}  for DuckDB 1.2 and later, opened read-only, also during a run:`,
      ...readingLines(path(`${quickstartJob}.duckdb`)).map((line) => `    ${line}`),
      `  ${path('parquet')}/<stream>/current/*.parquet  the same rows as Parquet`,
      `  ${path('reports')}/  a report of each run`,
      '',
      'Next:',
      ...next.flatMap(([command, does]) => [`  ${command}`, `      ${does}`]),
    );
  }

  /** This command again. */
  get #again(): string {
    return commandText(['quickstart', ...(this.#args.folder === '.' ? [] : [this.#args.folder])]);
  }

  /** Commands to paste, with their effect. */
  #next(): [command: string, does: string][] {
    const { state, job } = this.#folder;
    const ofConfig = (command: string, ...words: string[]) => commandText([command, ...this.#config, ...words]);
    const serve = ['serve', '--state', relative('.', state), '--profiles', String(this.#profiles)];
    return [
      [ofConfig('query', 'from members limit 5'), 'any SQL over the published tables'],
      ...(existsSync(join(job, 'reports', 'index.html'))
        ? ([[ofConfig('report', '--open'), 'the report of the last run, in the browser']] as [string, string][])
        : []),
      [ofConfig('diff', 'members', '--column', 'tier'), 'who changed tier, by key'],
      [ofConfig('status'), 'the last runs, and how fresh each stream is'],
      [this.#again, 'another day, another run'],
      [commandText(serve), `the service alone, in a second terminal; then here: ${ofConfig('run')}`],
      [commandText(['init', 'my-service.yaml']), 'a configuration for your own service'],
    ];
  }
}

/** Commands that show rows of the published file: it may not be written to, so programs must ask for less. */
function readingLines(path: string): string[] {
  const quoted = shellWord(path);
  const python = "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True).sql('from members limit 5').show()";
  return [`python3 -c "${python}" ${quoted}`, `duckdb -readonly ${quoted} "from members limit 5"`];
}

/** Lets a day pass in the local service. */
async function nextDay({ url, control_token }: Listening): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${control_token}` };
  const response = await fetch(`${url}/_control/change`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ days: 1 }),
  });
  if (response.ok) return;
  throw new CdsyncError(`the local service refused a day of changes: ${response.status}`, {
    code: 'service_not_started',
  });
}

import { spawn } from 'node:child_process';
import type { Argv } from 'yargs';
import type { JobReport } from '../core/run-report.js';
import {
  type Command,
  configAndWords,
  flag,
  type JobsArguments,
  jobsOptions,
  positionals,
  textOption,
} from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { terminalWidth, writeData } from './standard-streams.js';

interface ReportArguments extends JobsArguments {
  run?: string[] | undefined;
  out?: string | undefined;
  open: boolean;
}

/** `cdsync report`: makes the page about a run again, and shows where it is. */
export const reportCommand: Command<CommonArguments, ReportArguments> = {
  builder: (parser) =>
    jobsOptions(parser)
      .positional('run', {
        ...positionals('[configuration file] [run id]; without an id, the last run'),
        demandOption: false,
      })
      .options({
        out: textOption('write a copy of the page to this file; - is standard output'),
        open: flag('open the page in the browser'),
      })
      .epilogue('It reads only stored files, so it also works during a run.') as unknown as Argv<ReportArguments>,
  handler: async (args) => {
    process.exitCode = await report(args, new Output(args));
  },
};

/** The program that opens a file in the browser. */
function opener(platform: NodeJS.Platform): readonly [string, ...string[]] {
  if (platform === 'darwin') return ['open'];
  return platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open'];
}

/** @returns whether there is a program that opens pages; it continues when this process has ended */
function openPage(path: string, [program, ...words] = opener(process.platform)): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, [...words, path], { detached: true, stdio: 'ignore' });
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}

async function report(args: ReportArguments, output: Output): Promise<number> {
  const { config, words } = configAndWords(args.run ?? []);
  const [runId] = words;
  if (words.length > 1) throw usageError('one RUN at a time', 'for example: cdsync report 20261103T021500Z-9f3a1c');
  if (args.out === '-' && args.json)
    throw usageError('--out - and --json both need standard output', 'leave one of them out');
  const { asksForSeveral, destinationsOf, loadLocalJobs } = await import('./load.js');
  const { readJobFiles } = await import('../engine/job-files.js');
  const { remakePage } = await import('../pages/remake-page.js');
  const { forEachJob } = await import('./for-each-job.js');
  if (asksForSeveral(args) && (runId ?? args.out) !== undefined)
    throw usageError('a run and --out are for one job', 'choose it: --job NAME');
  const { config: loaded, jobs } = await loadLocalJobs({ ...args, config }, output);
  const { storage, file } = loaded;
  let page: Page | undefined;
  return forEachJob(
    { command: 'report', args, output, storage, jobs },
    {
      work: async (job) => {
        const placed = {
          config: loaded,
          job: job.name,
          need: 'small',
          notice: (line: string) => output.notice(line),
        } as const;
        return readJobFiles(placed, async ({ layout }) => {
          const task = { layout, file, destinations: destinationsOf(loaded, job), now: Date.now() };
          page = { ...(await remakePage(task, runId)), index: layout.indexPage };
          return page.document.jobs[0] as JobReport;
        });
      },
      document: () => page?.document,
      print: async () => {
        await printPage(page as Page, args, output);
        return { code: 0 };
      },
    },
  );
}

interface Page extends Awaited<ReturnType<typeof import('../pages/remake-page.js').remakePage>> {
  /** The page of all runs. */
  readonly index: string;
}

async function printPage({ page, path, document, problem, index }: Page, args: ReportArguments, output: Output) {
  if (problem !== undefined) output.notice(`warning: ${path} could not be written: ${problem}`);
  if (args.out === '-') return writeData(page);
  const written = await copyTo(args.out, page);
  const { summarize } = await import('../output/summary.js');
  for (const line of document.jobs.flatMap((job) => summarize(job, { width: terminalWidth() }))) output.advice(line);
  output.result('');
  const shown = written ?? path;
  output.result(`  page: ${shown}`);
  output.result(`  all runs: ${index}`);
  if (args.open && !(await openPage(shown))) output.notice(`there is no program here that opens pages; it is ${shown}`);
}

/** @returns the full path of the copy; undefined without one. @throws {CdsyncError} `usage`, which names the path */
async function copyTo(out: string | undefined, page: string): Promise<string | undefined> {
  if (out === undefined) return undefined;
  const { resolve } = await import('node:path');
  const { writeFileAtomically } = await import('../core/durable.js');
  const path = resolve(out);
  await writeFileAtomically(path, page).catch((error: NodeJS.ErrnoException) => {
    throw usageError(
      `--out: ${path} could not be written (${error.code ?? error.message})`,
      'name a file in a folder that exists and that you may write to',
    );
  });
  return path;
}

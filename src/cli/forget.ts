import { readFile } from 'node:fs/promises';
import { text as readText } from 'node:stream/consumers';
import type { ArgumentsCamelCase, Argv } from 'yargs';
import type { JobConfig, LocalConfig } from '../config/config.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import type { ForgetRequest, ForgetResult } from '../engine/admin/forget-person.js';
import { type Command, flag, type JobArguments, jobOption, many, textOption } from './arguments.js';
import { type CommonArguments, failureDocument, Output, usageError } from './output.js';
import { shellWord } from './own-command.js';

interface ForgetArguments extends JobArguments {
  stream?: string[] | undefined;
  everywhere: boolean;
  keysFile?: string | undefined;
  reason?: string | undefined;
  dryRun: boolean;
  status: boolean;
  allow?: string[] | undefined;
  evenIfAbsent: boolean;
  yes: boolean;
}

type Arguments = ArgumentsCamelCase<ForgetArguments>;

/** The words of a command line: a configuration, a stream unless people are forgotten everywhere, and keys. */
interface Words {
  readonly config: string | undefined;
  readonly stream: string | undefined;
  readonly keys: readonly string[];
}

/** One key a line, exactly as it is there. @throws {CdsyncError} `usage` */
async function keysIn(path: string): Promise<string[]> {
  const content = path === '-' ? readText(process.stdin) : readFile(path, 'utf8');
  const lines = await content.catch((error: NodeJS.ErrnoException) => {
    throw usageError(`--keys-file: ${path} cannot be read (${error.code})`, 'one key a line; - is standard input');
  });
  return lines
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .filter((line) => line !== '');
}

async function wordsOf({ stream: written = [], everywhere, keysFile }: ForgetArguments): Promise<Words> {
  const words = written.map(String);
  const config = /\.(ya?ml|json)$/.test(words[0] ?? '') ? words.shift() : undefined;
  const stream = everywhere ? undefined : words.shift();
  const keys = [...new Set([...words, ...(keysFile === undefined ? [] : await keysIn(keysFile))])];
  if ((stream === undefined && !everywhere) || keys.length === 0 || keys.includes('')) {
    const lacks =
      keys.length > 0 && !keys.includes('') ? 'STREAM' : stream === undefined && !everywhere ? 'STREAM and KEY' : 'KEY';
    throw usageError(
      `missing argument: ${lacks}`,
      'for example: cdsync forget members p-0001, or cdsync forget p-0001 --everywhere',
    );
  }
  return { config, stream, keys };
}

/** Asks whether to continue, if there is someone to ask. */
async function isMeant({ yes }: ForgetArguments, where: string, keys: number): Promise<boolean> {
  const { hasTerminal, Terminal } = await import('./terminal.js');
  if (yes || !hasTerminal()) return true;
  const terminal = new Terminal();
  try {
    const what = `${keys === 1 ? 'one key' : `${keys} keys`} of ${where}, and all earlier Parquet files of it`;
    const reply = await terminal.ask(`permanently delete ${what}? yes or no`, 'no', (text) => text.toLowerCase());
    return reply === 'yes' || reply === 'y';
  } finally {
    terminal.close();
  }
}

/** The jobs that a command is about, and what its parts share. */
interface Task {
  readonly args: Arguments;
  readonly output: Output;
  readonly config: LocalConfig;
  readonly jobs: readonly JobConfig[];
}

async function taskOf(args: Arguments, config: string | undefined, ofAll: boolean): Promise<Task> {
  const { loadLocalJobs } = await import('./load.js');
  const output = new Output(args);
  const jobs = ofAll
    ? { job: args.job === undefined ? undefined : [args.job], all: args.job === undefined }
    : { job: args.job };
  const loaded = await loadLocalJobs({ ...args, config, ...jobs }, output);
  return { args, output, config: loaded.config, jobs: loaded.jobs };
}

/** Works on one job's files. */
async function onJob<T>(
  { output, config }: Task,
  job: JobConfig,
  {
    reads,
    need = 'everything',
    nextAfter,
  }: { reads: boolean; need?: 'everything' | 'small'; nextAfter?: Readonly<Record<string, string>> },
  work: (engine: Parameters<typeof import('../engine/admin/forget-person.js').forget>[0]) => Promise<T>,
): Promise<T> {
  const { inJob } = await import('./load.js');
  const { readJobFiles, withJobFiles } = await import('../engine/job-files.js');
  const { withStorage } = await import('../engine/open-engine.js');
  const about = { storage: config.storage, job: job.name, ...(nextAfter === undefined ? {} : { nextAfter }) };
  return inJob(about, () =>
    (reads ? readJobFiles : withJobFiles)(
      { config, job: job.name, need, notice: (line) => output.notice(line) },
      (place) => {
        place.layout.remoteFiles?.collectImmediately();
        return withStorage(config, work, place);
      },
    ),
  );
}

async function requestFor({ args, config }: Task, job: JobConfig, { stream, keys }: Words): Promise<ForgetRequest> {
  const { destinationsOf } = await import('./load.js');
  const { evenIfAbsent, reason } = args;
  return { stream, keys, evenIfAbsent, reason, destinations: destinationsOf(config, job) };
}

/** Jobs in the storage that the file does not have: nothing looks into them. */
async function foreignJobs({ config, output }: Task): Promise<string[]> {
  const { namesIn } = await import('../storage/storage.js');
  const { JobLayout } = await import('../storage/layout.js');
  const { isThere } = await import('../core/folders.js');
  const jobNames = new Set(config.jobSummaries.map(({ name }) => name));
  if (config.bucket !== undefined) {
    const { jobsIn } = await import('../object-store/open-remote-job.js');
    const names = await jobsIn(config.bucket, (line) => output.notice(line));
    return names.filter((name) => !jobNames.has(name));
  }
  const files: string[] = [];
  for (const name of await namesIn(config.storage))
    if (!jobNames.has(name) && (await isThere(new JobLayout(config.storage, name).store))) files.push(name);
  return files;
}

function foreignLines(names: readonly string[]): string[] {
  return names.map((name) => `not searched: ${name}, a job in the storage that the file does not have`);
}

/** Looks for the people in every job. @throws {CdsyncError} `key_not_found` */
async function lookEverywhere(task: Task, words: Words) {
  const { lookForPeople } = await import('../engine/admin/look-for-person.js');
  const { assertPresent } = await import('../engine/admin/forget-person.js');
  const searches: { job: JobConfig; search: NonNullable<Awaited<ReturnType<typeof lookForPeople>>> }[] = [];
  for (const job of task.jobs) {
    const request = await requestFor(task, job, words);
    const search = await onJob(task, job, { reads: true }, (engine) => lookForPeople(engine, job, request));
    if (search !== undefined) searches.push({ job, search });
  }
  const waits = searches.some(
    ({ search: { places } }) =>
      places.unfinished ||
      places.erasures_waiting > 0 ||
      places.destinations.some(({ outbox, rejects }) => outbox + rejects > 0),
  );
  if (!task.args.evenIfAbsent && !waits)
    assertPresent(
      words,
      searches.flatMap(({ search }) => [...search.found]),
    );
  return searches;
}

async function forgetEverywhere(task: Task, words: Words): Promise<void> {
  const { args, output } = task;
  const { placesLines } = await import('../output/forget.js');
  const searches = await lookEverywhere(task, words);
  const foreign = await foreignJobs(task);
  if (args.dryRun) {
    const jobs = searches.map(({ search }) => search.places);
    output.document({ status: 'ok', dry_run: true, jobs, not_searched: foreign, error: null });
    for (const places of jobs) for (const line of placesLines(places)) output.advice(line);
    for (const line of foreignLines(foreign)) output.advice(line);
    return;
  }
  const touched = searches.filter(
    ({ search: { places, found } }) =>
      args.evenIfAbsent || places.unfinished || found.some(({ keys }) => keys.size > 0),
  );
  await assertMeant(args, touched.map(({ job }) => job.name).join(', '), words.keys.length);
  const { results, failure } = await eraseFrom(
    task,
    touched.map(({ job }) => job),
    words,
  );
  await showErased(task, { results, failure, foreign });
}

/** Erases from jobs until one fails; the erasures before it are shown. */
async function eraseFrom(task: Task, jobs: readonly JobConfig[], words: Words) {
  const { forget } = await import('../engine/admin/forget-person.js');
  const results: ForgetResult[] = [];
  for (const job of jobs) {
    try {
      const request = await requestFor(task, job, words);
      const result = await onJob(task, job, { reads: false }, (engine) => forget(engine, job, request));
      if (result !== undefined) results.push(result);
    } catch (error) {
      if (results.length === 0) throw error;
      return { results, failure: { job: job.name, error: asCdsyncError(error) } };
    }
  }
  return { results, failure: undefined };
}

async function showErased(
  { output, config }: Task,
  { results, failure, foreign }: Awaited<ReturnType<typeof eraseFrom>> & { foreign: readonly string[] },
): Promise<void> {
  const { forgetLines } = await import('../output/forget.js');
  const { nextStep } = await import('./next-step.js');
  const remains = results.filter(({ status }) => status !== 'ok');
  const status = failure !== undefined ? 'partial' : remains.length > 0 ? 'failed' : 'ok';
  const error = failure === undefined ? null : failureDocument(failure.error).error;
  output.document({ status, jobs: results, not_searched: foreign, error });
  for (const result of results) for (const line of forgetLines(result, true)) output.advice(line);
  for (const line of foreignLines(foreign)) output.advice(line);
  if (status === 'ok') return;
  if (failure !== undefined) output.error(failure.error, { job: failure.job });
  process.exitCode = failure === undefined ? 1 : 5;
  const job = failure?.job ?? remains[0]?.job;
  output.last(await nextStep({ code: process.exitCode, storage: config.storage, job }));
}

async function assertMeant(args: Arguments, where: string, keys: number): Promise<void> {
  if (await isMeant(args, where, keys)) return;
  throw new CdsyncError('nothing was deleted', { code: 'interrupted', hint: 'to delete without a question: --yes' });
}

async function forgetInStream(task: Task, words: Words & { stream: string }): Promise<void> {
  const { args, output, config, jobs } = task;
  const [job] = jobs as [JobConfig];
  const { stream, keys } = words;
  await assertMeant(args, stream, keys.length);
  const { forget } = await import('../engine/admin/forget-person.js');
  const { forgetLines } = await import('../output/forget.js');
  const nextAfter = { key_not_found: `compare with its keys: cdsync query ${shellWord(`from ${stream} limit 5`)}` };
  const request = await requestFor(task, job, words);
  const result = await onJob(task, job, { reads: false, nextAfter }, (engine) =>
    forget(engine, job, { ...request, stream }),
  );
  output.document({ ...result, stream });
  for (const line of forgetLines(result, false)) output.advice(line);
  if (result.status === 'ok') return;
  process.exitCode = 1;
  const { nextStep } = await import('./next-step.js');
  output.last(await nextStep({ code: 1, storage: config.storage, job: job.name }));
}

async function showStatus(task: Task): Promise<void> {
  const { output, jobs } = task;
  const { readErasureLog } = await import('../engine/admin/look-for-person.js');
  const { erasureLogLines } = await import('../output/forget.js');
  const logs = [];
  for (const job of jobs)
    logs.push(
      await onJob(task, job, { reads: true, need: 'small' }, (engine) =>
        readErasureLog(engine, engine.layoutOf(job.name)),
      ),
    );
  const isPending = logs.some(({ status }) => status === 'pending');
  output.document({ status: isPending ? 'pending' : 'ok', jobs: logs, error: null });
  for (const log of logs) for (const line of erasureLogLines(log)) output.advice(line);
  if (!isPending) return;
  process.exitCode = 1;
  const pending = logs.flatMap(({ erasures }) => erasures.filter(({ done }) => !done));
  const left = pending.flatMap(({ destinations }) => destinations.filter(({ done_at: done }) => done === null));
  const isCut = pending.some(({ storage }) => storage.run_id === null);
  const byHand = left.length > 0 && left.every(({ configured }) => !configured);
  const next = isCut
    ? 'forget the same people again'
    : byHand
      ? 'delete the rows where the lines above say'
      : 'cdsync push';
  output.last(`next: ${next}, then: cdsync forget --status`);
}

async function allow(task: Task, keys: readonly string[]): Promise<void> {
  const { args, output, jobs } = task;
  const { allowKeys } = await import('../delivery/erasure-log.js');
  const { reason } = args;
  const allowed: { job: string; keys: number }[] = [];
  for (const job of jobs) {
    const count = await onJob(task, job, { reads: false, need: 'small' }, ({ layoutOf, clock }) =>
      allowKeys(layoutOf(job.name), clock.now(), { keys, reason }),
    );
    if (count > 0) allowed.push({ job: job.name, keys: count });
  }
  if (allowed.length === 0)
    throw new CdsyncError('no job leaves this key out', {
      code: 'key_not_found',
      hint: 'write the key as it was forgotten',
    });
  output.document({ status: 'ok', allowed, error: null });
  for (const { job, keys: count } of allowed)
    output.advice(
      `${job}: the next run takes in ${count === 1 ? 'the key' : `${count} keys`} if the service returns it`,
    );
}

/** `cdsync forget`: erases people from everything that jobs keep, and says where they are and were. */
export const forgetCommand: Command<CommonArguments, ForgetArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('stream', { type: 'string', array: true, describe: '[configuration file] stream key...' })
      .option('everywhere', flag('all words are keys: erase them from all streams of all jobs of the file'))
      .option('keys-file', textOption('a file with more keys, one a line; - is standard input'))
      .option('reason', textOption('a text for the log of decisions; no personal data'))
      .option('dry-run', flag('show where the people are, and change nothing'))
      .option('status', flag('show the log of erasures; exit code 1 until every place is done'))
      .option('allow', many('let this forgotten key in again; may be given again'))
      .option(
        'even-if-absent',
        flag('delete earlier Parquet files, and rows at destinations, although no row here has the key'),
      )
      .option('yes', flag('do not ask on a terminal'))
      .example('$0 forget p-0001 --everywhere --reason 4711', 'erase a person')
      .example('$0 forget --everywhere --keys-file - --dry-run', 'where are the people on standard input?')
      .example(`$0 forget vip '["seg-vip","p-0001"]'`, 'a key of several columns is a JSON list')
      .epilogue(
        'Delete the person at the service too: until then runs leave the record out and say so.\n' +
          'Exit codes: 0 erased, 1 no row has the key and nothing was deleted, a file still has a trace of it, or with --status\n' +
          'a place is not done; 5 erased in some jobs only.',
      ) as unknown as Argv<ForgetArguments>,
  handler: async (args) => {
    if (args.status || args.allow !== undefined) {
      const [config, ...more] = args.stream ?? [];
      if (more.length > 0 || (config !== undefined && !/\.(ya?ml|json)$/.test(config)))
        throw usageError(
          `${args.status ? '--status' : '--allow'} takes no STREAM and no further KEY`,
          'for example: cdsync forget --allow p-0001',
        );
      const task = await taskOf(args, config, true);
      return args.allow === undefined ? showStatus(task) : allow(task, args.allow);
    }
    const words = await wordsOf(args);
    const task = await taskOf(args, words.config, words.stream === undefined);
    const { stream } = words;
    if (stream === undefined || args.dryRun) return forgetEverywhere(task, words);
    return forgetInStream(task, { ...words, stream });
  },
};

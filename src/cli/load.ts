import type { Config, JobConfig, JobSummary, LocalConfig } from '../config/config.js';
import { loadConfig } from '../config/load.js';
import { type Needs, type ParseOptions, secretsOf } from '../config/parse.js';
import { CdsyncError } from '../core/errors.js';
import { formatNames } from '../core/quantities.js';
import { redactor } from '../core/secret.js';
import type { StorageEngine } from '../engine/open-engine.js';
import type { FileSet } from '../object-store/required-files.js';
import type { JobLayout } from '../storage/layout.js';
import type { JobArguments, JobsArguments } from './arguments.js';
import { CommandFailure, type CommonArguments, type Output, usageError } from './output.js';

type AnyArguments = JobArguments | JobsArguments;

/** A configuration, and the jobs of it that a command works on, in the order in which they were named. */
interface Loaded<C extends LocalConfig = LocalConfig> {
  readonly config: C;
  readonly jobs: readonly JobConfig[];
  /** The first of them: the one of a command that works on one. */
  readonly job: JobConfig;
}

/** The configuration file if the command names none. */
export const defaultFile = 'cdsync.yaml';

/** The variables that a configuration may name. */
export async function environment({ envFile }: CommonArguments): Promise<Record<string, string | undefined>> {
  if (envFile === undefined) return process.env;
  const { readEnvFile } = await import('../config/env-file.js');
  return { ...process.env, ...(await readEnvFile(envFile)) };
}

/** The same for the reader of a configuration, with the file that gave them. */
async function variables(args: CommonArguments): Promise<Pick<ParseOptions, 'env' | 'envFile'>> {
  return { env: await environment(args), envFile: args.envFile };
}

/** Whether a command line asks for several jobs: then the document of --json has an entry for each, even if there is one. */
export function asksForSeveral({ job, all }: Pick<JobsArguments, 'job' | 'all'>): boolean {
  return all || new Set(job).size > 1;
}

/** The names after --job; undefined for all jobs, or for the only one. @throws {CdsyncError} `usage` */
function namedJobs(args: AnyArguments): readonly string[] | undefined {
  if (args.job === undefined) return undefined;
  if ('all' in args && args.all) throw usageError('--job and --all were both given', 'leave one of them out');
  return [...new Set([args.job].flat())];
}

/** @throws {CdsyncError} `usage` if it is not clear which job is meant, or if there is none */
function chosenJobs<C extends LocalConfig>(config: C, args: AnyArguments, output: Output): Loaded<C> {
  const names = config.jobSummaries.map(({ name }) => name);
  const named = namedJobs(args);
  const takesAll = 'all' in args;
  if (names.length > 1) output.at({ jobs: named ?? 'all' });
  if (named === undefined && !(takesAll && args.all) && names.length > 1) {
    const ways = `choose one: --job ${names[0]}${takesAll ? ', or take all of them: --all' : ''}`;
    throw usageError(`the file has several jobs: ${formatNames(names, 20)}`, ways);
  }
  const jobs = named?.flatMap((name) => config.jobs.filter((job) => job.name === name)) ?? config.jobs;
  const [job] = jobs;
  if (job === undefined) throw usageError('the file has no job', 'add one under `jobs:`');
  output.about(jobs.length === 1 ? { job: job.name } : {});
  return { config, jobs, job };
}

/** A text that names the bucket where it names files of its cache: people look for them there. */
function inBucket(text: string, { bucket, storage }: LocalConfig): string {
  return bucket === undefined ? text : text.replaceAll(`${storage}/`, `${bucket.url.replace(/(?<!\/)\/+$/, '')}/`);
}

/** Hides the configuration's secrets from all later output, and shows its warnings. */
export function applyConfigToOutput(config: LocalConfig & Partial<Config>, output: Output): void {
  const hide = redactor(secretsOf(config));
  output.redactWith((text) => inBucket(hide(text), config));
  for (const warning of config.warnings) output.remark(`warning: ${warning}`);
}

/** Parts of the jobs that only some commands need. */
type Parts = Pick<Needs, 'destinations' | 'outcome'>;

/** The configuration and its jobs, for a command that talks to the service. */
export async function loadJobs(args: AnyArguments, output: Output, parts: Parts = {}): Promise<Loaded<Config>> {
  const needs = { ...parts, job: namedJobs(args) };
  output.at({ config: args.config });
  const config = await loadConfig(args.config ?? defaultFile, { ...(await variables(args)), needs });
  applyConfigToOutput(config, output);
  return chosenJobs(config, args, output);
}

/** The same without the service, for a command that asks it for nothing: its variables need not be set. */
export async function loadLocalJobs(args: AnyArguments, output: Output, parts: Parts = {}): Promise<Loaded> {
  const needs = { ...parts, service: false, job: namedJobs(args) } as const;
  output.at({ config: args.config });
  const config = await loadConfig(args.config ?? defaultFile, { ...(await variables(args)), needs });
  const hide = redactor(secretsOf(config));
  output.redactWith((text) => inBucket(hide(text), config));
  return chosenJobs(config, args, output);
}

/** The names of a job's destinations, and of the streams that each gets. */
export function destinationsOf({ jobSummaries }: LocalConfig, { name: job }: JobConfig): JobSummary['destinations'] {
  return jobSummaries.find(({ name }) => name === job)?.destinations ?? [];
}

/** The one job that a command works on, and its files. */
interface LocalJob {
  readonly config: LocalConfig;
  readonly job: JobConfig;
  readonly destinations: JobSummary['destinations'];
  readonly layout: JobLayout;
  /** Work with a database in memory. */
  withEngine<T>(use: (engine: StorageEngine) => Promise<T>): Promise<T>;
}

/**
 * Does a command's work on the files of its job, without the service.
 * @param choices.changes whether it may change files that another machine should see
 */
export async function inLocalJob<T>(
  args: JobArguments,
  output: Output,
  choices: {
    readonly need: FileSet;
    readonly changes?: boolean;
    readonly nextAfter?: Readonly<Record<string, string>>;
  },
  work: (local: LocalJob) => Promise<T>,
): Promise<T> {
  const { readJobFiles, withJobFiles } = await import('../engine/job-files.js');
  const { config, job } = await loadLocalJobs(args, output);
  const { need, changes = false, nextAfter } = choices;
  const task = { config, job: job.name, need, notice: (line: string) => output.notice(line) };
  return inJob({ storage: config.storage, job: job.name, nextAfter }, () =>
    (changes ? withJobFiles : readJobFiles)(task, (place) => {
      const withEngine = async <R>(use: (engine: StorageEngine) => Promise<R>) => {
        const { withStorage } = await import('../engine/open-engine.js');
        return withStorage(config, use, place);
      };
      return work({ config, job, destinations: destinationsOf(config, job), layout: place.layout, withEngine });
    }),
  );
}

/** For a command that delivers. The service is loaded only if a destination uses it. */
export async function loadDestinations(
  args: JobsArguments,
  output: Output,
): Promise<Loaded<LocalConfig & Partial<Config>>> {
  const parts = { destinations: true, outcome: true };
  const loaded = await loadLocalJobs(args, output, parts);
  const { config, jobs } = loaded;
  const usesService = jobs.some(({ destinations }) =>
    destinations.some(({ connector }) => connector.usesService === true),
  );
  if (usesService) return loadJobs(args, output, parts);
  applyConfigToOutput(config, output);
  return loaded;
}

/**
 * Storage and job that words name, for the age of the job's last good snapshot where a command failed before it knew them. Undefined if
 * the file cannot be read, or has several jobs and the words choose none.
 */
export async function jobInFile(
  args: CommonArguments,
  { config: file, job }: Pick<JobArguments, 'config' | 'job'>,
): Promise<{ storage: string; job: string } | undefined> {
  try {
    const needs = { service: false, jobs: false } as const;
    const { storage, jobSummaries } = await loadConfig(file ?? defaultFile, { env: await environment(args), needs });
    const [only, ...others] = jobSummaries;
    const named = jobSummaries.find(({ name }) => name === job) ?? (others.length === 0 ? only : undefined);
    return named && { storage, job: named.name };
  } catch {
    return undefined;
  }
}

/**
 * Does a command's work on its job. The output of an error then ends with the age of the job's last good snapshot.
 * @param nextAfter what to do after an error, by its code, if the command knows better
 */
export async function inJob<T>(
  at: { storage: string; job: string; nextAfter?: Readonly<Record<string, string>> | undefined },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { storage, job, nextAfter } = at;
    const next = error instanceof CdsyncError ? nextAfter?.[error.code] : undefined;
    throw new CommandFailure(error, { storage, job, next });
  }
}

import type { Config, JobConfig, JobOutline, LocalConfig } from '../config/config.js';
import { readEnvFile } from '../config/env-file.js';
import { loadConfig } from '../config/load.js';
import type { Needs } from '../config/parse.js';
import { redactor, Secret } from '../core/secret.js';
import type { CommonArguments, Output } from './output.js';
import { CommandFailure, usageError } from './output.js';

/** Options of the commands that work on one job of a configuration. */
export interface JobArguments extends CommonArguments {
  config?: string | undefined;
  job?: string | undefined;
}

/** The configuration file if the command names none. */
export const defaultFile = 'cdsync.yaml';

/** The variables that a configuration may name. */
export async function environment({ envFile }: CommonArguments): Promise<Record<string, string | undefined>> {
  return envFile === undefined ? process.env : { ...process.env, ...(await readEnvFile(envFile)) };
}

function onlyJob<C extends LocalConfig>(config: C, wanted: string | undefined): { config: C; job: JobConfig } {
  const names = config.outline.map(({ name }) => name);
  if (wanted === undefined && names.length > 1) {
    throw usageError(`the file has several jobs: ${names.join(', ')}`, `choose one: --job ${names[0]}`);
  }
  const [job] = config.jobs;
  if (job === undefined) throw usageError('the file has no job', 'add one under `jobs:`');
  return { config, job };
}

function secretsOf({ auth }: Config['service']): Secret[] {
  if (auth.type === 'token') return [auth.token];
  return auth.type === 'client_credentials' ? [auth.clientSecret] : [];
}

/** Secrets in a connector's options, however deep. */
function secretsIn(value: unknown): Secret[] {
  if (value instanceof Secret) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}

/** Hides the configuration's secrets from all later output, and shows its warnings. */
export function announce(config: LocalConfig & Partial<Config>, output: Output): void {
  const used = config.jobs.flatMap(({ streams, destinations, notify, metrics }) => [
    ...streams.flatMap(({ columns }) => Object.values(columns)),
    ...destinations.map(({ options }) => options),
    notify,
    metrics,
  ]);
  const own = config.service === undefined ? [] : secretsOf(config.service);
  output.redactWith(redactor([...own, ...secretsIn(used)]));
  for (const warning of config.warnings) output.notice(`warning: ${warning}`);
}

/** The configuration and its one job, for a command that talks to the service. */
export async function loadJob(
  args: JobArguments,
  output: Output,
  { destinations = false, outcome = false }: Pick<Needs, 'destinations' | 'outcome'> = {},
): Promise<{ config: Config; job: JobConfig }> {
  const config = await loadConfig(args.config ?? defaultFile, {
    env: await environment(args),
    needs: { job: args.job, destinations, outcome },
  });
  announce(config, output);
  const chosen = onlyJob(config, args.job);
  output.about({ job: chosen.job.name });
  return chosen;
}

/** Does a command's work on its job. The output of an error then ends with the age of the job's last good snapshot. */
export async function inJob<T>(
  args: JobArguments,
  { storage, job }: { storage: string; job: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new CommandFailure(error, { storage, job, config: args.config });
  }
}

/** The same for a command that only looks at the storage folder: it needs none of the service's variables. */
export async function loadLocalJob(
  args: JobArguments,
): Promise<{ config: LocalConfig; job: JobConfig; destinations: JobOutline['destinations'] }> {
  const needs = { service: false, job: args.job } as const;
  const config = await loadConfig(args.config ?? defaultFile, { env: await environment(args), needs });
  const chosen = onlyJob(config, args.job);
  const { destinations } = config.outline.find(({ name }) => name === chosen.job.name) as JobOutline;
  return { ...chosen, destinations };
}

/** The same with its destinations, for a command that delivers. The service is loaded only if a destination uses it. */
export async function loadDestinations(
  args: JobArguments,
  output: Output,
): Promise<{ config: LocalConfig & Partial<Config>; job: JobConfig }> {
  const needs = { service: false, job: args.job, destinations: true } as const;
  const config = await loadConfig(args.config ?? defaultFile, { env: await environment(args), needs });
  const chosen = onlyJob(config, args.job);
  if (chosen.job.destinations.some(({ connector }) => connector.usesService === true))
    return loadJob(args, output, { destinations: true });
  announce(config, output);
  output.about({ job: chosen.job.name });
  return chosen;
}

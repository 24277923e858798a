import { resolve } from 'node:path';
import { Secret } from '../core/secret.js';
import type { AuthOptions } from '../core/service-options.js';
import type { z } from '../core/zod.js';
import { type SourceDeclaration, streamSource } from '../sources/declaration.js';
import type { GuardOptions, JobConfig, MetricsOptions, ServiceConfig, StreamConfig } from './config.js';
import type { jobSchema, StreamPart } from './job-options.js';
import { metricsOptions } from './outcome-options.js';
import { withPaths } from './paths.js';
import { isPlainMap } from './reader.js';
import type { serviceSchema } from './service-options.js';
import type { Variables } from './variables.js';

type AuthPart = z.output<typeof serviceSchema>['auth'];

function authOptions({ clientId, clientSecret, token, tokenFile }: AuthPart, folder: string): AuthOptions {
  if (token !== undefined) return { type: 'token', token };
  if (tokenFile !== undefined) return { type: 'token_file', path: resolve(folder, tokenFile) };
  if (clientId !== undefined && clientSecret !== undefined) {
    return { type: 'client_credentials', clientId, clientSecret };
  }
  throw new TypeError('auth holds none of its forms');
}

/** The service's options; relative paths become absolute, from `folder`. */
export function serviceOptions(part: z.output<typeof serviceSchema>, folder: string): ServiceConfig {
  const { patience: patienceMs, maxDelayMs } = part.retry;
  return { ...part, auth: authOptions(part.auth, folder), retry: { patienceMs, maxDelayMs } };
}

type JobPart = z.output<typeof jobSchema>;

/** A stream with its source; the paths among its options become absolute, from the job's folder. */
function streamConfig(
  { guards: streamGuards, ...part }: StreamPart,
  source: SourceDeclaration,
  job: Pick<JobPart, 'guards' | 'select' | 'strings'> & { readonly folder: string },
): StreamConfig {
  const options: Readonly<Record<string, unknown>> = withPaths(source.options, part, job.folder);
  const guards = guardOptions({ ...job.guards, ...streamGuards });
  const strings = part.strings ?? job.strings ?? 'keep';
  // A query names its columns itself.
  const select = part.select ?? (source.name === 'sql' ? undefined : job.select);
  return { ...options, guards, select, strings, reads: streamSource(source, options) } as unknown as StreamConfig;
}

/** Where OpenTelemetry's own variables give the headers of its requests, a login for example. */
export const otlpHeaders = 'OTEL_EXPORTER_OTLP_HEADERS';

function metricsConfig(part: JobPart['metrics'], folder: string, env: Variables): MetricsOptions {
  const { textfile, otlp } = withPaths(metricsOptions, part, folder);
  const headers = env[otlpHeaders];
  if (otlp === undefined || otlp === '') return { textfile };
  const name = env.OTEL_SERVICE_NAME;
  // The later one counts, as OpenTelemetry has it.
  const named = name ? [`service.name=${encodeURIComponent(name)}`] : [];
  const resource = [env.OTEL_RESOURCE_ATTRIBUTES ?? '', ...named].join(',');
  return { textfile, otlp: { endpoint: otlp, headers: headers ? new Secret(headers) : undefined, resource } };
}

/**
 * A job with its streams. A stream without its own guard has the job's. Relative paths become absolute, from
 * `folder`.
 */
export function jobConfig(
  name: string,
  part: JobPart,
  { folder, sources, env }: { folder: string; sources: ReadonlyMap<string, SourceDeclaration>; env: Variables },
): Omit<JobConfig, 'destinations'> {
  const { streams = [], before = [], guards, select, strings, resumeWithin, ...rest } = part;
  const { parquet, publish, keep, recognition, notify, metrics, after } = rest;
  const configured = streams.map((stream) =>
    streamConfig(stream, sources.get(stream.source) as SourceDeclaration, { folder, guards, select, strings }),
  );
  const guardScope = guards.scope;
  const newStorage = guards.newStorage ?? guards.action ?? 'hold';
  return {
    name,
    streams: configured,
    before,
    resumeWithinMs: resumeWithin,
    parquet,
    publish,
    keep,
    recognition,
    guardScope,
    newStorage,
    notify,
    metrics: metricsConfig(metrics, folder, env),
    after,
  };
}

/** Up to this many rows, a share says nothing: three of three changed indexes are no reason to hold a run. */
const someRows = 10;

function guardOptions(chosen: { [K in keyof GuardOptions]?: GuardOptions[K] | undefined }): GuardOptions {
  return {
    action: chosen.action ?? 'hold',
    minRows: chosen.minRows,
    maxDeleted: chosen.maxDeleted ?? { share: 0.1, atLeast: someRows },
    maxChanged: chosen.maxChanged ?? { share: 0.5, atLeast: someRows },
    maxRejected: chosen.maxRejected ?? { count: 0 },
    maxNull: chosen.maxNull ?? {},
    unique: chosen.unique ?? [],
    expect: chosen.expect ?? [],
  };
}

/** Merges two plain values: maps key by key; for anything else `over` wins, unless it is undefined. */
export function deepMerge(under: unknown, over: unknown): unknown {
  if (over === undefined) return under;
  if (!isPlainMap(under) || !isPlainMap(over)) return over;
  const merged: Record<string, unknown> = { ...under };
  for (const [key, value] of Object.entries(over)) merged[key] = deepMerge(under[key], value);
  return merged;
}

import { createHash } from 'node:crypto';
import type { RequestMeter } from '../client/client.js';
import type { StreamConfig } from '../config/config.js';
import { type ExtractionOptions, StreamExtraction } from '../extract/stream-extraction.js';
import type { StreamState } from '../snapshot/snapshot-store.js';
import { findUnfinished, type RunIdentity, takeOver, type UnfinishedStream } from '../store/run-state.js';
import type { ListSource } from '../streams/list-source.js';
import { openSource } from '../streams/open-source.js';
import type { RunContext } from './run-context.js';

/** Moves when parts written by an older cdsync can no longer stand beside new ones. */
const converterVersion = 1;

/** Of everything that decides what a stream's parts hold: what was read under another one cannot be gone on from. */
export function fingerprint(context: RunContext, config: StreamConfig, source: ListSource): string {
  const { baseUrl, tenantId, apiVersions } = context.config.service;
  const shaped = {
    converterVersion,
    baseUrl,
    tenantId,
    version: apiVersions.profile,
    identity: source.identity,
    key: source.key,
    filter: config.source === 'index_profiles' ? Object.entries(config.filter).sort() : [],
    partition: config.source === 'index_profiles' ? (config.partitionBy ?? null) : null,
    compression: context.job.parquet.compression,
  };
  return createHash('sha256').update(JSON.stringify(shaped)).digest('hex');
}

/** A stream whose list is known, ready to be read. */
export interface OpenedStream {
  readonly config: StreamConfig;
  readonly source: ListSource;
  readonly fingerprint: string;
  /** What opening it has cost in requests. */
  readonly meter: RequestMeter;
  readonly unfinished: UnfinishedStream | undefined;
}

export async function openStream(
  context: RunContext,
  config: StreamConfig,
  meter: RequestMeter,
): Promise<OpenedStream> {
  const source = await openSource(config, { client: context.client, signal: context.signal, meter });
  const print = fingerprint(context, config, source);
  const rules = { fingerprint: print, now: context.clock.now(), resumeWithinMs: context.job.resumeWithinMs };
  const unfinished = context.full ? undefined : await findUnfinished(context.layout, config.name, rules);
  return { config, source, fingerprint: print, meter, unfinished };
}

export interface ReadTask {
  readonly opened: OpenedStream;
  readonly run: RunIdentity;
  readonly previous: StreamState | undefined;
  /** Values of the partitioning attribute in the last snapshot. */
  readonly lastValues: readonly string[];
}

function partitionOf(config: StreamConfig, lastValues: readonly string[]): ExtractionOptions['partition'] {
  if (config.source !== 'index_profiles' || config.partitionBy === undefined) return undefined;
  const values = config.partitionBy.values ?? lastValues;
  return values.length === 0 ? undefined : { attribute: config.partitionBy.attribute, values };
}

/** Makes a stream's extraction, which goes on from what an earlier run has read where it can. */
export async function beginReading(context: RunContext, task: ReadTask): Promise<StreamExtraction> {
  const { config: all, client, signal, clock, database, converter, job, layout } = context;
  const { opened, run, previous, lastValues } = task;
  const { config, source, unfinished } = opened;
  if (unfinished !== undefined) await takeOver(layout, unfinished, run);
  const extraction = await StreamExtraction.begin({
    stream: config.name,
    source,
    client,
    signal,
    clock,
    database,
    converter,
    filter: new Map(config.source === 'index_profiles' ? Object.entries(config.filter) : []),
    partition: partitionOf(config, lastValues),
    pageSize: config.pageSize ?? all.service.pageSize,
    concurrency: all.service.concurrency,
    compression: job.parquet.compression,
    folder: layout.streamRun(run.runId, config.name),
    fingerprint: opened.fingerprint,
    startedAt: run.startedAt,
    columns: previous?.columns,
    resume: unfinished?.journal,
    checkTotal: config.source === 'index_profiles' && config.checkTotal,
  });
  for (const name of ['requests', 'retries', 'throttled', 'bytes'] as const)
    extraction.live[name] += opened.meter[name];
  return extraction;
}

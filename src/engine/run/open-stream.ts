import { createHash } from 'node:crypto';
import type { RequestCounts } from '../../api/client.js';
import type { ColumnRules } from '../../columns/column-rules.js';
import type { StoredColumn } from '../../columns/columns.js';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import type { ExtractionOptions } from '../../extract/begin-extraction.js';
import { windowsOf } from '../../extract/partition.js';
import { ServiceReader } from '../../extract/service-reader.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { WindowOptions } from '../../sources/declaration.js';
import type { Source, Window, WindowedSource } from '../../sources/source.js';
import type { Split } from '../../sources/splits.js';
import { cut, planWindows } from '../../sources/windows.js';
import type { Session } from '../../storage/duckdb.js';
import { partVersion } from '../../storage/part.js';
import { adoptUnfinished, findUnfinished, type RunIdentity, type UnfinishedStream } from '../../storage/run-state.js';
import { assertSameSalts, rulesOf } from '../column-rules.js';
import type { RunContext } from '../run-context.js';
import { chosenSplit } from './choose-split.js';
import type { QueryInputs } from './query-reader.js';
import type { StoredKeys } from './recover.js';
import { dateStepMs, readableUntil } from './service-time.js';
import type { StreamReader } from './stream-reader.js';
import { cacheOptionsFor } from './usable-cache.js';

/** The options that decide which records a stream has, each as a digest: a filter may contain a person's name. */
export type Definition = Readonly<Record<string, string>>;

function digest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value) ?? 'null')
    .digest('hex')
    .slice(0, 16);
}

/** The definition of a stream: all its options except those that its source lists as `notDefining`. */
function definitionOf(config: StreamConfig, source: Source | undefined, tenantId: string): Definition {
  const { key, definition } = config.reads;
  // Stores of version 0.1.0 have an index and a filter for every stream.
  const always = { source: config.source, tenant_id: tenantId, index: null, filter: [], key };
  const parts = { ...always, ...definition, ...source?.resolved };
  return Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, digest(value)]));
}

/** @throws {CdsyncError} `definition_changed` if the last snapshot is about other records */
function assertUnchanged(before: Definition | undefined, current: Definition): void {
  if (before === undefined) return;
  const names = new Set([...Object.keys(before), ...Object.keys(current)]);
  const changed = [...names].filter((name) => before[name] !== current[name]);
  if (changed.length === 0) return;
  throw new CdsyncError(`its ${changed.join(' and ')} changed since the last snapshot, which is about other records`, {
    code: 'definition_changed',
    hint: 'run with --accept to make its present records the new baseline, or give the stream another name',
  });
}

const dayMs = 86_400_000;

/** A digest of all that decides the content of a stream's parts. A reading with another one is not resumed. */
function fingerprint(
  context: RunContext,
  config: StreamConfig,
  { source, rules }: { source: Source | undefined; rules: ColumnRules },
): string {
  const { baseUrl, tenantId, apiVersions } = context.config.service;
  const shaped = {
    converterVersion: partVersion,
    baseUrl,
    tenantId,
    apiVersions,
    identity: source?.identity ?? null,
    key: source?.key ?? null,
    filter: [...config.reads.filter].sort(),
    partition: config.reads.partitionBy ?? null,
    compression: context.job.parquet.compression,
    contract: config.contract,
    rules: rules.identity,
  };
  return createHash('sha256').update(JSON.stringify(shaped)).digest('hex');
}

/** A stream that is ready to be read: its source is resolved. */
export interface OpenedStream {
  readonly config: StreamConfig;
  /** Undefined if the stream is a query. */
  readonly source: Source | undefined;
  /** The rules of its columns. */
  readonly rules: ColumnRules;
  readonly fingerprint: string;
  readonly definition: Definition;
  /** The requests that opening it took. */
  readonly meter: RequestCounts;
  readonly unfinished: UnfinishedStream | undefined;
  /** The windows of a list that is read by time; otherwise empty. */
  readonly windows: readonly Window[];
}

/** The stream to open. */
export interface OpenTask {
  readonly config: StreamConfig;
  readonly meter: RequestCounts;
  readonly previous: StreamState | undefined;
  /** Shows the streams that its query reads. */
  readonly session: Session;
}

/** Resolves the source of a stream, and finds an earlier reading to resume. @throws {CdsyncError} `definition_changed`, `salt_changed`, errors of the service */
export async function openStream(context: RunContext, task: OpenTask): Promise<OpenedStream> {
  const { config, meter, previous, session } = task;
  const { client, signal, clock, notice } = context;
  const { service } = context.config;
  const lastRunAt = previous?.covered?.at(-1)?.to;
  const source = await config.reads.open?.({
    client,
    service,
    signal,
    notice,
    meter,
    session,
    mayBeEmpty: config.guards.minRows === 0,
    now: clock.now(),
    lastRunAt,
  });
  const rules = rulesOf(config, context.salts, previous?.columns);
  if (!context.rekey) assertSameSalts(rules, previous?.columns);
  const print = fingerprint(context, config, { source, rules });
  const definition = definitionOf(config, source, service.tenantId);
  if (!context.accept) assertUnchanged(previous?.definition, definition);
  const { resumeWithinMs } = context.job;
  const limits = { fingerprint: print, now: clock.now(), resumeWithinMs, notice: context.notice };
  const mayResume = !context.full && context.range === undefined && source !== undefined;
  const unfinished = mayResume ? await findUnfinished(context.layout, config.name, limits) : undefined;
  const opened = { config, source, rules, fingerprint: print, definition, meter, unfinished };
  if (source?.kind !== 'windowed') return { ...opened, windows: [] };
  const { windows } = config.reads;
  if (windows === undefined) throw new TypeError(`source ${config.source} declares no windows`);
  if (unfinished !== undefined) return { ...opened, windows: windowsOf(unfinished.journal.start.partitions) };
  const toRead = await windowsToRead(context, { source, options: windows }, task);
  noteUncertainSpan(context, { source, windows: toRead, stream: config.name });
  return { ...opened, windows: toRead };
}

/** The windows that a run must read, up to the present by the service's clock, because that clock stamps the records. */
async function windowsToRead(
  context: RunContext,
  { source, options }: { source: WindowedSource; options: WindowOptions },
  { previous, meter }: OpenTask,
): Promise<Window[]> {
  const { since, reachMs, lagMs } = options;
  const untilMs = await readableUntil(context, source, meter);
  const first = Date.parse(previous?.covered?.[0]?.from ?? '') || untilMs - reachMs;
  const maxMs = source.maxWindowMs;
  const { range, full } = context;
  if (range !== undefined) {
    const to = Math.min(range.to, untilMs);
    return range.from < to ? cut([[range.from, to]], maxMs) : [];
  }
  return planWindows({
    sinceMs: since ?? first,
    untilMs,
    covered: full ? [] : (previous?.covered ?? []).map(({ from, to }) => [Date.parse(from), Date.parse(to)]),
    lagMs: lagMs + 2 * dateStepMs,
    maxMs,
  });
}

/** Notices that the windows begin before the time for which the service certainly has records. */
function noteUncertainSpan(
  { clock, notice }: RunContext,
  { source: { certainMs }, windows, stream }: { source: WindowedSource; windows: readonly Window[]; stream: string },
): void {
  const [first] = windows;
  if (first === undefined || certainMs === undefined) return;
  // The day of grace is for the lag, and for the time since the last run.
  if (Date.parse(first.from) >= clock.now() - certainMs - dayMs) return;
  const days = certainMs / dayMs;
  notice(
    `${stream}: requests records since ${first.from.slice(0, 10)}, but the service may only have those of the last ${days} days. ` +
      'Each run requests earlier time again if it has no records. To avoid that, set a later `since`.',
  );
}

interface BeginTask {
  readonly opened: OpenedStream;
  readonly run: RunIdentity;
  readonly previous: StreamState | undefined;
  /** The columns to begin with; undefined before the first snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  /** Values of the partitioning attribute in the last snapshot. */
  readonly lastValues: readonly string[];
  /** If the run chooses how to split the list: the ways that the last snapshot shows. */
  readonly splits: readonly Split[];
  /** Stored records to request again by their keys. */
  readonly again: StoredKeys;
  /** Shows the streams that its query reads. */
  readonly session: Session;
  readonly inputs: QueryInputs;
  /** Id of the store that the stream was opened from. */
  readonly storeId: string;
  readonly duckdbVersion: string;
  /** Why the record cache must not be used, in words; undefined if it may. */
  readonly refusal?: string;
}

/** How a list is split; undefined if it is read as one, or if the reading keeps the chains of an earlier process. */
async function splitFor(
  context: RunContext,
  { opened, lastValues, splits }: BeginTask,
): Promise<ExtractionOptions['partition']> {
  const { config, unfinished } = opened;
  const { partitionBy } = config.reads;
  // Even without values: the chains of an earlier process need the attribute.
  if (partitionBy !== 'auto') return partitionBy && { ...partitionBy, values: partitionBy.values ?? lastValues };
  if (unfinished !== undefined) return undefined;
  const pageSize = config.reads.pageSize ?? context.config.service.pageSize;
  return chosenSplit(context, opened, { candidates: splits, pageSize });
}

/** Begins a stream's reading. It resumes an earlier run's reading if it can. */
export async function openReader(context: RunContext, task: BeginTask): Promise<StreamReader> {
  const { config: all, client, signal, clock, database, converter, job, layout } = context;
  const { opened, run, previous, columns, session } = task;
  const { config, source, unfinished } = opened;
  const folder = layout.streamRun(run.runId, config.name);
  const { compression } = job.parquet;
  if (source === undefined) {
    const { QueryReader } = await import('./query-reader.js');
    const mayStand = !context.full && !context.rekey && task.refusal === undefined;
    return new QueryReader({
      config,
      session,
      folder,
      compression,
      columns,
      rules: opened.rules,
      monotonic: () => clock.monotonic(),
      inputs: task.inputs,
      fingerprint: digest([opened.fingerprint, opened.definition]),
      previous: mayStand ? previous : undefined,
      oneThread: (work) => database.use('writing files', {}, work),
    });
  }
  if (unfinished !== undefined) await adoptUnfinished(layout, unfinished, run);
  const recognition = cacheOptionsFor(context, { ...task, config, source, rules: opened.rules });
  const reader = await ServiceReader.begin({
    stream: config.name,
    meter: opened.meter,
    source,
    client,
    signal,
    clock,
    database,
    converter,
    filter: config.reads.filter,
    partition: await splitFor(context, task),
    windows: opened.windows,
    unfinished: task.again.asked,
    known: { skipped: task.again.skipped(context), undetailed: task.again.undetailed },
    notice: (line) => context.notice(`${config.name}: ${line}`),
    showsValues: context.showsValues ?? false,
    covered: previous?.covered ?? [],
    pageSize: config.reads.pageSize ?? all.service.pageSize,
    atOnce: client.concurrency(config.reads.group ?? 'profile'),
    compression,
    folder,
    fingerprint: opened.fingerprint,
    startedAt: run.startedAt,
    columns,
    rules: opened.rules,
    resume: unfinished?.journal,
    recognition,
    checkTotal: config.reads.checkTotal,
  });
  // It may have no cache after all, or the one of the reading that it resumes.
  await context.caches.hold(config.name, reader.hashTable?.words.byteLength ?? 0);
  return reader;
}

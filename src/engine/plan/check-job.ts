import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ServiceError } from '../../api/client.js';
import { tokenExpiry } from '../../api/token-source.js';
import type { StoredColumn } from '../../columns/columns.js';
import type { JobConfig, StreamConfig } from '../../config/config.js';
import { asCdsyncError } from '../../core/errors.js';
import type { ReportedError } from '../../core/run-report.js';
import type { ServiceOptions } from '../../core/service-options.js';
import { checkDestination } from '../../delivery/check-destination.js';
import { optionalTotal, readTotal } from '../../extract/list-total.js';
import { isWritable, missingAfterRunSettings } from '../../notify/missing-settings.js';
import { requireOwner } from '../../sources/key-owner.js';
import type { Session } from '../../storage/duckdb.js';
import { probeStorage } from '../../storage/probe-storage.js';
import { checkStorage } from '../../storage/storage.js';
import { type Engine, jobContext, serviceAccess } from '../open-engine.js';
import { errorWithAuth } from '../report-job.js';
import { KnownColumns } from '../run/query-columns.js';
import { queryTraits, varyingWarning } from '../run/query-traits.js';
import { assertKnownTables, assertNoCircle } from '../run/stream-order.js';
import {
  type ContractCheck,
  checkColumns,
  checkContracts,
  publishedColumns,
  type SampleFailed,
  sampledColumns,
} from './check-contract.js';

/** The result of `cdsync check` for one destination. */
interface CheckedDestination {
  name: string;
  connector: string;
  streams: string[];
  status: 'ok' | 'failed';
  /** The server that it reached; null if none. */
  reached: string | null;
  /** Permissions and the like that a load needs. */
  lacks: { message: string; hint: string | null }[];
  /** The reason if only a load can test it. */
  untried: string | null;
  error: (ReportedError & { auth: boolean }) | null;
}

/** Tries each destination of a job: connects, logs in, and looks for permissions. Writes nothing. */
async function checkDestinations(engine: Engine, job: JobConfig): Promise<CheckedDestination[]> {
  const { signal, notice, client } = engine;
  const context = { signal, notice, layout: engine.layoutOf(job.name), service: serviceAccess(client, notice) };
  const checked: CheckedDestination[] = [];
  for (const destination of job.destinations) {
    const { reached, lacks, untried, error } = await checkDestination(context, destination);
    const { name, connector, streams } = destination;
    checked.push({
      name,
      connector: connector.name,
      streams: [...streams],
      status: error === undefined && lacks.length === 0 ? 'ok' : 'failed',
      reached,
      lacks: lacks.map(({ message, hint = null }) => ({ message, hint })),
      untried: untried ?? null,
      error: error === undefined ? null : errorWithAuth(error),
    });
  }
  return checked;
}

/** The check warns of a token that ends sooner, so that there is time to distribute another. */
const warnDays = 14;
const dayMs = 86_400_000;

interface CheckedStream {
  name: string;
  /** By the service's own count; null if it does not count. */
  total: number | null;
  /** The reason if only a run can test it; otherwise null. */
  untried: string | null;
  error: (ReportedError & { auth: boolean }) | null;
}

/** The result of `cdsync check`. */
export interface CheckResult {
  status: 'ok' | 'failed';
  job: string;
  warnings: string[];
  /** End of the configured token; null if it never ends, or OAuth renews it. */
  token_expires_at: string | null;
  streams: CheckedStream[];
  /** Each destination, tried without writing. */
  destinations: CheckedDestination[];
  /** The service's records compared with the last snapshot; null without `--contract`. */
  contracts: ContractCheck[] | null;
}

async function configuredToken({ auth }: ServiceOptions): Promise<string | undefined> {
  if (auth.type === 'token') return auth.token.reveal();
  if (auth.type === 'client_credentials') return undefined;
  return (await readFile(auth.path, 'utf8').catch(() => undefined))?.trim();
}

function tokenWarnings(expires: Date | undefined, nowMs: number): string[] {
  if (expires === undefined) return [];
  const days = Math.floor((expires.getTime() - nowMs) / dayMs);
  if (days >= warnDays) return [];
  const when = days < 0 ? 'has ended' : `ends in ${days} ${days === 1 ? 'day' : 'days'}`;
  return [
    `the token ${when} (${expires.toISOString()}): issue another for the same API key. Issued with "rotate key secret", it ` +
      'replaces this one, which then expires after 30 days; a second rotation within that time ends it immediately. ' +
      'With OAuth client credentials, cdsync renews tokens itself.',
  ];
}

interface Trial {
  readonly session: Session;
  readonly streams: readonly StreamConfig[];
  readonly columns: KnownColumns;
  /** The columns that a run would find, by a page or two. */
  readonly sampled: (config: StreamConfig) => Promise<readonly StoredColumn[] | undefined>;
  /** Gets those about the streams. */
  readonly warnings: string[];
}

/** Makes one request of a stream. @returns its total, if the service counts */
async function tryStream(
  engine: Engine,
  config: StreamConfig,
  { session, streams, columns, sampled, warnings }: Trial,
): Promise<number | null> {
  const { client, signal, clock, notice } = engine;
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const { query, open, filter } = config.reads;
  if (query !== undefined) {
    const names = streams.map(({ name }) => name);
    await assertKnownTables(session, { name: config.name, query, readsPrevious: open === undefined }, names);
    await assertNoCircle(session, config.name, streams);
    await columns.assertKnown(config, sampled);
    const warning =
      open === undefined &&
      varyingWarning(config.name, await queryTraits(session, { name: config.name, query }, names));
    if (warning) warnings.push(warning);
  }
  // Its requests depend on streams that are not read yet.
  if (query !== undefined || open === undefined) return null;
  const { service } = engine.config;
  const nowMs = clock.now();
  const task = { client, service, signal, notice, meter, session };
  const mayBeEmpty = config.guards.minRows === 0;
  const source = await open({ ...task, mayBeEmpty, now: nowMs, lastRunAt: undefined });
  if (source.kind === 'keyed') {
    const [first] = source.requests;
    const operation = first?.operation({ token: null, limit: 1 });
    if (operation === undefined) return null;
    const isThere = await client
      .send(operation, () => true, { signal, meter })
      .catch((error: unknown) => {
        if (source.mayMiss && error instanceof ServiceError && error.status === 404) return false;
        throw error;
      });
    if (!isThere && source.owner !== undefined) await requireOwner({ client, signal, meter }, source.owner);
    return isThere ? source.requests.length : null;
  }
  // A total can be expensive, so it is asked for only where the run does (specification, section 4.2).
  const withTotal = config.reads.checkTotal || config.reads.partitionBy !== undefined;
  const request = { token: null, limit: 1, filter, withTotal };
  // The service may refuse a window in the future, and this machine's clock may be ahead.
  const to = nowMs - (client.aheadMs ?? 0) - 60_000;
  const window = { from: new Date(to - 86_400_000).toISOString(), to: new Date(to).toISOString() };
  if (source.kind === 'windowed') {
    await client.send(source.page({ ...request, window, withTotal: false }), readTotal, { signal, meter });
    // It counts the window, not the stream.
    return null;
  }
  // As the run does: a list that may take no parameters is first asked without any.
  const options = { signal, meter };
  const counted =
    withTotal && source.plain === undefined ? await optionalTotal(client, source.page(request), options) : null;
  const uncounted = source.plain?.() ?? source.page({ ...request, withTotal: false });
  const total = counted ?? (await client.send(uncounted, readTotal, options));
  const part = partFilter(config);
  if (part !== undefined)
    await client.send(source.page({ ...request, filter: part, withTotal: false }), readTotal, { signal, meter });
  return total;
}

/** The filter of one partition: the service may refuse to filter by its attribute. Undefined where no values are listed. */
function partFilter({ reads: { partitionBy, filter } }: StreamConfig): ReadonlyMap<string, string> | undefined {
  const value = partitionBy === 'auto' ? undefined : partitionBy?.values?.[0];
  if (partitionBy === undefined || partitionBy === 'auto' || value === undefined) return undefined;
  return new Map([...filter, [partitionBy.attribute, value]]);
}

async function checkStream(engine: Engine, config: StreamConfig, trial: Trial): Promise<CheckedStream> {
  try {
    const untried = config.reads.query === undefined ? null : 'SQL is tested by the run';
    return { name: config.name, total: await tryStream(engine, config, trial), untried, error: null };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.kind === 'interrupted') throw error;
    return { name: config.name, total: null, untried: null, error: errorWithAuth(error) };
  }
}

/**
 * Tests the conditions of a run, with about one request for each stream and a login to each destination. Writes nothing.
 * @param contract whether to compare columns and types with the last snapshot too; that reads a page or two of each stream
 */
export async function checkJob(
  engine: Engine,
  job: JobConfig,
  { contract }: { contract: boolean },
): Promise<CheckResult> {
  const layout = engine.layoutOf(job.name);
  await checkStorage(layout);
  await probeStorage(layout.folder, engine.database);
  const token = await configuredToken(engine.config.service);
  const expires = token === undefined ? undefined : tokenExpiry(token);
  const streams: CheckedStream[] = [];
  let names: string[] = [];
  const warnings: string[] = [];
  const failed: SampleFailed = (name, error) => {
    const stream = streams.find((candidate) => candidate.name === name);
    if (stream !== undefined) stream.error ??= errorWithAuth(error);
  };
  const session = await engine.database.connect();
  try {
    const context = jobContext(engine, job);
    const columns = new KnownColumns(session, job.streams, (config) => publishedColumns(context, config));
    const sampled = (config: StreamConfig) => sampledColumns(context, config, session);
    const trial = { session, streams: job.streams, columns, sampled, warnings };
    for (const config of job.streams) streams.push(await checkStream(engine, config, trial));
    names = await checkColumns(context, session, failed);
  } finally {
    session.close();
  }
  const destinations = await checkDestinations(engine, job);
  const contracts = contract ? await checkContracts(jobContext(engine, job), failed) : null;
  const isBroken = contracts?.some(({ breaks }) => breaks) ?? false;
  const isWell =
    !isBroken && streams.every(({ error }) => error === null) && destinations.every(({ status }) => status === 'ok');
  return {
    status: isWell ? 'ok' : 'failed',
    job: job.name,
    warnings: [
      ...tokenWarnings(expires, engine.clock.now()),
      ...((await isWritable(layout.folder)) ? [] : [`storage: this user cannot write to ${layout.folder}`]),
      ...warnings,
      ...names,
      ...(await missingAfterRunSettings(job, dirname(engine.config.file))),
    ],
    token_expires_at: expires?.toISOString() ?? null,
    streams,
    destinations,
    contracts,
  };
}

import { mkdir, stat } from 'node:fs/promises';
import type { JobConfig, JobSummary, StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nameHint } from '../../core/suggestions.js';
import { destinationStatuses, resetDelivery } from '../../delivery/destination-status.js';
import type { DestinationStatus } from '../../delivery/lag-words.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { CoveredSpan, StreamState } from '../../snapshot/stream-state.js';
import { JobLock, withJobLock } from '../../storage/job-lock.js';
import { Journal } from '../../storage/journal.js';
import type { JobLayout } from '../../storage/layout.js';
import { discardStreams } from '../../storage/run-state.js';
import { runFolders } from '../../storage/storage.js';
import { assertNoUntrustedLinks } from '../../storage/untrusted-links.js';
import type { StorageEngine } from '../open-engine.js';
import { type PartitionState, partitionStates, resetPartition } from './partition-state.js';

type DestinationSummary = JobSummary['destinations'][number];

/** A stream in the store. */
interface StoredStream {
  name: string;
  run_id: string;
  sequence: number;
  rows: number;
  key: string[];
  synced_at: string;
  /** Spans of time that are read completely and not read again. */
  covered: CoveredSpan[];
  /** Whether the configuration still has it. */
  configured: boolean;
}

/** The state that a job keeps between runs. */
export interface JobState {
  job: string;
  /** Id of the store. */
  store: string;
  sequence: number;
  streams: StoredStream[];
  /** How far interrupted runs have read, by partition. */
  partitions: PartitionState[];
  /** The state of each destination after its last delivery. */
  destinations: DestinationStatus[];
}

async function withStore<T>(
  engine: StorageEngine,
  layout: JobLayout,
  work: (store: SnapshotStore) => Promise<T>,
): Promise<T> {
  await assertNoUntrustedLinks(layout);
  await stat(layout.store).catch(() => {
    throw new CdsyncError(`job "${layout.job}" has no state yet`, {
      code: 'not_published',
      hint: 'run it first: cdsync run',
    });
  });
  return withJobLock(engine, layout, async () => {
    const store = await SnapshotStore.open(engine.database, layout);
    return work(store).finally(() => store.close());
  });
}

function shown({ stream, run_id, sequence, rows, key, synced_at, covered }: StreamState, job: JobConfig): StoredStream {
  const configured = job.streams.some(({ name }) => name === stream);
  return { name: stream, run_id, sequence, rows, key, synced_at, covered: covered ?? [], configured };
}

/** The streams of a store: those of the configuration in its order, then those that left it. */
function inOrder(job: JobConfig, stored: ReadonlyMap<string, StreamState>): string[] {
  return [...new Set([...job.streams.map(({ name }) => name), ...stored.keys()])];
}

/** Whether the configuration lists the partition values. Otherwise they come from records, and are hidden. */
function listsValues({ reads }: StreamConfig): boolean {
  return reads.partitionBy !== 'auto' && reads.partitionBy?.values !== undefined;
}

/** @throws {CdsyncError} `not_published`, `locked` */
export async function jobState(
  engine: StorageEngine,
  job: JobConfig,
  { showValues, destinations }: { showValues: boolean; destinations: readonly DestinationSummary[] },
): Promise<JobState> {
  const layout = engine.layoutOf(job.name);
  return withStore(engine, layout, async (store) => {
    const { id, sequence, streams } = await store.state();
    const partitions = job.streams.map((config) =>
      partitionStates(layout, config.name, { showValues: showValues || listsValues(config) }),
    );
    return {
      job: job.name,
      store: id,
      sequence,
      streams: inOrder(job, streams).flatMap((name) => {
        const state = streams.get(name);
        return state === undefined ? [] : [shown(state, job)];
      }),
      partitions: (await Promise.all(partitions)).flat(),
      destinations: await destinationStatuses(layout, destinations),
    };
  });
}

/** The result of a reset of one stream. */
interface ResetStream {
  name: string;
  /** Runs whose checkpoints are gone. */
  checkpoints: string[];
  /** Whether its spans of time will be read again. */
  covered: boolean;
}

async function dropCheckpoints(layout: JobLayout, stream: string): Promise<string[]> {
  const dropped: string[] = [];
  for (const runId of await runFolders(layout)) {
    // A damaged one counts too.
    const hasOne = (await Journal.read(layout.streamRun(runId, stream)).catch(() => null)) !== undefined;
    if (!hasOne) continue;
    await discardStreams(layout, runId, [stream]);
    dropped.push(runId);
  }
  return dropped;
}

/**
 * Removes the checkpoints and covered spans of streams, so that the next run reads from the start. Snapshot and history stay.
 * @param choice the streams, by default all; with `partition`, only that part of one stream
 * @throws {CdsyncError} `stream_not_found`, `partition_not_found`, `not_published`, `locked`
 */
export async function resetState(
  engine: StorageEngine,
  job: JobConfig,
  { streams: only, partition }: { streams: readonly string[] | undefined; partition: string | undefined },
): Promise<ResetStream[]> {
  const layout = engine.layoutOf(job.name);
  return withStore(engine, layout, async (store) => {
    const { streams } = await store.state();
    const knownNames = inOrder(job, streams);
    for (const name of only ?? []) if (!knownNames.includes(name)) throw notFound('stream', job.name, name, knownNames);
    const reset: ResetStream[] = [];
    for (const name of only ?? knownNames) {
      const state = streams.get(name);
      if (partition !== undefined) {
        const spans = state?.covered ?? [];
        const part = await resetPartition(layout, { stream: name, partition, covered: spans });
        if (state !== undefined && part.covered !== undefined)
          await store.rememberStream({ ...state, covered: part.covered });
        reset.push({ name, covered: part.covered !== undefined, checkpoints: part.checkpoints });
        continue;
      }
      const covered = (state?.covered ?? []).length > 0;
      if (state !== undefined && covered) await store.rememberStream({ ...state, covered: [] });
      reset.push({ name, covered, checkpoints: await dropCheckpoints(layout, name) });
    }
    return reset;
  });
}

/**
 * Removes the local state of a destination ({@link resetDelivery}). Its rows and their record there stay.
 * @returns the streams that were forgotten
 * @throws {CdsyncError} `destination_not_found`, `stream_not_found`, `locked`
 */
export async function resetDestination(
  { database, clock, layoutOf }: StorageEngine,
  job: string,
  destinations: readonly DestinationSummary[],
  { destination, streams }: { destination: string; streams: readonly string[] | undefined },
): Promise<string[]> {
  const names = destinations.map(({ name }) => name);
  const destinationConfig = destinations.find(({ name }) => name === destination);
  if (destinationConfig === undefined) throw notFound('destination', job, destination, names);
  for (const name of streams ?? [])
    if (!destinationConfig.streams.includes(name)) throw notFound('stream', job, name, destinationConfig.streams);
  const layout = layoutOf(job);
  const reset = streams ?? destinationConfig.streams;
  await assertNoUntrustedLinks(layout);
  await mkdir(layout.delivery(destination), { recursive: true, mode: 0o700 });
  const startedAt = new Date(clock.now()).toISOString();
  const lock = await JobLock.acquireDestination(database, layout, destination, startedAt);
  try {
    await resetDelivery(layout, destination, reset);
  } finally {
    await lock.release();
  }
  return [...reset];
}

function notFound(
  what: 'stream' | 'destination',
  job: string,
  name: string,
  knownNames: readonly string[],
): CdsyncError {
  return new CdsyncError(`job "${job}" has no ${what} "${name}"`, {
    code: `${what}_not_found`,
    hint: nameHint(`its ${what}s`, name, knownNames),
  });
}

import { readlink, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nameHint } from '../../core/suggestions.js';
import { readDeliveryState } from '../../delivery/delivery-state.js';
import { forgetDestination, unconfiguredIn } from '../../delivery/destination-status.js';
import { dropCarriedOut } from '../../delivery/erasure-log.js';
import { compact } from '../../snapshot/compact.js';
import { removeStream } from '../../snapshot/remove-stream.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { recordDecisions } from '../../storage/decisions.js';
import { JobLock, withJobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { createRun, discardStreams } from '../../storage/run-state.js';
import { namesIn, prepareStorage, runFolders } from '../../storage/storage.js';
import type { StorageEngine } from '../open-engine.js';
import { publishStore } from '../run/commit-and-publish.js';
import { hasStore } from './find-person.js';

/** A table or a log at a destination that cdsync no longer writes to. It stays as it is. */
interface AbandonedPlace {
  destination: string;
  stream: string;
  table: string | null;
}

/** The removed stream or destination, and the places that stay at destinations. */
export interface RemovedState {
  job: string;
  stream: string | null;
  destination: string | null;
  /** Rows of the stream that were in the store. */
  rows: number;
  destinations: AbandonedPlace[];
}

type Choice = { readonly stream: string } | { readonly destination: string };

function assertNotConfigured(what: 'stream' | 'destination', job: string, name: string, isConfigured: boolean): void {
  if (!isConfigured) return;
  throw new CdsyncError(`${what} "${name}" is in the configuration of job "${job}"`, {
    code: 'usage',
    hint: `take it out of the file first; cdsync state reset begins it again`,
  });
}

function unknown(
  what: 'stream' | 'destination',
  job: string,
  name: string,
  knownNames: readonly string[],
): CdsyncError {
  return new CdsyncError(`job "${job}" has nothing of a ${what} "${name}" that left the configuration`, {
    code: `${what}_not_found`,
    hint:
      knownNames.length === 0
        ? 'nothing left the configuration'
        : nameHint('its streams and destinations', name, knownNames),
  });
}

/** The places with delivered rows: of one stream, or by one destination. */
async function placesOf(layout: JobLayout, choice: Choice): Promise<AbandonedPlace[]> {
  const places: AbandonedPlace[] = [];
  for (const destination of await namesIn(layout.deliveries)) {
    const { streams } = await readDeliveryState(layout, destination);
    for (const [stream, { table }] of Object.entries(streams))
      if ('stream' in choice ? stream === choice.stream : destination === choice.destination)
        places.push({ destination, stream, table });
  }
  return places;
}

/** Removes the folder's files about deliveries. */
async function forgetPlaces({ database, clock }: StorageEngine, layout: JobLayout, places: readonly AbandonedPlace[]) {
  for (const { destination, stream } of places) {
    const at = new Date(clock.now()).toISOString();
    const lock = await JobLock.acquireDestination(database, layout, destination, at);
    await forgetDestination(layout, destination, [stream]).finally(() => lock.release());
  }
  const decision = places.map(({ destination, stream }) => ({ destination, stream, configured: false }));
  await recordDecisions(layout, clock.now(), () => [{ action: 'removed', places: decision }]);
}

/** Takes a stream out of store, published file, Parquet files and caches. */
async function takeOut(engine: StorageEngine, layout: JobLayout, job: JobConfig, stream: string): Promise<number> {
  const { database, clock } = engine;
  const run = await createRun(layout, clock.now());
  const store = await SnapshotStore.open(database, layout);
  const sequence = (await store.state()).sequence + 1;
  const rows = await removeStream(store, stream, { runId: run.runId, at: run.startedAt, sequence }).finally(() =>
    store.close(),
  );
  await compact(database, layout, { reason: 'rewritten', sequence, notice: () => undefined });
  for (const runId of await runFolders(layout)) await discardStreams(layout, runId, [stream]);
  const files = [layout.stream(stream), layout.feed(stream), layout.known(stream), layout.erasures(stream)];
  for (const path of files) await rm(path, { recursive: true, force: true });
  const again = await SnapshotStore.open(database, layout);
  const context = { database, layout, job, clock, notice: () => undefined };
  await publishStore(context, again, { repairs: 'all' }).finally(() => again.close());
  await removeEarlierVersions(layout);
  return rows;
}

/** The earlier published versions still have the stream. */
async function removeEarlierVersions(layout: JobLayout): Promise<void> {
  const [, present] = (await readlink(layout.link).catch(() => '')).split('/');
  for (const name of await namesIn(layout.publishedFolder))
    if (present !== undefined && name !== present)
      await rm(join(layout.publishedFolder, name), { recursive: true, force: true });
}

/**
 * Removes a stream with its rows, or the state of a destination, that the configuration no longer has. Data at destinations stays.
 * @throws {CdsyncError} `usage` if it is configured; `stream_not_found`, `destination_not_found`, `not_published`, `locked`
 */
export async function removeState(
  engine: StorageEngine,
  job: JobConfig,
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
  choice: Choice,
): Promise<RemovedState> {
  const layout = engine.layoutOf(job.name);
  const names = job.streams.map(({ name }) => name);
  if ('stream' in choice) assertNotConfigured('stream', job.name, choice.stream, names.includes(choice.stream));
  else {
    const isConfigured = destinations.some(({ name }) => name === choice.destination);
    assertNotConfigured('destination', job.name, choice.destination, isConfigured);
  }
  if (!(await hasStore(layout)))
    throw new CdsyncError(`job "${job.name}" has no state yet`, {
      code: 'not_published',
      hint: 'there is nothing to remove',
    });
  await prepareStorage(layout, job.publish.mode);
  return withJobLock(engine, layout, async () => {
    const left = await unconfiguredIn(layout, names, destinations);
    const places = await placesOf(layout, choice);
    const result = { job: job.name, stream: null, destination: null, rows: 0, destinations: places };
    if ('destination' in choice) {
      if (places.length === 0) throw unknown('destination', job.name, choice.destination, left.destinations);
      await forgetPlaces(engine, layout, places);
      await rm(layout.delivery(choice.destination), { recursive: true, force: true });
      await dropCarriedOut(layout, engine.clock.now(), destinations);
      return { ...result, destination: choice.destination };
    }
    const { stream } = choice;
    if (!left.streams.includes(stream)) throw unknown('stream', job.name, stream, left.streams);
    const rows = await takeOut(engine, layout, job, stream);
    await forgetPlaces(engine, layout, places);
    return { ...result, stream, rows };
  });
}

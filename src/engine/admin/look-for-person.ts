import { readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { rowKey } from '../../columns/row-hash.js';
import type { JobConfig } from '../../config/config.js';
import type { CdsyncError } from '../../core/errors.js';
import { sqlTexts } from '../../core/sql.js';
import { listedRejects, readDeliveryState, rejectsPath } from '../../delivery/delivery-state.js';
import { type ErasureLog, erasureLog } from '../../delivery/erasure-log.js';
import { outboxKeys } from '../../delivery/records/outbox.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { storeTable } from '../../snapshot/store-tables.js';
import { DecisionLog } from '../../storage/decisions.js';
import { readErasures } from '../../storage/erasures.js';
import { JobLock } from '../../storage/job-lock.js';
import type { JobLayout } from '../../storage/layout.js';
import { assertNoUntrustedLinks } from '../../storage/untrusted-links.js';
import { Salts } from '../column-rules.js';
import type { StorageEngine } from '../open-engine.js';
import { type ErasureDestination, erasureDestinations } from './erasure-destinations.js';
import { type FoundPeople, hasStore, type PlaceCounts } from './find-person.js';
import { type ForgetRequest, findInStreams } from './forget-person.js';

/** A stream's numbers of rows of the people. */
interface StreamPlaces extends PlaceCounts {
  name: string;
  /** Whether the configuration still has the stream. */
  configured: boolean;
  /** Rows of the published file. */
  published: number;
  /** Whether its keys are hashed with a salt that the configuration no longer has. */
  salt_missing: boolean;
}

/** A destination that may have their rows. cdsync does not connect to it to find out. */
interface DestinationPlaces extends ErasureDestination {
  /** When something was delivered there last: ISO 8601; null if nothing ever was. */
  delivered_at: string | null;
  /** Records with their keys that wait for it, and values that it refused. */
  outbox: number;
  rejects: number;
}

/** Where a job has some people. It contains no key and no value. */
export interface PeoplePlaces {
  job: string;
  keys: number;
  streams: StreamPlaces[];
  destinations: DestinationPlaces[];
  /** Erasures that still keep one of the keys in clear, for destinations. */
  erasures_waiting: number;
  /** Whether an erasure of them was cut short. */
  unfinished: boolean;
}

/** A search, and which of the requested keys it has found. */
interface PeopleSearch {
  readonly places: PeoplePlaces;
  readonly found: readonly FoundPeople[];
}

async function publishedRows(
  { database }: StorageEngine,
  layout: JobLayout,
  streams: readonly { state: { stream: string; key: string[] }; found: FoundPeople }[],
) {
  const counts = new Map<string, number>();
  const published = await SnapshotStore.openPublished(database, layout).catch((error: CdsyncError) => {
    if (error.code === 'storage_altered') throw error;
    return undefined;
  });
  if (published === undefined) return counts;
  try {
    for (const { state, found } of streams) {
      const isOfPerson = `${rowKey(state.key)} IN (SELECT unnest(${sqlTexts([...found.keys.keys()])}))`;
      const rows = published.session.number(`SELECT count(*) FROM ${storeTable(state.stream)} WHERE ${isOfPerson}`);
      counts.set(state.stream, await rows.catch(() => 0));
    }
  } finally {
    await published.close();
  }
  return counts;
}

async function destinationPlaces(
  engine: StorageEngine,
  layout: JobLayout,
  place: ErasureDestination,
  keys: ReadonlySet<string>,
): Promise<DestinationPlaces> {
  const { name, stream } = place;
  const state = (await readDeliveryState(layout, name)).streams[stream];
  const rejects = await listedRejects(rejectsPath(layout, name, stream));
  const records = await outboxKeys(join(layout.deliveredStream(name, stream), 'outbox')).catch(() => undefined);
  const session = await engine.database.connect();
  const waiting =
    records === undefined
      ? 0
      : session.number(`SELECT count(*) FROM (${records}) WHERE key IN (SELECT unnest(${sqlTexts([...keys])}))`);
  return {
    ...place,
    delivered_at: state?.delivered_at ?? null,
    outbox: await Promise.resolve(waiting).finally(() => session.close()),
    rejects: rejects.filter(({ key }) => key !== null && keys.has(key)).length,
  };
}

/**
 * Finds where a job has some people, and changes nothing.
 * @returns undefined if the job has no store
 * @throws {CdsyncError} `stream_not_found`, `not_published`, `locked`
 */
export async function lookForPeople(
  engine: StorageEngine,
  job: JobConfig,
  request: ForgetRequest,
): Promise<PeopleSearch | undefined> {
  const { database, clock } = engine;
  const layout = engine.layoutOf(job.name);
  await assertNoUntrustedLinks(layout);
  if (!(await hasStore(layout))) return undefined;
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    await new Salts().define(database, job);
    const store = await SnapshotStore.open(database, layout);
    const streams = await findInStreams(store, engine, { layout, job }, request).finally(() => store.close());
    const published = await publishedRows(engine, layout, streams);
    const keysOf = new Map(
      streams.map(({ state, found }) => [state.stream, new Set([...found.keys.keys(), ...request.keys])]),
    );
    const names = [...keysOf.keys()];
    const destinations: DestinationPlaces[] = [];
    for (const place of await erasureDestinations(layout, request.destinations ?? [], names))
      destinations.push(await destinationPlaces(engine, layout, place, keysOf.get(place.stream) ?? new Set()));
    const erasures = (await Promise.all(names.map((name) => readErasures(layout, name)))).flat();
    const wanted = new Set([...keysOf.values()].flatMap((keys) => [...keys]));
    const expected = streams.some(({ state: { forgotten } }) => forgotten === true);
    const log = request.evenIfAbsent === true ? undefined : await DecisionLog.read(layout, { expected });
    const places = {
      job: job.name,
      keys: request.keys.length,
      streams: streams.map(({ state, found }) => ({
        name: state.stream,
        configured: job.streams.some(({ name }) => name === state.stream),
        ...found.counts,
        published: published.get(state.stream) ?? 0,
        salt_missing: found.lacksSalt,
      })),
      destinations,
      erasures_waiting: erasures.filter(({ keys }) => keys?.some((key) => wanted.has(key))).length,
      unfinished: log?.isUnfinished(request.keys) === true,
    };
    return { places, found: streams.map(({ found }) => found) };
  } finally {
    await lock.release();
  }
}

/**
 * The log of erasures of a job.
 * @throws {CdsyncError} `state_unreadable` also if it is lost, although the published file says that people were forgotten
 */
export async function readErasureLog({ database }: StorageEngine, layout: JobLayout): Promise<ErasureLog> {
  const log = await erasureLog(layout);
  if (log.erasures.length > 0) return log;
  const target = await readlink(layout.link).catch(() => undefined);
  if (target !== undefined) await layout.remoteFiles?.download(join(layout.folder, target));
  const published = await SnapshotStore.openPublished(database, layout).catch(() => undefined);
  try {
    const streams = [...((await published?.state())?.streams.values() ?? [])];
    await DecisionLog.read(layout, { expected: streams.some(({ forgotten }) => forgotten === true) });
  } finally {
    await published?.close();
  }
  return log;
}

import { setMaxListeners } from 'node:events';
import type { DestinationConfig, JobConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/nearest.js';
import type { DestinationReport } from '../../core/run.js';
import { deliverTo, type StreamDelivery } from '../../deliver/deliver.js';
import type { DeliveryContext, DeliveryProgress } from '../../deliver/delivery.js';
import { reportError } from '../report-job.js';

/** What DuckDB needs to write files and to join keys, the latter on disk. */
const leastMemoryMb = 128;

export interface DeliverJobOptions {
  readonly job: JobConfig;
  /** Only these destinations; by default all. */
  readonly destinations?: readonly string[] | undefined;
  /** Only these streams; by default all. */
  readonly streams?: readonly string[] | undefined;
  readonly full?: boolean;
  readonly adopt?: boolean;
  /** Receives an entry for each delivery before it begins. */
  readonly progress: DeliveryProgress[];
}

function unknownName(what: string, job: string, name: string, known: readonly string[]): CdsyncError {
  const near = nearest(name, known);
  const hint =
    known.length === 0 ? 'add one under `destinations:`' : `there are: ${(near.length > 0 ? near : known).join(', ')}`;
  return new CdsyncError(`job "${job}" has no ${what} "${name}"`, {
    code: `${what}_not_found`,
    kind: 'configuration',
    hint,
  });
}

/** The destinations that the options choose. @throws {CdsyncError} `destination_not_found`, `stream_not_found` */
function chosen({ job, destinations, streams }: DeliverJobOptions): DestinationConfig[] {
  const known = job.destinations.map(({ name }) => name);
  for (const name of destinations ?? [])
    if (!known.includes(name)) throw unknownName('destination', job.name, name, known);
  const names = job.streams.map(({ name }) => name);
  for (const name of streams ?? []) if (!names.includes(name)) throw unknownName('stream', job.name, name, names);
  return job.destinations.filter(({ name }) => destinations === undefined || destinations.includes(name));
}

function report({ destination: name, error, ...rest }: StreamDelivery): DestinationReport {
  const { stream, status, rows, waiting, seconds } = rest;
  return { name, stream, status, rows, waiting, seconds, error: error === undefined ? null : reportError(error) };
}

/**
 * Brings a job's destinations up to date with what is published, all at the same time. A failure is in its report.
 * @throws {CdsyncError} `destination_not_found`, `stream_not_found`
 */
export async function deliverJob(context: DeliveryContext, options: DeliverJobOptions): Promise<DestinationReport[]> {
  // Every connection of every destination listens to the signal: no warning about many listeners.
  setMaxListeners(0, context.signal);
  const requests = chosen(options).map((destination) => ({
    destination,
    streams: destination.streams.filter((name) => options.streams === undefined || options.streams.includes(name)),
    full: options.full ?? false,
    adopt: options.adopt ?? false,
  }));
  const { memoryMb, threads } = context.resources;
  const resources = { threads, memoryMb: Math.max(leastMemoryMb, Math.floor(memoryMb / requests.length)) };
  const delivered = requests.map(({ destination, streams, ...rest }) => {
    const progress = streams.map(
      (stream): DeliveryProgress => ({
        destination: destination.name,
        stream,
        phase: 'waiting',
        rows: 0,
        total: undefined,
      }),
    );
    options.progress.push(...progress);
    return deliverTo({ ...context, resources }, { destination, streams, ...rest }, progress);
  });
  const ended = (await Promise.all(delivered)).flat();
  for (const { error } of ended) if (error !== undefined) context.failed?.(error);
  return ended.map(report);
}

import { setMaxListeners } from 'node:events';
import type { DestinationConfig, JobConfig } from '../../config/config.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { DestinationReport } from '../../core/run-report.js';
import { nameHint } from '../../core/suggestions.js';
import { deliverTo } from '../../delivery/deliver.js';
import type { DeliveryContext, DeliveryProgress, DeliveryRequest, StreamDelivery } from '../../delivery/delivery.js';
import { dropCarriedOut } from '../../delivery/erasure-log.js';
import { type PlannedStream, planDeliveries } from '../../delivery/plan-deliveries.js';
import { sharesOf } from '../../storage/memory-shares.js';
import { reportError } from '../report-job.js';

export interface DeliverJobOptions {
  readonly job: JobConfig;
  /** Only these destinations; by default all. */
  readonly destinations?: readonly string[] | undefined;
  /** Only these streams; by default all. */
  readonly streams?: readonly string[] | undefined;
  readonly full?: boolean;
  readonly adopt?: boolean;
  readonly recreate?: boolean;
  /** Compare whole tables with the snapshot. */
  readonly verify?: boolean;
  /** With `full`: the old name of a file that is written again. Only destinations of files are asked then. */
  readonly file?: string | undefined;
  /** Receives an entry for each delivery before it begins. */
  readonly progress: DeliveryProgress[];
}

function unknownName(
  what: 'stream' | 'destination',
  job: string,
  name: string,
  knownNames: readonly string[],
): CdsyncError {
  const hint = knownNames.length === 0 ? 'add one under `destinations:`' : nameHint(`its ${what}s`, name, knownNames);
  return new CdsyncError(`job "${job}" has no ${what} "${name}"`, {
    code: `${what}_not_found`,
    hint,
  });
}

/** @throws {CdsyncError} `destination_not_found` if a job has none */
export function requireDestinations({ name, destinations }: JobConfig): void {
  if (destinations.length > 0) return;
  throw new CdsyncError(`job "${name}" has no destinations`, {
    code: 'destination_not_found',
    hint: 'add one under `destinations:`; docs/destinations.md has examples',
  });
}

/** The destinations that the options choose. @throws {CdsyncError} `destination_not_found`, `stream_not_found` */
function chosen({ job, destinations, streams }: DeliverJobOptions): DestinationConfig[] {
  const knownNames = job.destinations.map(({ name }) => name);
  for (const name of destinations ?? [])
    if (!knownNames.includes(name)) throw unknownName('destination', job.name, name, knownNames);
  const names = job.streams.map(({ name }) => name);
  for (const name of streams ?? []) if (!names.includes(name)) throw unknownName('stream', job.name, name, names);
  return job.destinations.filter(({ name }) => destinations === undefined || destinations.includes(name));
}

function report({ variants, error, ...rest }: StreamDelivery): DestinationReport {
  const changes = variants.length === 0 ? {} : { schema_changes: [...variants] };
  return { ...rest, ...changes, error: error === undefined ? null : reportError(error) };
}

function requestsOf(options: DeliverJobOptions): DeliveryRequest[] {
  const isMeant = ({ connector }: DestinationConfig) => options.file === undefined || connector.kind === 'files';
  return chosen(options)
    .filter(isMeant)
    .map((destination) => ({
      destination,
      streams: destination.streams.filter((name) => options.streams === undefined || options.streams.includes(name)),
      full: options.full ?? false,
      adopt: options.adopt ?? false,
      recreate: options.recreate ?? false,
      verify: options.verify ?? false,
      newStorage: options.job.newStorage,
      file: options.file,
    }));
}

/** What {@link deliverJob} would do. @throws {CdsyncError} `destination_not_found`, `stream_not_found` */
export async function planDeliveriesOfJob(
  context: DeliveryContext,
  options: Omit<DeliverJobOptions, 'progress'>,
  values = { showsValues: false },
): Promise<PlannedStream[]> {
  const planned: PlannedStream[] = [];
  for (const request of requestsOf({ ...options, progress: [] }))
    planned.push(...(await planDeliveries(context, request, values)));
  return planned;
}

/**
 * Delivers the published snapshot to all destinations of a job, in parallel as far as the memory allows. The report has the failures.
 * @throws {CdsyncError} `destination_not_found`, `stream_not_found`
 */
export async function deliverJob(context: DeliveryContext, options: DeliverJobOptions): Promise<DestinationReport[]> {
  // Every connection of every destination listens to the signal: no warning about many listeners.
  setMaxListeners(0, context.signal);
  const requests = requestsOf(options);
  const shares = { memory: sharesOf(context.resources), destinations: requests.length };
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
    return deliverTo({ ...context, shares }, { destination, streams, ...rest }, progress);
  });
  const ended = (await Promise.all(delivered)).flat();
  for (const { error } of ended) if (error !== undefined) context.failed?.(error);
  // The deliveries are still reported.
  await dropCarriedOut(context.layout, context.clock.now(), options.job.destinations).catch((error) =>
    context.notice(`warning: keys of erased rows are kept until the next delivery: ${asCdsyncError(error).message}`),
  );
  return ended.map(report);
}

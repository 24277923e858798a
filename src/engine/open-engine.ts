import { ServiceClient, ServiceError } from '../api/client.js';
import { sendEventOperation } from '../api/realtime-api.js';
import type { Config, JobConfig, LocalConfig } from '../config/config.js';
import { systemClock } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import type { DeliveryContext } from '../delivery/delivery.js';
import { Converter } from '../extract/convert/converter.js';
import type { Budget } from '../rate-limit/budget.js';
import { CacheMemory } from '../record-cache/cache-memory.js';
import type { ServiceAccess } from '../sdk/destination.js';
import { Database } from '../storage/duckdb.js';
import { JobLayout } from '../storage/layout.js';
import { describePlan, memoryNotice, planMemory } from '../storage/memory-plan.js';
import { Salts } from './column-rules.js';
import type { JobFiles } from './job-files.js';
import { newProgress } from './progress.js';
import type { RunChoices, RunContext } from './run-context.js';

/** Statuses that refuse one event: the service may still accept another. */
const aboutTheEvent = new Set([400, 413, 422]);

/** The error of a delivery for a status of the Real-time API. */
function eventError(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error;
  const { status = 0, message, requestId } = error;
  if (aboutTheEvent.has(status)) return new CdsyncError(message, { code: 'event_refused', requestId, cause: error });
  if (status !== 409) return error;
  return new CdsyncError(message, {
    code: 'conflict',
    kind: 'retryable',
    requestId,
    hint: 'the event stream accepts no events now: they are sent when it does',
    cause: error,
  });
}

/** The requests that destinations may make, through the service's client: with its budget, token and retries. */
export function serviceAccess(client: ServiceClient, notice: (line: string) => void): ServiceAccess {
  const dropping = new Set<string>();
  return {
    async sendEvent(streamId, event, signal) {
      const decode = (_: Buffer, { status }: { readonly status: number }) => {
        if (status !== 204 || dropping.has(streamId)) return;
        dropping.add(streamId);
        notice(`event stream "${streamId}" takes events and drops them (204): they change no profile`);
      };
      // A delivery sends at least once, so an event is sent again after a lost response.
      const operation = { ...sendEventOperation(streamId, event), idempotent: true };
      const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
      await client.send(operation, decode, { signal, meter }).catch((error: unknown) => {
        throw eventError(error);
      });
    },
  };
}

/** For commands without a service: its variables need not be set if no destination uses it. */
export const noService: ServiceAccess = {
  sendEvent: () => Promise.reject(new Error('this connector does not declare that it uses the service')),
};

export interface EngineOptions {
  readonly signal: AbortSignal;
  /** Gets each notice for the user once: a deprecation, for example. */
  readonly notice: (line: string) => void;
  /** Shows a line that only `--verbose` asks for. */
  readonly detail?: (line: string) => void;
  /** Completes the commands in the hints of reports, so that they can be pasted. */
  readonly hinted?: RunContext['hinted'];
  readonly failed?: RunContext['failed'];
  readonly showsValues?: RunContext['showsValues'];
  /** The longest wait for a service that is away; shorter if a user waits for the command. */
  readonly maxPatienceMs?: number | undefined;
  /** Shared by all engines that send under one limit. The engine does not close it. */
  readonly budget: Budget;
  /** The files of one job, if they are in a bucket. Default: the folder of each job. */
  readonly place?: JobFiles | undefined;
}

function layoutsOf({ storage }: LocalConfig, place: JobFiles | undefined): (job: string) => JobLayout {
  return (job) => (place?.layout.job === job ? place.layout : new JobLayout(storage, job));
}

/** The parts of a run that outlive a job. */
export interface Engine
  extends Pick<
    RunContext,
    | 'config'
    | 'client'
    | 'database'
    | 'converter'
    | 'clock'
    | 'signal'
    | 'notice'
    | 'hinted'
    | 'failed'
    | 'showsValues'
    | 'salts'
    | 'bucket'
  > {
  layoutOf(job: string): JobLayout;
}

/** Opens an engine for `work`, and closes it again whatever happens. */
export async function withEngine<T>(
  config: Config,
  options: EngineOptions,
  work: (engine: Engine) => Promise<T>,
): Promise<T> {
  const plan = planMemory(config.resources);
  options.detail?.(describePlan(config.resources, plan));
  const tooLittle = memoryNotice(config.resources);
  if (tooLittle !== undefined) options.notice(tooLittle);
  const database = await Database.open(config.resources);
  const converter = new Converter(database, plan.converterLanes);
  const { notice, budget } = options;
  const client = new ServiceClient({
    service: config.service,
    clock: systemClock,
    onNotice: notice,
    budget,
    bodyBytes: plan.bodyBytes,
    maxPatienceMs: options.maxPatienceMs,
  });
  try {
    return await work({
      config,
      client,
      database,
      converter,
      clock: systemClock,
      signal: options.signal,
      notice,
      hinted: options.hinted,
      failed: options.failed,
      showsValues: options.showsValues,
      salts: new Salts(),
      bucket: options.place?.bucket,
      layoutOf: layoutsOf(config, options.place),
    });
  } finally {
    converter.close();
    await client.close();
    database.close();
  }
}

const asUsual: RunChoices = { only: undefined, full: false, range: undefined, accept: false, rekey: false };

/** The context for work on one job, with the user's choices. */
export function jobContext(engine: Engine, job: JobConfig, choices: Partial<RunChoices> = {}): RunContext {
  const progress = newProgress(job.name, []);
  const { cacheBytes } = planMemory(engine.config.resources);
  const caches = new CacheMemory(cacheBytes, (bytes) => engine.database.leave(bytes));
  return { ...engine, job, layout: engine.layoutOf(job.name), caches, progress, ...asUsual, ...choices };
}

/** The parts that work on the storage folder alone needs. */
export type StorageEngine = Pick<Engine, 'database' | 'clock' | 'layoutOf'>;

/** Opens the parts for work on the storage folder, and closes them again whatever happens. */
export async function withStorage<T>(
  config: LocalConfig,
  work: (engine: StorageEngine) => Promise<T>,
  place?: JobFiles,
): Promise<T> {
  const database = await Database.open(config.resources);
  try {
    return await work({ database, clock: systemClock, layoutOf: layoutsOf(config, place) });
  } finally {
    database.close();
  }
}

/** The parts that a delivery without a run needs. */
type DeliveryEngine = Omit<DeliveryContext, 'layout'> & Pick<Engine, 'layoutOf'>;

/** Opens the parts for a delivery (the service only if the configuration has one), and closes them whatever happens. */
export async function withDelivery<T>(
  config: LocalConfig & Partial<Config>,
  { signal, notice, failed, budget, place }: EngineOptions,
  work: (engine: DeliveryEngine) => Promise<T>,
): Promise<T> {
  const { service, resources, patienceMs } = config;
  const client = service && new ServiceClient({ service, clock: systemClock, onNotice: notice, budget });
  try {
    return await work({
      clock: systemClock,
      resources,
      patienceMs,
      signal,
      notice,
      failed,
      service: client === undefined ? noService : serviceAccess(client, notice),
      layoutOf: layoutsOf(config, place),
    });
  } finally {
    await client?.close();
  }
}

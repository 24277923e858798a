import { type RequestMeter, ServiceClient, ServiceError } from '../../client/client.js';
import { readSegments, type Segment, segmentsPageOperation } from '../../client/management-api.js';
import type { Index } from '../../client/profile-api.js';
import { type Clock, systemClock } from '../../core/clock.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { ReportedError } from '../../core/run.js';
import type { ServiceOptions } from '../../core/service-options.js';
import { readTotal } from '../../extract/page-fetcher.js';
import type { ListSource } from '../../streams/source.js';
import { readAllIndexes, readWholeList } from '../../streams/whole-list.js';
import type { EngineOptions } from '../open-engine.js';
import { reportError } from '../report-job.js';

/** What looks at the service without a job and without a storage folder. */
export interface Explorer {
  readonly client: ServiceClient;
  readonly service: ServiceOptions;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
}

/** What could not be read, and why. */
export interface Unread extends ReportedError {
  /** The key may not read it, or the tenant does not have it: no failure of the looking. */
  readonly withheld: boolean;
  readonly auth: boolean;
}

/** A list as far as it could be read. */
export interface Listed<T> {
  readonly items: readonly T[];
  readonly error: Unread | null;
}

/** Opens what looking at the service needs, and closes it again whatever happens. */
export async function withExplorer<T>(
  service: ServiceOptions,
  { signal, notice, budget }: EngineOptions,
  work: (explorer: Explorer) => Promise<T>,
): Promise<T> {
  const client = new ServiceClient({ service, clock: systemClock, onNotice: notice, budget });
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  try {
    return await work({ client, service, clock: systemClock, signal, meter });
  } finally {
    await client.close();
  }
}

/** Any error as what could not be read. @throws {CdsyncError} `interrupted` */
export function unread(thrown: unknown): Unread {
  const error = asCdsyncError(thrown);
  if (error.kind === 'interrupted') throw error;
  const withheld = error instanceof ServiceError && (error.status === 403 || error.status === 404);
  return { ...reportError(error), withheld, auth: error.kind === 'auth' };
}

/**
 * The indexes of the tenant (specification, section 4.2).
 * @throws {ServiceError} where the service cannot be talked to at all; what the key may not read is no such failure
 */
export async function listIndexes(explorer: Explorer): Promise<Listed<Index>> {
  try {
    return { items: await readAllIndexes(explorer), error: null };
  } catch (thrown) {
    const error = unread(thrown);
    if (error.withheld) return { items: [], error };
    // The first request of all is also the first to tell that the tenant header has another name here.
    if (error.code !== 'bad_request' || error.hint !== null) throw thrown;
    const hint = '`tenant_header` may be wrong: its real name has the brand of the service in it (--tenant-header)';
    throw new CdsyncError(error.message, { code: error.code, hint, cause: thrown });
  }
}

/** The segments of the tenant (specification, section 4.11). */
export async function listSegments(explorer: Explorer): Promise<Listed<Segment>> {
  try {
    return { items: await readWholeList(explorer, segmentsPageOperation, readSegments), error: null };
  } catch (thrown) {
    return { items: [], error: unread(thrown) };
  }
}

/** Asks for one record of a list, to see that it may be read. @throws {ServiceError} where it may not */
export async function tryList({ client, signal, meter }: Explorer, source: ListSource): Promise<void> {
  const operation = source.page({ token: null, limit: 1, filter: new Map(), withTotal: false });
  await client.send(operation, readTotal, { signal, meter });
}

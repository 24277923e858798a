import { type RequestCounts, ServiceClient, ServiceError } from '../../api/client.js';
import { readSegments, type Segment, segmentsPageOperation } from '../../api/management-api.js';
import type { Index } from '../../api/profile-api.js';
import { type Clock, systemClock } from '../../core/clock.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { ReportedError } from '../../core/run-report.js';
import type { ServiceOptions } from '../../core/service-options.js';
import { readTotal } from '../../extract/list-total.js';
import type { ListSource } from '../../sources/source.js';
import { readAllIndexes, readWholeList } from '../../sources/whole-list.js';
import type { EngineOptions } from '../open-engine.js';
import { errorWithAuth } from '../report-job.js';

/** The parts that a command needs to look at the service, without a job or a storage folder. */
export interface ServiceBrowser {
  readonly client: ServiceClient;
  readonly service: ServiceOptions;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly meter: RequestCounts;
}

/** Why something could not be read. */
export interface NotReadable extends ReportedError {
  /** The key may not read it, or the tenant does not have it: that is no failure of the command. */
  readonly withheld: boolean;
  readonly auth: boolean;
}

/** A list, empty if it could not be read. */
export interface Listed<T> {
  readonly items: readonly T[];
  readonly error: NotReadable | null;
}

/** Opens an explorer for `work`, and closes it again whatever happens. */
export async function withExplorer<T>(
  service: ServiceOptions,
  { signal, notice, budget, maxPatienceMs }: EngineOptions,
  work: (explorer: ServiceBrowser) => Promise<T>,
): Promise<T> {
  const client = new ServiceClient({ service, clock: systemClock, onNotice: notice, budget, maxPatienceMs });
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  try {
    return await work({ client, service, clock: systemClock, signal, meter });
  } finally {
    await client.close();
  }
}

/** Turns an error into the reason why something could not be read. @throws {CdsyncError} `interrupted` */
export function unread(thrown: unknown): NotReadable {
  const error = asCdsyncError(thrown);
  if (error.kind === 'interrupted') throw error;
  const withheld = error instanceof ServiceError && (error.status === 403 || error.status === 404);
  return { ...errorWithAuth(error), withheld };
}

/**
 * The indexes of the tenant (specification, section 4.2).
 * @throws {ServiceError} if the service does not respond at all; a key that may not read the list does not throw
 */
export async function listIndexes(explorer: ServiceBrowser): Promise<Listed<Index>> {
  try {
    return { items: await readAllIndexes(explorer), error: null };
  } catch (thrown) {
    const error = unread(thrown);
    if (error.withheld) return { items: [], error };
    // This is the first request of all, so it is the first to fail if the tenant header has another name.
    if (error.code !== 'bad_request' || error.hint !== null) throw thrown;
    const hint = '`tenant_header` may be wrong: its real name contains the brand of the service (--tenant-header)';
    throw new CdsyncError(error.message, { code: 'bad_request', hint, cause: thrown });
  }
}

/** The segments of the tenant (specification, section 4.11). */
export async function listSegments(explorer: ServiceBrowser): Promise<Listed<Segment>> {
  try {
    return { items: await readWholeList(explorer, segmentsPageOperation, readSegments), error: null };
  } catch (thrown) {
    return { items: [], error: unread(thrown) };
  }
}

/** Asks for one record of a list, to see that the key may read it. @throws {ServiceError} if it may not */
export async function tryList({ client, signal, meter }: ServiceBrowser, source: ListSource): Promise<void> {
  const operation = source.plain?.() ?? source.page({ token: null, limit: 1, filter: new Map(), withTotal: false });
  await client.send(operation, readTotal, { signal, meter });
}

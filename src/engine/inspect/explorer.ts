import { type Operation, type RequestMeter, ServiceClient, ServiceError } from '../../client/client.js';
import { readSegments, type Segment, segmentsPageOperation } from '../../client/management-api.js';
import type { Page } from '../../client/page-envelope.js';
import { type Index, indexesPageOperation, readIndexes } from '../../client/profile-api.js';
import { type Clock, systemClock } from '../../core/clock.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import type { ReportedError } from '../../core/run.js';
import type { ServiceOptions } from '../../core/service-options.js';
import { readTotal } from '../../extract/page-fetcher.js';
import type { ListSource } from '../../streams/source.js';
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

const pageLimit = 100;
/** More pages than any tenant's lists have. */
const mostPages = 1000;

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

async function readAll<T>(
  { client, signal, meter }: Explorer,
  operation: (token: string | null) => Operation,
  decode: (body: Buffer) => Page<T>,
): Promise<T[]> {
  const items: T[] = [];
  const seen = new Set<string>();
  let token: string | null = null;
  do {
    const page: Page<T> = await client.send(operation(token), decode, { signal, meter });
    items.push(...page.data);
    token = page.nextToken;
    if (token !== null && (seen.has(token) || seen.size === mostPages)) {
      throw new CdsyncError(`${operation(null).label} leads from page to page without an end`, {
        code: 'page_loop',
        hint: 'the service repeats itself: tell its operator',
      });
    }
    if (token !== null) seen.add(token);
  } while (token !== null);
  return items;
}

/**
 * The indexes of the tenant (specification, section 4.2).
 * @throws {ServiceError} where the service cannot be talked to at all; what the key may not read is no such failure
 */
export async function listIndexes(explorer: Explorer): Promise<Listed<Index>> {
  try {
    const operation = (nextToken: string | null) => indexesPageOperation({ nextToken, limit: pageLimit });
    return { items: await readAll(explorer, operation, readIndexes), error: null };
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
    const operation = (nextToken: string | null) => segmentsPageOperation({ nextToken, limit: pageLimit });
    return { items: await readAll(explorer, operation, readSegments), error: null };
  } catch (thrown) {
    return { items: [], error: unread(thrown) };
  }
}

/** Asks for one record of a list, to see that it may be read. @throws {ServiceError} where it may not */
export async function tryList({ client, signal, meter }: Explorer, source: ListSource): Promise<void> {
  const operation = source.page({ token: null, limit: 1, filter: new Map(), withTotal: false });
  await client.send(operation, readTotal, { signal, meter });
}

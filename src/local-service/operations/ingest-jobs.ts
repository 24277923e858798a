import { faultOf } from '../faults/fault.js';
import { jsonAnswer } from '../http/answer.js';
import { momentOf } from '../http/moment-parameter.js';
import { flag, single } from '../http/query.js';
import { badRequest, notFound } from '../http/service-error.js';
import type { ServiceState } from '../service-state.js';
import { listingId } from './listing.js';
import { managementApi, managementOf } from './management-api.js';
import type { Call, Operation } from './operation.js';

const dayMs = 86_400_000;
const longestWindowMs = 7 * dayMs;

interface Job {
  readonly createdAt: number;
  readonly shown: Record<string, unknown>;
}

/** The jobs that a deployment shows: all of them, unless a fault makes it forget or skip. */
function jobsOf(call: Call, state: ServiceState): Job[] {
  const now = state.clock.now();
  const forgets = faultOf(call.faults, 'ingest_forgets');
  const oldest = forgets === undefined ? Number.NEGATIVE_INFINITY : now - forgets.days * dayMs;
  const skipped = faultOf(call.faults, 'ingest_skipped');
  const jobs = managementOf(call, state).jobs(now);
  const kept = jobs.filter(({ createdAt }) => createdAt >= oldest);
  return skipped === undefined ? kept : kept.map((job) => withSkipped(job, skipped.state));
}

/** Some deployments refuse a window that begins before the days that they keep. @throws {ServiceError} 400 */
function refuseOldWindow({ faults }: Call, from: number, now: number): void {
  const forgets = faultOf(faults, 'ingest_forgets');
  if (forgets?.older !== 'refused' || from >= now - forgets.days * dayMs) return;
  throw badRequest(`created_from must be at most ${forgets.days} days ago`);
}

/** Skips the last table of a job; a skipped table never ends. */
function withSkipped({ createdAt, shown }: Job, skipped: string): Job {
  const tables = (shown.tables as Record<string, unknown>[]).map((table, index, all) => {
    if (index < all.length - 1) return table;
    const { ended_at, ...rest } = table;
    return { ...rest, state: skipped };
  });
  return { createdAt, shown: { ...shown, tables } };
}

/** The token that some deployments send with each answer; it is not for use. @throws {ServiceError} 400 if one is sent back */
function uselessToken(call: Call, state: ServiceState): { next_token?: string } {
  const tokens = faultOf(call.faults, 'ingest_tokens');
  if (tokens === undefined) return {};
  const sent = single(call.query, 'next_token') ?? single(call.query, 'limit');
  if (tokens.when_sent === 'refused' && sent !== undefined)
    throw badRequest('next_token and limit are not allowed here');
  const salt = tokens.when_sent === 'fresh' ? state.stats.pages : 0;
  return { next_token: state.pageTokens.issue(listingId('ingest/jobs'), { position: 0, salt }) };
}

/** GET /ingest/jobs (specification, section 4.11): one page with every job of a window of at most 7 days. */
export const listIngestJobs: Operation = {
  method: 'GET',
  path: '/api/ingest/jobs',
  guard: managementApi('ingest-jobs:read'),
  handle: (call, state) => {
    const from = momentOf(call.query, 'created_from');
    const to = momentOf(call.query, 'created_to');
    if (from === undefined || to === undefined) throw badRequest('created_from and created_to are required');
    if (from >= to) throw badRequest('created_from must be before created_to');
    if (to - from > longestWindowMs) throw badRequest('created_from and created_to may be at most 7 days apart');
    refuseOldWindow(call, from, state.clock.now());
    const token = uselessToken(call, state);
    const jobs = jobsOf(call, state).filter(({ createdAt }) => createdAt >= from && createdAt < to);
    state.stats.pages += 1;
    const total = flag(call.query, 'with_total') ? { total: jobs.length } : {};
    const data = jobs.slice(0, faultOf(call.faults, 'ingest_tokens')?.most).map(({ shown }) => shown);
    return jsonAnswer({ data, ...token, ...total });
  },
};

/** GET /ingest/jobs/{id} (specification, section 4.11). */
export const getIngestJob: Operation = {
  method: 'GET',
  path: '/api/ingest/jobs/{id}',
  guard: managementApi('ingest-jobs:read'),
  handle: (call, state) => {
    const found = jobsOf(call, state).find(({ shown }) => shown.id === call.parameters[0]);
    if (found === undefined) throw notFound('there is no ingest job of this id');
    return jsonAnswer(found.shown);
  },
};

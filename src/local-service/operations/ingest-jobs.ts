import { jsonAnswer } from '../http/answer.js';
import { momentOf } from '../http/moment-parameter.js';
import { flag } from '../http/query.js';
import { badRequest, notFound } from '../http/service-error.js';
import { managementApi, managementOf } from './management-api.js';
import type { Operation } from './operation.js';

const longestWindowMs = 7 * 86_400_000;

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
    const jobs = managementOf(call, state)
      .jobs(state.clock.now())
      .filter(({ createdAt }) => createdAt >= from && createdAt < to);
    state.stats.pages += 1;
    const total = flag(call.query, 'with_total') ? { total: jobs.length } : {};
    return jsonAnswer({ data: jobs.map(({ shown }) => shown), ...total });
  },
};

/** GET /ingest/jobs/{id} (specification, section 4.11). */
export const getIngestJob: Operation = {
  method: 'GET',
  path: '/api/ingest/jobs/{id}',
  guard: managementApi('ingest-jobs:read'),
  handle: (call, state) => {
    const jobs = managementOf(call, state).jobs(state.clock.now());
    const found = jobs.find(({ shown }) => shown.id === call.parameters[0]);
    if (found === undefined) throw notFound('there is no ingest job of this id');
    return jsonAnswer(found.shown);
  },
};

import { faultOf } from '../faults/fault.js';
import { jsonAnswer } from '../http/answer.js';
import { jsonObject } from '../http/json-body.js';
import { spanOf } from '../http/moment-parameter.js';
import { single } from '../http/query.js';
import { badRequest, ServiceError } from '../http/service-error.js';
import type { Actor } from '../management/tenant-management.js';
import { shownRun } from '../management/workflow-run.js';
import type { ServiceState } from '../service-state.js';
import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import { managementApi, managementOf } from './management-api.js';
import type { Call, Operation } from './operation.js';

const maxBodyBytes = 64 * 1024;
const runModes = ['source', 'refresh', 'full'];

/** GET /workflow/runs (specification, section 4.11). */
export const listWorkflowRuns: Operation = {
  method: 'GET',
  path: '/api/workflow/runs',
  guard: managementApi('workflow-runs:read'),
  handle: (call, state) => {
    const { query } = call;
    const created = spanOf(query, 'created_from', 'created_to');
    const ended = spanOf(query, 'ended_from', 'ended_to');
    const [wantedState, type] = [single(query, 'state'), single(query, 'type')];
    const onlyEnded = Number.isFinite(ended.from) || Number.isFinite(ended.to);
    const now = state.clock.now();
    const runs = managementOf(call, state)
      .runs()
      .filter(({ at }) => at >= created.from && at < created.to)
      .map((run) => shownRun(run, now))
      .filter((run) => {
        const at = run.ended_at === undefined ? Number.NaN : Date.parse(String(run.ended_at));
        const inTime = !onlyEnded || (at >= ended.from && at < ended.to);
        return (
          inTime &&
          (wantedState === undefined || run.state === wantedState) &&
          (type === undefined || run.type === type)
        );
      });
    const bounds = [created.from, created.to, ended.from, ended.to, wantedState, type];
    return answerPage(call, listingOf(`workflow-runs ${bounds.join(' ')}`, runs), state);
  },
};

/** GET /workflow/runs/{id} (specification, section 4.11). */
export const getWorkflowRun: Operation = {
  method: 'GET',
  path: '/api/workflow/runs/{id}',
  guard: managementApi('workflow-runs:read'),
  handle: (call, state) => {
    const view = single(call.query, 'view') ?? 'overview';
    if (view !== 'overview' && view !== 'verbose') throw badRequest('view must be overview or verbose');
    const refuses = faultOf(call.faults, 'workflow_overview');
    if (refuses !== undefined && view === 'verbose') throw new ServiceError(refuses.status, 'there is no such view');
    return jsonAnswer(shownRun(managementOf(call, state).run(call.parameters[0] as string), state.clock.now(), view));
  },
};

/** The actor of a request is its API key, a synthetic identity (specification, section 2.7). */
function actorOf({ request, key }: Call): Actor {
  return {
    id: `key-${key?.stored.id ?? 'unknown'}`,
    name: key?.stored.name ?? 'unknown',
    originIp: request.socket.remoteAddress?.replace(/^::ffff:/, '') ?? '',
    userAgent: request.headers['user-agent'] ?? '',
  };
}

function optionalText(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw badRequest(`${name} must be a string`);
  return value;
}

async function start(call: Call, state: ServiceState) {
  const router = faultOf(call.faults, 'workflow_router');
  const isOther = router !== undefined && call.request.url?.split('?')[0]?.endsWith('/') !== (router.path === 'slash');
  if (router !== undefined && isOther) throw new ServiceError(router.status, 'there is no such path');
  const body = await jsonObject(call.request, maxBodyBytes);
  const configId = optionalText(body, 'config_id');
  if (!configId) throw badRequest('config_id is required');
  const runMode = optionalText(body, 'run_mode') ?? 'full';
  if (!runModes.includes(runMode)) throw badRequest(`run_mode must be one of ${runModes.join(', ')}`);
  const [rangeFrom, rangeTo] = [optionalText(body, 'range_from'), optionalText(body, 'range_to')];
  if (!rangeFrom !== !rangeTo) throw badRequest('range_from and range_to come only together');
  const request = { configId, runMode, ...(rangeFrom && { rangeFrom }), ...(rangeTo && { rangeTo }) };
  return jsonAnswer(managementOf(call, state).start(request, actorOf(call), state.clock.now()), 201);
}

function starting(path: string): Operation {
  return { method: 'POST', path, guard: managementApi('workflow-runs:write'), lasting: true, handle: start };
}

/** POST /workflow/runs/ (specification, section 4.11), with and without the trailing slash. */
export const startWorkflow: readonly Operation[] = [starting('/api/workflow/runs'), starting('/api/workflow/runs/')];

/** POST /workflow/runs/{id}/stop (specification, section 4.11). */
export const stopWorkflow: Operation = {
  method: 'POST',
  path: '/api/workflow/runs/{id}/stop',
  guard: managementApi('workflow-runs:write'),
  lasting: true,
  handle: (call, state) =>
    jsonAnswer(managementOf(call, state).stop(call.parameters[0] as string, actorOf(call), state.clock.now())),
};

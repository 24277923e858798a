import { faultOf } from '../faults/fault.js';
import { readMoment, single, spanOf } from '../http/query.js';
import { jsonObject } from '../http/request-body.js';
import { badRequest, jsonResponse, ServiceError } from '../http/response.js';
import type { Actor } from '../management/tenant-management.js';
import { type RunState, runStates, shownRun } from '../management/workflow-run.js';
import type { ServiceState } from '../service-state.js';
import { listingOf } from './listing.js';
import { type Call, managementApi, type Operation } from './operation.js';
import { pageResponse } from './page-response.js';

/** States that the user interface names differently from the API. */
const screenWords: Readonly<Record<string, RunState>> = {
  running: 'in progress',
  cancelled: 'canceled',
  success: 'succeeded',
  'running with failures': 'in progress',
};

/**
 * The state that a filter asks for, in any case of letters (published notes, Management API); undefined if no run is ever
 * in it.
 */
function stateNamed(word: string): RunState | undefined {
  const plain = word.trim().toLowerCase().replace(/[_-]/g, ' ');
  return screenWords[plain] ?? runStates.find((state) => state === plain);
}

const maxBodyBytes = 64 * 1024;
const startFields = ['config_id', 'range_from', 'range_to', 'run_mode'];
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
    const nowMs = state.clock.now();
    const view = faultOf(call.faults, 'workflow_details') === undefined ? 'overview' : 'detailed';
    const runs = state.management
      .of(call.tenant)
      .runs()
      .filter(({ at }) => at >= created.from && at < created.to)
      .map((run) => shownRun(run, nowMs, view))
      .filter((run) => {
        const at = run.ended_at === undefined ? Number.NaN : Date.parse(String(run.ended_at));
        const inTime = !onlyEnded || (at >= ended.from && at < ended.to);
        return (
          inTime &&
          (wantedState === undefined || run.state === stateNamed(wantedState)) &&
          (type === undefined || run.type === type)
        );
      });
    const bounds = [created.from, created.to, ended.from, ended.to, wantedState, type];
    return pageResponse(call, listingOf(`workflow-runs ${bounds.join(' ')}`, runs), state);
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
    const idField = faultOf(call.faults, 'workflow_task_ids') === undefined ? 'id' : 'task_instance_id';
    const run = state.management.of(call.tenant).run(call.parameters[0] as string);
    return jsonResponse(shownRun(run, state.clock.now(), view, idField));
  },
};

/** The actor of a request is its API key, a synthetic identity (specification, section 2.7). */
function actorOf({ request, key }: Call): Actor {
  return {
    id: `key-${key?.stored.id ?? 'unknown'}`,
    name: key?.stored.name ?? 'unknown',
    originIp: request.socket.remoteAddress?.replace(/^::ffff:/, '') ?? '',
    userAgent: request.headers['user-agent'] ?? '',
    isKey: true,
  };
}

function optionalText(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw badRequest(`${name} must be a string`);
  return value;
}

const zone = /(Z|[+-]\d{2}:?\d{2})$/;

/** @throws {ServiceError} 400 for a null, and for a time without a zone */
function assertStrict(body: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(body)) {
    if (value === null) throw badRequest(`${name} must not be null: leave it out`);
    if (name.startsWith('range_') && typeof value === 'string' && /[T ]/.test(value) && !zone.test(value))
      throw badRequest(`${name} has no zone`);
  }
}

async function start(call: Call, state: ServiceState) {
  const router = faultOf(call.faults, 'workflow_router');
  const isOther = router !== undefined && call.request.url?.split('?')[0]?.endsWith('/') !== (router.path === 'slash');
  if (router !== undefined && isOther) throw new ServiceError(router.status, 'there is no such path');
  const body = await jsonObject(call.request, maxBodyBytes, call.faults);
  if (faultOf(call.faults, 'workflow_strict') !== undefined) assertStrict(body);
  const unknown = Object.keys(body).find((name) => !startFields.includes(name));
  if (unknown !== undefined) throw badRequest(`${JSON.stringify(unknown)} is not a field of a start`);
  const configId = optionalText(body, 'config_id');
  if (!configId) throw badRequest('config_id is required');
  const runMode = optionalText(body, 'run_mode');
  if (runMode !== undefined && !runModes.includes(runMode))
    throw badRequest(`run_mode must be one of ${runModes.join(', ')}`);
  const [rangeFrom, rangeTo] = [optionalText(body, 'range_from'), optionalText(body, 'range_to')];
  if (rangeTo !== undefined && rangeFrom === undefined) throw badRequest('range_to needs range_from');
  const from = rangeFrom === undefined ? undefined : readMoment('range_from', rangeFrom);
  const to = rangeTo === undefined ? undefined : readMoment('range_to', rangeTo);
  if (from !== undefined && to !== undefined && from >= to) throw badRequest('range_from must be before range_to');
  const request = {
    configId,
    ...(runMode === undefined ? {} : { runMode }),
    ...(rangeFrom === undefined ? {} : { rangeFrom }),
    ...(rangeTo === undefined ? {} : { rangeTo }),
  };
  return jsonResponse(state.management.of(call.tenant).start(request, actorOf(call), state.clock.now()), 201);
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
  handle: (call, state) => {
    const stops = faultOf(call.faults, 'workflow_stops');
    const rules = { cancels: stops?.state === 'canceled', again: stops?.again === 'allowed' };
    const management = state.management.of(call.tenant);
    return jsonResponse(management.stop(call.parameters[0] as string, rules, actorOf(call), state.clock.now()));
  },
};

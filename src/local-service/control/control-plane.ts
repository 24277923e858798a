import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { usualDay } from '../data/population.js';
import { faultSchema } from '../faults/fault.js';
import { requestBody } from '../http/request-body.js';
import {
  badRequest,
  jsonResponse,
  noContent,
  notFound,
  ServiceError,
  type ServiceResponse,
  send,
} from '../http/response.js';
import type { ApiKey } from '../keys/api-key.js';
import { defaultKey, defaultTenant, defaultTokenDays } from '../keys/key-store.js';
import type { ServiceState } from '../service-state.js';
import type { ControlAccess } from './control-access.js';

/** The service, as a control sees it. */
export interface ControlContext {
  readonly state: ServiceState;
  readonly access: ControlAccess;
  /** Writes the state file; false if the service has none. */
  save(): Promise<boolean>;
}

/** One way to control the local service from outside. */
interface Control {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The path after `/_control/`. */
  readonly path: string;
  /** Changes state that a restart must keep. */
  readonly lasting?: true;
  /** Returns the value to send as JSON; undefined sends 204. */
  handle(body: unknown, context: ControlContext): unknown;
}

/** @throws {ServiceError} 400 that names every mistake in the body */
function checked<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw badRequest(z.prettifyError(result.error));
}

const reference = { key: z.string().default(defaultKey), tenant: z.string().optional() };

const keysBody = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('create'),
    name: z.string().min(1),
    tenant: z.string().default(defaultTenant),
    permissions: z.array(z.string()).optional(),
  }),
  z.strictObject({
    action: z.literal('issue'),
    ...reference,
    /** Days of validity; null issues a token that never expires. */
    days: z.int().min(1).max(36_500).nullable().default(defaultTokenDays),
    rotate: z.boolean().default(false),
  }),
  z.strictObject({ action: z.literal('drop'), ...reference }),
  z.strictObject({ action: z.literal('revoke'), ...reference, which: z.enum(['old', 'all']) }),
  z.strictObject({ action: z.literal('permit'), ...reference, permissions: z.array(z.string()) }),
]);

function shownKey({ stored }: ApiKey) {
  const { id, name, tenant, permissions, clientId, rotations, deposed } = stored;
  const deposedAt = deposed === null ? null : new Date(deposed.at).toISOString();
  return { id, name, tenant, permissions, client_id: clientId, rotations, deposed_at: deposedAt };
}

/** Adds the audit event that the user interface, where keys are managed, would add (specification, section 5). */
function recordKeyEvent(state: ServiceState, key: ApiKey, what: string): void {
  const { id, name, tenant } = key.stored;
  const actor = { id: 'usr-ada', name: 'Ada Operator', originIp: '127.0.0.1', userAgent: 'control' };
  state.management.of(tenant).record(`:service.api-key/${what}`, { id, name }, actor, state.clock.now());
}

async function manage(body: unknown, state: ServiceState) {
  const request = checked(keysBody, body);
  if (request.action === 'create') {
    const key = state.keys.create(request);
    recordKeyEvent(state, key, 'created');
    return { ...shownKey(key), client_secret: key.stored.clientSecret };
  }
  const key = state.keys.find(request);
  if (request.action === 'issue') {
    recordKeyEvent(state, key, request.rotate ? 'secret-rotated' : 'token-issued');
    const { token, expiresAt } = await state.tokens.issue(key, request);
    const expires = expiresAt === null ? null : new Date(expiresAt * 1000).toISOString();
    return { ...shownKey(key), token, expires_at: expires };
  }
  if (request.action !== 'permit')
    recordKeyEvent(state, key, request.action === 'revoke' ? 'tokens-revoked' : 'tokens-dropped');
  if (request.action === 'permit') state.keys.permit(key, request.permissions);
  else if (request.action === 'revoke' && request.which === 'all') key.revokeAll();
  else key.dropDeposed();
  return shownKey(key);
}

/** Creates keys and controls the life of their tokens (specification, section 3). */
const manageKeys: Control = {
  method: 'POST',
  path: 'keys',
  lasting: true,
  handle: (body, { state }) => manage(body, state),
};

const showKeys: Control = {
  method: 'GET',
  path: 'keys',
  handle: (_, { state }) => ({ keys: state.keys.keys.map(shownKey) }),
};

const tenantName = z.string().default(defaultTenant);
const realtimeBody = z.union([
  z.strictObject({ tenant: tenantName, enabled: z.boolean() }),
  z.strictObject({ tenant: tenantName, segment: z.string(), exists: z.boolean() }),
]);

/** Enables or disables a tenant's real-time features, or shows or hides one segment (specification, section 1). */
const setRealtime: Control = {
  method: 'POST',
  path: 'realtime',
  lasting: true,
  handle: (body, { state }) => {
    const request = checked(realtimeBody, body);
    const realtime = state.realtime.of(request.tenant);
    if ('enabled' in request) realtime.enabled = request.enabled;
    else if (!realtime.setSegment(request.segment, request.exists)) {
      throw notFound(`there never was a real-time segment ${request.segment}`);
    }
    return { enabled: realtime.enabled, segments: realtime.segments.map(({ id }) => id) };
  },
};

const profilesBody = z.strictObject({
  index: z.string().min(1),
  tenant: z.string().default(defaultTenant),
  filterable: z.array(z.string()).default([]),
  /** A string is JSON text and served unchanged; any other value is served as its JSON. */
  records: z.array(z.unknown()),
});

/** Gives the tenant an index with these records; it replaces an index of the same name. */
const setProfiles: Control = {
  method: 'POST',
  path: 'profiles',
  handle: (body, { state }) => {
    const { index, tenant, filterable, records } = checked(profilesBody, body);
    const texts = records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record)));
    return state.data(tenant).record(index, filterable, texts, state.clock.now());
  },
};

const whichIndex = z.strictObject({ index: z.string(), tenant: z.string().default(defaultTenant) });

/** Removes an index that was set with records; a generated index of the same name shows again. */
const forgetProfiles: Control = {
  method: 'DELETE',
  path: 'profiles',
  handle: (body, { state }) => {
    const { index, tenant } = checked(whichIndex, body);
    if (!state.data(tenant).forget(index)) throw notFound(`no records were set for an index ${index}`);
  },
};

const limit = z.int().min(0).max(1_000_000).optional();
const group = z.enum(['profile', 'management', 'realtime']);
const limitsBody = z.strictObject({
  profile: limit,
  management: limit,
  realtime: limit,
  /** Groups in which each sandbox has a budget. */
  sandboxes_apart: z.array(group).default([]),
});

/** Sets how many requests a second pass; budgets begin again. */
const setLimits: Control = {
  method: 'POST',
  path: 'limits',
  handle: (body, { state }) => {
    const { sandboxes_apart: apart, ...limits } = checked(limitsBody, body);
    const set = Object.entries(limits).filter(([, requests]) => requests !== undefined);
    return { ...state.limits.set(Object.fromEntries(set), apart), sandboxes_apart: apart };
  },
};

const share = z.number().min(0).max(1);
const changeBody = z.strictObject({
  days: z.int().min(1).max(3660).default(1),
  updated: share.default(usualDay.updated),
  inserted: share.default(usualDay.inserted),
  deleted: share.default(usualDay.deleted),
  /** The tenant whose changes are reported; the days pass for every tenant. */
  tenant: z.string().default(defaultTenant),
});

/** Lets days pass for the data, not for the clock. */
const changeData: Control = {
  method: 'POST',
  path: 'change',
  lasting: true,
  handle: (body, { state }) => {
    const { days, tenant, ...shares } = checked(changeBody, body);
    const changed = state.change(
      Array.from({ length: days }, () => shares),
      tenant,
    );
    return { days: state.days.length, ...changed };
  },
};

const auditBody = z.strictObject({
  tenant: z.string().default(defaultTenant),
  events: z.array(
    z.strictObject({
      happened_at: z.iso.datetime({ offset: true }),
      event_type: z.string().default(':service.test/happened'),
      object_id: z.string().default('obj-test'),
    }),
  ),
});

/** Adds audit events with these times, so that a test can let events arrive late. */
const addAuditEvents: Control = {
  method: 'POST',
  path: 'audit',
  lasting: true,
  handle: (body, { state }) => {
    const { tenant, events } = checked(auditBody, body);
    const management = state.management.of(tenant);
    const actor = { id: 'usr-control', name: 'Control', originIp: '127.0.0.1', userAgent: 'control' };
    for (const { happened_at, event_type, object_id } of events) {
      management.record(event_type, { id: object_id }, actor, Date.parse(happened_at));
    }
    return { added: events.length };
  },
};

/** Sets a fault. */
const setFault: Control = {
  method: 'POST',
  path: 'faults',
  handle: (body, { state }) => {
    const fault = checked(faultSchema, body);
    if (fault.kind === 'dead_token' && fault.issued_before_now) state.pageTokens.expireAll();
    return state.faults.set(fault);
  },
};

const showFaults: Control = {
  method: 'GET',
  path: 'faults',
  handle: (_, { state }) => ({ faults: state.faults.reports }),
};

const whichFault = z.strictObject({ id: z.int().optional() });

/** Clears the fault with an id, or every fault. */
const clearFaults: Control = {
  method: 'DELETE',
  path: 'faults',
  handle: (body, { state }) => state.faults.clear(checked(whichFault, body).id),
};

/** Writes the state file now; the service also writes it after every lasting change. */
const saveState: Control = {
  method: 'POST',
  path: 'state/save',
  handle: async (_, context) => {
    if (!(await context.save())) throw new ServiceError(409, 'the service was started without a state file');
  },
};

const showStats: Control = {
  method: 'GET',
  path: 'stats',
  handle: (_, { state }) => ({ ...state.stats.report(), peak_per_second: state.limits.peaks() }),
};

/** Sets all counts to zero. */
const resetStats: Control = {
  method: 'POST',
  path: 'stats/reset',
  handle: (_, { state }) => {
    state.stats.reset();
    state.limits.resetPeaks();
  },
};

const timeBody = z.strictObject({ advance_ms: z.int() });

const shownTime = (now: number) => ({ now: new Date(now).toISOString() });

/** Moves the service's time of day forward, or back by a negative amount. */
const moveTime: Control = {
  method: 'POST',
  path: 'time',
  lasting: true,
  handle: (body, { state }) => {
    const { advance_ms } = checked(timeBody, body);
    const year = new Date(state.clock.now() + advance_ms).getUTCFullYear();
    if (!(year >= 1970 && year <= 9999)) throw badRequest('the time must stay between 1970 and 9999');
    state.clock.advance(advance_ms);
    return shownTime(state.clock.now());
  },
};

const showTime: Control = { method: 'GET', path: 'time', handle: (_, { state }) => shownTime(state.clock.now()) };

const controls: readonly Control[] = [
  moveTime,
  showTime,
  changeData,
  setFault,
  showFaults,
  clearFaults,
  manageKeys,
  showKeys,
  showStats,
  resetStats,
  setProfiles,
  forgetProfiles,
  setRealtime,
  setLimits,
  addAuditEvents,
  saveState,
];

const maxBodyBytes = 512 * 1024 * 1024;
const prefix = '/_control/';

/** Whether a request controls the local service, instead of using the published interface. */
export function isControl(url: string | undefined): boolean {
  return url?.startsWith(prefix) === true;
}

function findControl(method: string | undefined, path: string): Control {
  const found = controls.filter((control) => control.path === path);
  if (found.length === 0) throw notFound(`there is no control ${path}`);
  const control = found.find((one) => one.method === method);
  if (control !== undefined) return control;
  throw new ServiceError(405, `${method} is not allowed here`, { allow: found.map((one) => one.method).join(', ') });
}

async function parsedBody(request: IncomingMessage): Promise<unknown> {
  const text = await requestBody(request, maxBodyBytes);
  try {
    return text === '' ? {} : JSON.parse(text);
  } catch {
    throw badRequest('the body is not JSON');
  }
}

async function responseOf(request: IncomingMessage, context: ControlContext): Promise<ServiceResponse> {
  context.access.check(request);
  const path = (request.url ?? '').slice(prefix.length).replace(/\?.*$/s, '');
  const control = findControl(request.method, path);
  const result = await control.handle(await parsedBody(request), context);
  if (control.lasting) await context.save();
  return result === undefined ? noContent : jsonResponse(result);
}

/** Handles a request to `/_control/`. */
export async function handleControl(request: IncomingMessage, serverResponse: ServerResponse, context: ControlContext) {
  const { clock, errors } = context.state;
  const response = await responseOf(request, context).catch((error) => errors.response(error));
  send(serverResponse, response, clock.dateHeader());
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { faultSchema } from '../faults/fault.js';
import { type Answer, doneAnswer, jsonAnswer } from '../http/answer.js';
import { requestBody } from '../http/request-body.js';
import { send } from '../http/send.js';
import { badRequest, notFound, ServiceError } from '../http/service-error.js';
import { addAuditEvents } from './audit.js';
import { changeData } from './change.js';
import { type Control, type ControlContext, checked } from './control.js';
import { manageKeys, showKeys } from './keys.js';
import { setLimits } from './limits.js';
import { forgetProfiles, setProfiles } from './profiles.js';
import { setRealtime } from './realtime.js';

/** Sets a fault. */
const setFault: Control = {
  method: 'POST',
  path: 'faults',
  handle: (given, { state }) => {
    const fault = checked(faultSchema, given);
    if (fault.kind === 'dead_token' && fault.issued_before_now) state.pageTokens.expireAll();
    return state.faults.set(fault);
  },
};

const showFaults: Control = {
  method: 'GET',
  path: 'faults',
  handle: (_, { state }) => ({ faults: state.faults.reports }),
};

const which = z.strictObject({ id: z.int().optional() });

/** Clears the fault with an id, or every fault. */
export const clearFaults: Control = {
  method: 'DELETE',
  path: 'faults',
  handle: (given, { state }) => state.faults.clear(checked(which, given).id),
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

const body = z.strictObject({ advance_ms: z.int() });

const shown = (now: number) => ({ now: new Date(now).toISOString() });

/** Moves the service's time of day forward, or back by a negative amount. */
const moveTime: Control = {
  method: 'POST',
  path: 'time',
  lasting: true,
  handle: (given, { state }) => {
    state.clock.advance(checked(body, given).advance_ms);
    return shown(state.clock.now());
  },
};

const showTime: Control = { method: 'GET', path: 'time', handle: (_, { state }) => shown(state.clock.now()) };

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

/** Whether a request steers the local service, instead of using the published interface. */
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

async function answer(request: IncomingMessage, context: ControlContext): Promise<Answer> {
  context.access.check(request);
  const path = (request.url ?? '').slice(prefix.length).replace(/\?.*$/s, '');
  const control = findControl(request.method, path);
  const result = await control.handle(await parsedBody(request), context);
  if (control.lasting) await context.save();
  return result === undefined ? doneAnswer : jsonAnswer(result);
}

/** Answers a request to `/_control/`. */
export async function handleControl(request: IncomingMessage, response: ServerResponse, context: ControlContext) {
  const { clock, errors } = context.state;
  const ready = await answer(request, context).catch((error) => errors.answer(error));
  send(response, ready, clock.dateHeader());
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Answer, doneAnswer, jsonAnswer } from '../http/answer.js';
import { requestBody } from '../http/request-body.js';
import { send } from '../http/send.js';
import { badRequest, notFound, ServiceError } from '../http/service-error.js';
import { addAuditEvents } from './audit.js';
import { changeData } from './change.js';
import type { Control, ControlContext } from './control.js';
import { clearFaults, setFault, showFaults } from './faults.js';
import { manageKeys, showKeys } from './keys.js';
import { forgetProfiles, setProfiles } from './profiles.js';
import { setRealtime } from './realtime.js';
import { saveState } from './state.js';
import { resetStats, showStats } from './stats.js';
import { moveTime, showTime } from './time.js';

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

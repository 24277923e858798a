import type { IncomingMessage, ServerResponse } from 'node:http';
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
import { behaviourControls } from './behaviour-controls.js';
import type { Control, ControlContext } from './control.js';
import { dataControls } from './data-controls.js';
import { keyControls } from './key-controls.js';

const controls: readonly Control[] = [...keyControls, ...dataControls, ...behaviourControls];

/** Records of an index of one's own may be many; all other bodies are small. */
const maxBodyBytes = 1024 * 1024;
const maxRecordsBytes = 256 * 1024 * 1024;
const prefix = '/_control/';

/** Whether a request controls the local service, instead of using the published interface. */
export function isControl(url: string | undefined): boolean {
  return url?.startsWith(prefix) === true;
}

function findControl(method: string | undefined, path: string): Control {
  const matching = controls.filter((control) => control.path === path);
  if (matching.length === 0) throw notFound(`there is no control ${path}`);
  const control = matching.find((one) => one.method === method);
  if (control !== undefined) return control;
  throw new ServiceError(405, `${method} is not allowed here`, { allow: matching.map((one) => one.method).join(', ') });
}

async function parsedBody(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const text = await requestBody(request, maxBytes);
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
  const result = await control.handle(
    await parsedBody(request, path === 'profiles' ? maxRecordsBytes : maxBodyBytes),
    context,
  );
  if (control.lasting) await context.save();
  return result === undefined ? noContent : jsonResponse(result);
}

/** Handles a request to `/_control/`. */
export async function handleControl(request: IncomingMessage, serverResponse: ServerResponse, context: ControlContext) {
  const { clock, errors } = context.state;
  const response = await responseOf(request, context).catch((error) => errors.of(error));
  send(serverResponse, response, clock.dateHeader());
}

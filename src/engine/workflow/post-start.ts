import { type SendOptions, type ServiceClient, ServiceError } from '../../client/client.js';
import {
  readWorkflowRun,
  type StartWorkflowRequest,
  startWorkflowOperation,
  type WorkflowRun,
} from '../../client/management-api.js';

/** The clients whose service knows the path without its trailing slash. */
const plain = new WeakSet<ServiceClient>();

/** Whether a router may have refused the path. Such an answer starts nothing (published facts). */
function mayBeOtherPath(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.status === 404 || error.status === 405);
}

/**
 * Asks for the start of a workflow, once. The specification writes the path with a trailing slash, other published examples
 * write it without one, and a strict router answers the wrong one with 404 or 405: then the other one is tried, and the
 * client remembers which was right.
 * @throws {CdsyncError} what the client throws
 */
export async function postStart(
  client: ServiceClient,
  request: StartWorkflowRequest,
  options: SendOptions,
): Promise<WorkflowRun> {
  const post = (spelling: 'slash' | 'plain') =>
    client.send(startWorkflowOperation(request, spelling), readWorkflowRun, options);
  if (plain.has(client)) return post('plain');
  try {
    return await post('slash');
  } catch (first) {
    if (!mayBeOtherPath(first)) throw first;
    try {
      const run = await post('plain');
      plain.add(client);
      return run;
    } catch (second) {
      if (!mayBeOtherPath(second)) plain.add(client);
      // A 405 is the router's; the 404 of the right path says what is missing.
      throw mayBeOtherPath(second) && (second.status === 405 || first.status === 404) ? first : second;
    }
  }
}

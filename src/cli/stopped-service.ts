import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { commandText } from './own-command.js';

/** Codes of errors that a service which does not run leads to. */
const codes = new Set(['unreachable', 'service_unavailable', 'connection_lost', 'timeout']);

/** The file beside the jobs in which the service of a quickstart keeps its state. */
export const stateFileName = 'local-service.json';

/**
 * The command that starts the local service of a quickstart again, with its state and its number of profiles; undefined if the
 * error is another one, or the storage folder has no such service.
 */
export async function stoppedService(storage: string, errorCode = ''): Promise<string | undefined> {
  if (!codes.has(errorCode)) return undefined;
  const path = join(storage, stateFileName);
  const state: unknown = await readFile(path, 'utf8')
    .then(JSON.parse)
    .catch(() => undefined);
  if (typeof state !== 'object' || state === null || !('profiles' in state)) return undefined;
  return commandText(['serve', '--state', relative('.', path), '--profiles', String(state.profiles)]);
}

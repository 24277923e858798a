import { refuseHttp } from './encryption.js';
import type { TrinoLogin, TrinoSession } from './trino-session.js';

export { type TrinoFailure, trinoFailureName } from './trino-error.js';
export type { TrinoLogin, TrinoResult, TrinoSession } from './trino-session.js';

/**
 * Opens a session of Trino. It connects with the first statement.
 * @param allowHttp whether a password or token may go to another machine without encryption
 * @throws {CdsyncError} `destination_plaintext`
 */
export async function openTrino(login: TrinoLogin, allowHttp: boolean): Promise<TrinoSession> {
  const hasSecret = login.password !== undefined || login.token !== undefined;
  refuseHttp(new URL(login.url), hasSecret && 'the login and all rows', allowHttp);
  // Loaded here, so that a run without Trino loads no HTTP client for it.
  const { TrinoSession: Session } = await import('./trino-session.js');
  return new Session(login);
}

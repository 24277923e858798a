import { CdsyncError } from '../core/errors.js';

/** Where the local service listens. */
interface ControlAddress {
  readonly host: string;
  readonly port: number;
  /** As the service printed it. */
  readonly controlToken: string | undefined;
}

/** A key, as the service shows it. */
export interface KeyInfo {
  readonly name: string;
  readonly tenant: string;
  readonly permissions: readonly string[];
  readonly client_id: string;
  readonly client_secret?: string;
  readonly token?: string;
  /** When the token expires; null if it never does. */
  readonly expires_at?: string | null;
  readonly deposed_at: string | null;
}

/**
 * Asks a running local service to act on its keys.
 * @throws {CdsyncError} `unreachable`, `control_refused`
 */
export async function askForKeys({ host, port, controlToken }: ControlAddress, request: object): Promise<KeyInfo> {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/_control/keys`;
  let response: Response;
  try {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${controlToken ?? ''}` };
    response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(request) });
  } catch (cause) {
    throw new CdsyncError(`no local service responds on ${host}:${port}`, {
      code: 'unreachable',
      hint: 'start it first: cdsync serve; name its --host and --port if they are not the defaults',
      cause,
    });
  }
  const body = (await response.json().catch(() => ({}))) as KeyInfo & { message?: string };
  if (response.ok) return body;
  throw new CdsyncError(`the local service refused the request: ${body.message ?? `status ${response.status}`}`, {
    code: 'control_refused',
    hint:
      response.status === 401
        ? 'set CDS_CONTROL_TOKEN to the token that cdsync serve printed, or name it with --control-token'
        : 'see: cdsync serve keys --help',
  });
}

import { setMaxListeners } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CdsyncError } from '../core/errors.js';
import type { ControlContext } from './control/control.js';
import { ControlAccess, newControlToken } from './control/control-access.js';
import { handleControl, isControl } from './control/control-plane.js';
import { EventJournal } from './event-journal.js';
import { Dispatcher } from './http/dispatcher.js';
import { notFound, send } from './http/response.js';
import { createHttpServer } from './http/server.js';
import type { ApiKey } from './keys/api-key.js';
import { defaultKey, defaultTenant, defaultTokenDays } from './keys/key-store.js';
import type { LocalServiceOptions } from './local-service-options.js';
import { oauthToken } from './operations/table.js';
import { ServiceState } from './service-state.js';
import { readState, type StateSaver, savesNothing, stateSaver } from './state-file.js';

export type { LocalServiceOptions } from './local-service-options.js';

/** A running service, with a key for it. */
export interface LocalService {
  /** Without a trailing slash. */
  readonly url: string;
  readonly tenantId: string;
  /** An access token with every permission. */
  readonly token: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The token endpoint. */
  readonly oauthTokenUrl: string;
  /** The bearer token of requests to `/_control/`. */
  readonly controlToken: string;
  /** Stops at once, even if clients are connected. */
  close(): Promise<void>;
}

function firstKey({ keys }: ServiceState): ApiKey {
  const existing = keys.keys;
  return (
    existing.find(({ stored }) => stored.tenant === defaultTenant && stored.name === defaultKey) ??
    existing[0] ??
    keys.create({ name: defaultKey, tenant: defaultTenant })
  );
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: 1024 }, () => {
      server.off('error', reject);
      resolve();
    });
  }).catch((error: NodeJS.ErrnoException) => {
    throw new CdsyncError(`cannot listen on ${host}:${port}: ${error.message}`, {
      code: error.code === 'EADDRINUSE' ? 'port_in_use' : 'cannot_listen',
      hint: 'choose another port with --port, or 0 for any free one',
      cause: error,
    });
  });
  return (server.address() as AddressInfo).port;
}

/** Replays the events that arrived after the state file was last written, then keeps the state in that file. */
async function keepState(state: ServiceState, path: string | undefined): Promise<StateSaver> {
  if (path === undefined) return savesNothing;
  const journal = new EventJournal(path);
  state.realtime.replay(await journal.read());
  state.realtime.recordTo(journal);
  return stateSaver(path, () => state.saved(), journal);
}

/** @param serves whether a server has this path of the published interface */
function createListener(
  context: ControlContext,
  dispatcher: Dispatcher,
  serves: (path: string) => boolean,
): RequestListener {
  return (request, serverResponse) => {
    if (isControl(request.url)) void handleControl(request, serverResponse, context);
    else if (serves((request.url ?? '').replace(/\?.*$/s, ''))) dispatcher.handle(request, serverResponse);
    else {
      const { clock, errors } = context.state;
      send(serverResponse, errors.of(notFound('there is no such path')), clock.dateHeader());
    }
  };
}

function urlOf({ tls, host = '127.0.0.1' }: LocalServiceOptions, port: number): string {
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Closes a server, whether it listens or not. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/**
 * Starts a Customer Data Service on this machine, with a tenant, a key and OAuth credentials.
 * @throws {CdsyncError} `port_in_use`, `cannot_listen`, `service_state_unreadable`, `seed_mismatch`, `storage_failed`
 */
export async function startLocalService(options: LocalServiceOptions = {}): Promise<LocalService> {
  const { stateFile, host = '127.0.0.1', port = 0 } = options;
  const saved = stateFile === undefined ? undefined : await readState(stateFile, options.seed ?? 1);
  const state = new ServiceState(options, saved);
  const key = firstKey(state);
  const { tenant, clientId, clientSecret } = key.stored;
  const { token } = await state.tokens.issue(key, { days: defaultTokenDays, rotate: false });
  // Renders the records now, so that the first response need not wait for it.
  state.data(tenant);
  const closing = new AbortController();
  // Every delayed response adds a listener, and Node warns about more than ten.
  setMaxListeners(0, closing.signal);
  const { latencyMs = 0 } = options;
  const saver = await keepState(state, stateFile);
  const dispatcher = new Dispatcher(state, { latencyMs, signal: closing.signal, saver });
  const { controlToken = newControlToken() } = options;
  const control = { state, access: new ControlAccess(controlToken, host), save: saver.save };
  const { oauthPort } = options;
  const isApart = oauthPort !== undefined;
  const serve = (serves: (path: string) => boolean) =>
    createHttpServer(options.tls, state, createListener(control, dispatcher, serves));
  const server = serve((path) => !isApart || path !== oauthToken.path);
  const tokenServer = serve((path) => path === oauthToken.path);
  const url = urlOf(options, await listen(server, host, port));
  const tokenUrl = isApart ? urlOf(options, await listen(tokenServer, host, oauthPort)) : url;
  // Only after it listens: a second service with the same port and state file fails before it writes the file.
  await saver.save().catch((error) => {
    server.close();
    tokenServer.close();
    throw error;
  });
  return {
    url,
    oauthTokenUrl: tokenUrl + oauthToken.path,
    tenantId: tenant,
    token,
    clientId,
    clientSecret,
    controlToken,
    close: async () => {
      closing.abort();
      await Promise.all([server, tokenServer].map(closed));
    },
  };
}

/** The lines that show a user how to use a service that has just started. */
export function welcome(service: LocalService, profiles: number, tenantHeader: string): string[] {
  return [
    `A Customer Data Service with ${profiles.toLocaleString('en-US')} profiles listens on ${service.url}`,
    '',
    'To use it:',
    `  export CDS_BASE_URL=${service.url}`,
    `  export CDS_TENANT_ID=${service.tenantId}`,
    `  export CDS_CLIENT_ID=${service.clientId}`,
    `  export CDS_CLIENT_SECRET=${service.clientSecret}`,
    `  export CDS_TOKEN=${service.token}`,
    ...(service.oauthTokenUrl.startsWith(`${service.url}/`)
      ? []
      : [`  export CDS_OAUTH_TOKEN_URL=${service.oauthTokenUrl}`]),
    `  export CDS_CONTROL_TOKEN=${service.controlToken}`,
    '',
    'For example:',
    `  curl "$CDS_BASE_URL/api/indexes" -H "Authorization: Bearer $CDS_TOKEN" -H "${tenantHeader}: $CDS_TENANT_ID" -H "api-version: 2025-07-31"`,
    '',
    'Stop it with Ctrl-C.',
  ];
}

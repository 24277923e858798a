import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from 'node:net';
import { onTestFinished } from 'vitest';
import { ServiceClient, type ServiceClientOptions } from '../../../src/api/client.js';
import { parseJson } from '../../../src/api/paging.js';
import type { Operation, RequestCounts } from '../../../src/api/request.js';
import type { Clock } from '../../../src/core/clock.js';
import { Secret } from '../../../src/core/secret.js';
import type { ApiGroup, ServiceOptions } from '../../../src/core/service-options.js';
import { accountOf } from '../../../src/rate-limit/budget.js';
import { ProcessBudget } from '../../../src/rate-limit/open-budget.js';
import { JumpingClock } from './clocks.js';

export interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** One response: a status with JSON, or a function that writes the response. */
export type Reply =
  | { readonly status: number; readonly body?: unknown; readonly headers?: Record<string, string> }
  | ((response: ServerResponse, request: Received) => void);

export const emptyPage: Reply = { status: 200, body: { data: [], next_token: '' } };

/** A service with scripted replies: it records each request, and gives the replies in turn, the last one for ever. */
export interface ScriptedService {
  readonly baseUrl: string;
  readonly received: Received[];
  /** Replaces the remaining replies. */
  script(...replies: readonly Reply[]): void;
  /** Stops listening and ends all connections. */
  stop(): Promise<void>;
}

async function listen(server: Server | TcpServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function give(reply: Reply, response: ServerResponse, request: Received): void {
  if (typeof reply === 'function') {
    reply(response, request);
    return;
  }
  response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
  response.end(reply.body === undefined ? undefined : JSON.stringify(reply.body));
}

/** Starts an HTTP server on loopback that ends with the test. */
export async function scriptedService(...first: readonly Reply[]): Promise<ScriptedService> {
  const received: Received[] = [];
  let replies = [...first];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one: Received = {
        method: request.method ?? '',
        url: new URL(request.url ?? '', 'http://service'),
        headers: request.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      };
      received.push(one);
      give((replies.length > 1 ? replies.shift() : replies[0]) as Reply, response, one);
    });
  });
  const port = await listen(server);
  const stop = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  };
  onTestFinished(stop);
  return {
    stop,
    baseUrl: `http://127.0.0.1:${port}`,
    received,
    script: (...next) => {
      replies = [...next];
    },
  };
}

/** Starts a plain TCP server. The test decides how it handles the n-th request, counted from 0. */
export async function rawService(onRequest: (socket: Socket, request: number) => void): Promise<{ baseUrl: string }> {
  const sockets = new Set<Socket>();
  let requests = 0;
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', () => onRequest(socket, requests++));
  });
  const port = await listen(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { baseUrl: `http://127.0.0.1:${port}` };
}

/** A port of loopback that no one listens on. */
export async function deadPort(): Promise<number> {
  const server = createTcpServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export const givenToken = 'given-token-7f3a';

export function serviceOptions(baseUrl: string, changes: Partial<ServiceOptions> = {}): ServiceOptions {
  return {
    baseUrl,
    tenantId: 'acme',
    tenantHeader: 'service-tenant',
    oauthTenantHeader: 'X-Service-Tenant',
    auth: { type: 'token', token: new Secret(givenToken) },
    apiVersions: { profile: '2025-07-31', management: '2024-04-01', campaignDrafts: '2024-04-01' },
    rateLimits: { profile: 2_000, management: 1_000, realtime: 1_000 },
    pageSize: 500,
    timeoutsMs: { connect: 5_000, firstByte: 20_000, body: 20_000, total: 60_000 },
    retry: { patienceMs: 300000, maxDelayMs: 60_000 },
    concurrency: 16,
    ...changes,
  };
}

export interface TestClient {
  readonly client: ServiceClient;
  readonly meter: RequestCounts;
  readonly clock: JumpingClock;
  readonly notices: string[];
  readonly abort: AbortController;
  /** Sends a request and returns the JSON of the response. */
  send(operation: Operation): Promise<unknown>;
  /** The present limit of a group that the client has sent to. */
  effectiveLimit(group: ApiGroup): number;
  /** Sends a request that must fail, and returns the error. */
  failure(operation: Operation): Promise<Error & Record<string, unknown>>;
}

/** A client whose waits take no time, closed with the test. The jitter is the middle of its range. */
export function testClient(
  service: ServiceOptions,
  options: Partial<Omit<ServiceClientOptions, 'service' | 'clock'>> & { clock?: Clock } = {},
): TestClient {
  const clock = new JumpingClock();
  const notices: string[] = [];
  const budget = options.budget ?? new ProcessBudget(options.clock ?? clock);
  const client = new ServiceClient({
    service,
    clock,
    random: () => 0.5,
    onNotice: (notice) => notices.push(notice),
    budget,
    ...options,
  });
  onTestFinished(() => client.close());
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const abort = new AbortController();
  const send = (operation: Operation) =>
    client.send(operation, (body) => (body.length === 0 ? null : parseJson(body)), { signal: abort.signal, meter });
  const failure = (operation: Operation) =>
    send(operation).then(
      (value) => {
        throw new Error(`it did not fail, but gave ${JSON.stringify(value)}`);
      },
      (error) => error,
    );
  // With the largest limit, so that the client's own stays in force.
  const effectiveLimit = (group: ApiGroup) =>
    budget.limiterFor(accountOf(service, group), Number.MAX_VALUE).effectiveLimit;
  return { client, meter, clock, notices, abort, send, failure, effectiveLimit };
}

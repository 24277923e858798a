import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Fault, type FaultOf, faultOf } from '../faults/fault.js';
import { abortConnection, faultResponse, faultyResponse, redirected, sendFaulty } from '../faults/faulty-response.js';
import type { ApiKey } from '../keys/api-key.js';
import type { Guard, Operation } from '../operations/operation.js';
import { operations } from '../operations/table.js';
import type { ServiceState } from '../service-state.js';
import type { StateSaver } from '../state-file.js';
import { parseQuery, type Query, single } from './query.js';
import { badRequest, notFound, ServiceError, type ServiceResponse, send, unauthorized } from './response.js';
import { type Route, Router } from './router.js';

interface Exchange {
  readonly request: IncomingMessage;
  readonly serverResponse: ServerResponse;
  readonly url: string;
}

interface DispatchOptions {
  readonly latencyMs: number;
  /** Aborts when the service closes. */
  readonly signal: AbortSignal;
  readonly saver: StateSaver;
}

function checkVersion(
  { versions }: Guard,
  { headers }: IncomingMessage,
  query: Query,
  refusal: FaultOf<'version_refusal'> | undefined,
): void {
  if (versions.length === 0) return;
  const version = headers['api-version'] ?? single(query, 'api_version');
  if (version === undefined || version === '') throw badRequest('the header api-version is missing');
  const isKnown = version === 'unstable' || versions.includes(String(version));
  if (refusal !== undefined && (!isKnown || version === refusal.version)) {
    throw refusal.status === 401 ? unauthorized(refusal.message) : badRequest(refusal.message);
  }
  if (!isKnown) {
    throw badRequest(`api-version ${version} is not supported here: use ${versions.join(' or ')}`);
  }
}

function checkPermissions({ permissions, instead }: Guard, key: ApiKey): void {
  if (instead !== undefined && key.allows(instead)) return;
  for (const permission of permissions) {
    if (!key.allows(permission)) throw new ServiceError(403, `the API key lacks the permission ${permission}`);
  }
}

/**
 * Takes each request through the same steps: route, budget, faults, token, permissions, version, operation. No step waits
 * unless it must, so that a page costs one turn of the event loop.
 */
export class Dispatcher {
  readonly #state: ServiceState;
  readonly #options: DispatchOptions;
  readonly #router = new Router(operations);

  constructor(state: ServiceState, options: DispatchOptions) {
    this.#state = state;
    this.#options = options;
  }

  handle(request: IncomingMessage, serverResponse: ServerResponse): void {
    const exchange = { request, serverResponse, url: request.url ?? '/' };
    try {
      const response = this.#respond(exchange);
      if (response === undefined) return;
      if (response instanceof Promise) {
        response.then(
          (late) => this.#send(exchange, late),
          (error) => this.#fail(exchange, error),
        );
      } else this.#send(exchange, response);
    } catch (error) {
      this.#fail(exchange, error);
    }
  }

  /** Undefined if faults hit the request: then {@link #performFaulty} responds. */
  #respond(exchange: Exchange): ServiceResponse | Promise<ServiceResponse> | undefined {
    const { request, url } = exchange;
    const method = request.method ?? 'GET';
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const route = this.#router.find(method, path);
    if (route.slashed && !this.#state.faults.has('slash_redirect')) throw notFound('there is no such path');
    const { guard } = route.operation;
    const tenant = this.#tenant(request);
    this.#state.stats.arrived(`${method} ${route.operation.path}`);
    if (guard !== undefined) this.#admit(guard, tenant);
    const faults = this.#state.faults.hits(method, url);
    const query = mark < 0 ? '' : url.slice(mark + 1);
    if (faults.length === 0) return this.#perform(request, route, query, faults, tenant);
    const perform = async () => this.#perform(request, route, query, faults, tenant);
    // Node may refuse to send the response of a fault, for example for a line break in a header.
    this.#performFaulty(exchange, faults, route, perform).catch(() => abortConnection(exchange.serverResponse));
    return undefined;
  }

  #perform(
    request: IncomingMessage,
    { operation, parameters }: Route,
    queryText: string,
    faults: readonly Fault[],
    tenant: string | undefined,
  ): ServiceResponse | Promise<ServiceResponse> {
    const { guard } = operation;
    const proceed = (key?: ApiKey): ServiceResponse | Promise<ServiceResponse> => {
      const query = parseQuery(queryText);
      if (guard !== undefined) checkVersion(guard, request, query, faultOf(faults, 'version_refusal'));
      const response = operation.handle({ request, parameters, query, tenant: tenant ?? '', key, faults }, this.#state);
      return operation.lasting === undefined ? response : this.#saved(response, operation.lasting);
    };
    if (guard === undefined) return proceed();
    const { authorization } = request.headers;
    if (authorization === undefined) throw unauthorized('the Authorization header is missing');
    if (tenant === undefined) throw badRequest(`the header ${this.#state.tenantHeader} is missing`);
    const permitted = (key: ApiKey) => {
      checkPermissions(guard, key);
      return proceed(key);
    };
    const key = this.#state.tokens.authenticate(authorization, tenant);
    return key instanceof Promise ? key.then(permitted) : permitted(key);
  }

  async #saved(
    response: ServiceResponse | Promise<ServiceResponse>,
    what: Operation['lasting'],
  ): Promise<ServiceResponse> {
    const ready = await response;
    const { saver } = this.#options;
    await (what === 'events' ? saver.saveEvents() : saver.save());
    return ready;
  }

  #tenant({ headers }: IncomingMessage): string | undefined {
    const { tenantHeader, oauthTenantHeader, faults } = this.#state;
    const tenant =
      headers[tenantHeader] ?? (faults.has('either_tenant_header') ? headers[oauthTenantHeader] : undefined);
    return typeof tenant === 'string' && tenant !== '' ? tenant : undefined;
  }

  #admit({ group }: Guard, tenant: string | undefined): void {
    if (tenant === undefined) return;
    if (!this.#state.keys.hasTenant(tenant)) throw unauthorized('the tenant is not known');
    const wait = this.#state.limits.arrive(tenant, group, this.#state.clock.monotonic());
    if (wait > 0) {
      throw new ServiceError(429, 'too many requests', { 'retry-after': String(Math.ceil(wait / 1000)) });
    }
  }

  async #performFaulty(
    exchange: Exchange,
    faults: readonly Fault[],
    { operation }: Route,
    perform: () => Promise<ServiceResponse>,
  ) {
    const { clock, errors } = this.#state;
    const { serverResponse, request } = exchange;
    const { signal, latencyMs } = this.#options;
    const delayMs = latencyMs + (faultOf(faults, 'slow')?.delay_ms ?? 0);
    if (delayMs > 0) await clock.sleep(delayMs, signal);
    if (faultOf(faults, 'hang') !== undefined) return;
    if (faultOf(faults, 'reset') !== undefined) return abortConnection(serverResponse);
    let response: ServiceResponse;
    try {
      response =
        redirected(faults, request.url ?? '/') ??
        faultResponse(faults, operation.guard?.permissions ?? [], request.url ?? '/') ??
        (await perform());
    } catch (error) {
      response = errors.of(error, faultOf(faults, 'no_error_ids') === undefined);
    }
    this.#state.stats.sent(response.status);
    if (faultOf(faults, 'lost_answer') !== undefined) return abortConnection(serverResponse);
    response = faultyResponse(response, faults, request);
    await sendFaulty({ serverResponse, response, faults, clock, signal });
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#send(exchange, this.#state.errors.of(error));
  }

  #send({ serverResponse }: Exchange, response: ServiceResponse): void {
    const { stats, clock } = this.#state;
    const { latencyMs, signal } = this.#options;
    stats.sent(response.status);
    if (latencyMs === 0) send(serverResponse, response, clock.dateHeader());
    else void clock.sleep(latencyMs, signal).then(() => send(serverResponse, response, clock.dateHeader()));
  }
}

import { onTestFinished } from 'vitest';
import { startLocalService } from '../../../src/local-service/service.js';
import { JumpingClock } from '../../unit/api/clocks.js';
import { Caller, type HttpResult, readResponse } from './caller.js';

// biome-ignore lint/suspicious/noExplicitAny: tests look into items of every shape
export type Item = Record<string, any>;

export const dayMs = 86_400_000;
export const iso = (at: number) => new Date(at).toISOString();

/** Each list of the Management API that has pages, the id field of its items, and the permission for it. */
export const lists = [
  ['audit-events', 'event_id', 'audit-events:read'],
  ['campaigns', 'id', 'campaigns:read'],
  ['campaign-drafts', 'id', 'campaign-drafts:read'],
  ['segments', 'id', 'segments:read'],
  ['workflow/runs', 'id', 'workflow-runs:read'],
] as const;

/** Makes requests to the Management API of a service whose clock moves only by a jump. */
export class ManagementCaller extends Caller {
  readonly clock: JumpingClock;

  constructor(clock: JumpingClock, ...options: ConstructorParameters<typeof Caller>) {
    super(...options);
    this.clock = clock;
    this.headers['api-version'] = '2024-04-01';
  }

  /** Starts a service that ends with the test. */
  static async start(options: Parameters<typeof startLocalService>[0] = {}): Promise<ManagementCaller> {
    const clock = new JumpingClock();
    const rateLimits = { management: 0, ...options.rateLimits };
    const service = await startLocalService({ profiles: 10, clock, ...options, rateLimits });
    onTestFinished(() => service.close());
    return new ManagementCaller(clock, service);
  }

  /** Campaign drafts exist under `unstable` alone. */
  override async send(
    method: string,
    path: string,
    headers: Record<string, string | undefined> = {},
  ): Promise<HttpResult> {
    const version = path.startsWith('/api/campaign-drafts') ? { 'api-version': 'unstable' } : {};
    return super.send(method, path, { ...version, ...headers });
  }

  async post(path: string, body?: unknown, headers: Record<string, string | undefined> = {}): Promise<HttpResult> {
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const all = Object.entries({ ...this.headers, ...type, ...headers }).filter(([, value]) => value !== undefined);
    const text = body === undefined || typeof body === 'string' ? (body ?? null) : JSON.stringify(body);
    const init = { method: 'POST', headers: all as [string, string][], body: text };
    return readResponse(await fetch(this.service.url + path, init));
  }

  /** A caller with a new key: for another tenant, or with fewer permissions. */
  async as(name: string, { tenant = 'acme', permissions }: { tenant?: string; permissions?: readonly string[] }) {
    await this.control('keys', { action: 'create', name, tenant, permissions });
    const { body } = await this.control('keys', { action: 'issue', key: name, tenant });
    return new ManagementCaller(this.clock, this.service, body.token, tenant);
  }

  /** All items of a list. */
  async items(list: string): Promise<Item[]> {
    return this.records(`/api/${list}${list.includes('?') ? '&' : '?'}limit=1000`) as Promise<unknown> as Promise<
      Item[]
    >;
  }

  /** The ingest jobs of the last days, read window by window. */
  async jobs(days = 70): Promise<Item[]> {
    const found: Item[] = [];
    // `created_to` is excluded, and jobs of the present moment belong to the response.
    const end = this.clock.now() + 1;
    for (let from = end - days * dayMs; from < end; from += 7 * dayMs) {
      const window = `created_from=${iso(from)}&created_to=${iso(Math.min(end, from + 7 * dayMs))}`;
      found.push(...((await this.read(`/api/ingest/jobs?${window}`)).data as unknown as Item[]));
    }
    return found;
  }

  async start(config: string, more: object = {}): Promise<Item> {
    const { status, body, text } = await this.post('/api/workflow/runs/', { config_id: config, ...more });
    if (status !== 201) throw new Error(`start: ${status} ${text}`);
    return body;
  }

  async run(id: string, view = 'overview'): Promise<Item> {
    return this.read(`/api/workflow/runs/${id}?view=${view}`) as Promise<unknown> as Promise<Item>;
  }

  stop(id: string): Promise<HttpResult> {
    return this.post(`/api/workflow/runs/${id}/stop`);
  }
}

import { onTestFinished } from 'vitest';
import type { Decode, Operation } from '../../../src/api/client.js';
import { Secret } from '../../../src/core/secret.js';
import type { ServiceOptions } from '../../../src/core/service-options.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { serviceOptions, type TestClient, testClient } from '../../unit/api/scripted-service.js';
import { Caller } from '../local-service/caller.js';
import { RealtimeCaller } from '../local-service/realtime-caller.js';
import type { EntryId } from './entries.js';

export const dayMs = 86_400_000;
export const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** The claims of a token. */
export function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString());
}

/** For each entry, the test that shows it. */
export type Checks = Partial<Record<EntryId, (setting: Setting) => void | Promise<void>>>;

interface KeyOptions {
  readonly tenant?: string;
  readonly permissions?: readonly string[];
}

let keys = 0;

/** An API key that a test has made. */
export class Key {
  readonly #setting: Setting;
  readonly name: string;
  readonly tenant: string;
  readonly clientId: string;
  readonly clientSecret: string;

  private constructor(setting: Setting, name: string, tenant: string, response: Record<string, string>) {
    this.#setting = setting;
    this.name = name;
    this.tenant = tenant;
    this.clientId = response.client_id as string;
    this.clientSecret = response.client_secret as string;
  }

  static async create(setting: Setting, { tenant = 'acme', permissions }: KeyOptions): Promise<Key> {
    keys += 1;
    const name = `key-${keys}`;
    const { body } = await setting.profile.control('keys', { action: 'create', name, tenant, permissions });
    return new Key(setting, name, tenant, body);
  }

  async issue(options: { days?: number | null; rotate?: boolean } = {}): Promise<string> {
    return (await this.#do({ action: 'issue', ...options })).token as string;
  }

  async drop(): Promise<void> {
    await this.#do({ action: 'drop' });
  }

  async revoke(which: 'old' | 'all'): Promise<void> {
    await this.#do({ action: 'revoke', which });
  }

  async permit(...permissions: readonly string[]): Promise<void> {
    await this.#do({ action: 'permit', permissions });
  }

  /** Which of the tokens the service takes now. */
  async accepted(...tokens: readonly string[]): Promise<boolean[]> {
    const accepted: boolean[] = [];
    for (const token of tokens) {
      const { status } = await this.#setting.callerOf(token, this.tenant).get('/api/indexes');
      if (status !== 200 && status !== 401) throw new Error(`a token was answered ${status}`);
      accepted.push(status === 200);
    }
    return accepted;
  }

  async #do(action: object): Promise<Record<string, unknown>> {
    return (await this.#setting.profile.control('keys', { key: this.name, tenant: this.tenant, ...action })).body;
  }
}

/** A profile that an event makes: a member of two segments, with two keys. */
const ada = { email: 'ada+test@example.org', loyalty_id: 'L-0001' };

/** A local service and callers for it. Management calls have no limit, so that tests need not wait. */
export class Setting {
  readonly service: LocalService;
  readonly profile: Caller;
  readonly management: Caller;
  /** Campaign drafts exist under `unstable` alone. */
  readonly drafts: Caller;
  readonly realtime: RealtimeCaller;
  readonly ada = ada;

  private constructor(service: LocalService, tenantHeader: string) {
    this.service = service;
    this.profile = new Caller(service);
    this.management = new Caller(service);
    this.drafts = new Caller(service);
    this.realtime = new RealtimeCaller(service);
    for (const { headers } of [this.profile, this.management, this.drafts, this.realtime]) {
      delete headers['service-tenant'];
      headers[tenantHeader] = service.tenantId;
    }
    this.management.headers['api-version'] = '2024-04-01';
    this.drafts.headers['api-version'] = 'unstable';
  }

  static async open(options: Parameters<typeof startLocalService>[0] = {}): Promise<Setting> {
    const limits = { management: 0, ...options.rateLimits };
    const service = await startLocalService({ profiles: 400, ...options, rateLimits: limits });
    const setting = new Setting(service, options.tenantHeader ?? 'service-tenant');
    await setting.realtime.event({ keys: ada, attributes: { tier: 'gold', total_spent: 9000, first_name: 'Ada' } });
    return setting;
  }

  /** A separate setting that ends with the test, for what would disturb other tests: moved time, other options. */
  static async own(options: Parameters<typeof startLocalService>[0] = {}): Promise<Setting> {
    const setting = await Setting.open({ profiles: 50, ...options });
    onTestFinished(() => setting.close());
    return setting;
  }

  async close(): Promise<void> {
    await this.service.close();
  }

  key(options: KeyOptions = {}): Promise<Key> {
    return Key.create(this, options);
  }

  callerOf(token: string, tenant = 'acme'): Caller {
    return new Caller(this.service, token, tenant);
  }

  async callerWith(...permissions: readonly string[]): Promise<RealtimeCaller> {
    const token = await (await this.key({ permissions })).issue();
    return new RealtimeCaller(this.service, token);
  }

  /** Our client; its waits take no time. */
  client(changes: Partial<ServiceOptions> = {}): TestClient {
    const auth = { type: 'token', token: new Secret(this.service.token) } as const;
    return testClient(serviceOptions(this.service.url, { auth, ...changes }));
  }

  /** Sends an operation with our client; returns the decoded response. */
  read<T>(operation: Operation, decode: Decode<T>): Promise<T> {
    const { client, meter, abort } = this.client();
    return client.send(operation, decode, { signal: abort.signal, meter });
  }

  async days(count: number): Promise<void> {
    await this.profile.control('time', { advance_ms: Math.round(count * dayMs) });
  }

  /** Path of the profiles of an index. */
  async members(index = 'loyalty_members'): Promise<string> {
    return `/api/indexes/${await this.profile.indexId(index)}/profiles`;
  }

  /** A path of each list that has pages, with a caller that may read it. */
  async lists(): Promise<(readonly [path: string, caller: Caller])[]> {
    const { profile_id: id } = await this.realtime.lookup(ada);
    return [
      ['/api/indexes', this.profile],
      [await this.members(), this.profile],
      // Without /ingest/jobs, which takes no cursor.
      ...['audit-events', 'campaigns', 'segments', 'workflow/runs'].map(
        (path) => [`/api/${path}`, this.management] as const,
      ),
      ['/api/campaign-drafts', this.drafts],
      ['/prof/segments/seg-gold/profiles', this.realtime],
      [`/prof/profiles/col-1/${id}/segments`, this.realtime],
    ];
  }
}

import { type Operation, ServiceClient } from '../../../src/api/client.js';
import * as management from '../../../src/api/management-api.js';
import type { Page } from '../../../src/api/paging.js';
import * as profile from '../../../src/api/profile-api.js';
import * as realtime from '../../../src/api/realtime-api.js';
import { systemClock } from '../../../src/core/clock.js';
import { Secret } from '../../../src/core/secret.js';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { openBudget } from '../../../src/rate-limit/open-budget.js';
import { requestControl } from '../../fixtures/control.js';
import * as decoders from '../../fixtures/decoders.js';
import { serviceOptions } from '../../unit/api/scripted-service.js';
import type { Call, Known } from './calls.js';
import { Recorder } from './recorder.js';

const dayMs = 86_400_000;

/** A local service and its client, with a recorder between them. */
export class ContractService {
  readonly recorder: Recorder;
  readonly #service: LocalService;
  readonly #clients: ServiceClient[] = [];
  readonly #client: ServiceClient;
  #known: Known | undefined;

  private constructor(service: LocalService, recorder: Recorder) {
    this.#service = service;
    this.recorder = recorder;
    this.#client = this.#open(service.clientId, service.clientSecret);
  }

  static async open(): Promise<ContractService> {
    const service = await startLocalService({ profiles: 1000 });
    const opened = new ContractService(service, await Recorder.open(service.url));
    opened.#known = await opened.#lookAround();
    return opened;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close();
    await this.recorder.close();
    await this.#service.close();
  }

  get known(): Known {
    return this.#known as Known;
  }

  send<T>(operation: Operation, decode: Call['decode'], by = this.#client): Promise<T> {
    const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
    return by.send(operation, decode, { signal: new AbortController().signal, meter }) as Promise<T>;
  }

  /** A client whose key has these permissions and no others. */
  async clientWith(permissions: readonly string[]): Promise<ServiceClient> {
    const name = `key-${this.#clients.length}`;
    const response = await requestControl(this.#service, 'keys', {
      method: 'POST',
      body: JSON.stringify({ action: 'create', name, tenant: this.#service.tenantId, permissions }),
    });
    const { client_id: id, client_secret: secret } = (await response.json()) as Record<string, string>;
    return this.#open(id as string, secret as string);
  }

  #open(clientId: string, clientSecret: string): ServiceClient {
    const auth = { type: 'client_credentials', clientId, clientSecret: new Secret(clientSecret) } as const;
    const rateLimits = { profile: 2000, management: 9, realtime: 1000 };
    const service = serviceOptions(this.recorder.url, { auth, rateLimits });
    const client = new ServiceClient({ service, clock: systemClock, budget: openBudget() });
    this.#clients.push(client);
    return client;
  }

  async #firstOf<T>(operation: Operation, decode: Call['decode'], is: (item: T) => boolean = () => true): Promise<T> {
    const found = (await this.send<Page<T>>(operation, decode)).data.find(is);
    if (found === undefined) throw new Error(`there is nothing to test ${operation.label} with`);
    return found;
  }

  async #lookAround(): Promise<Known> {
    const now = Date.now();
    const [from, to] = [now - 7 * dayMs, now].map((time) => new Date(time).toISOString()) as [string, string];
    const isMembers = ({ name }: profile.Index) => name === 'loyalty_members';
    const index = await this.#firstOf(profile.indexesPageOperation({}), profile.readIndexes, isMembers);
    const profiles = profile.profilesPageOperation({ indexId: index.id, limit: 1 });
    const person = await this.#firstOf<decoders.IndexProfile>(profiles, decoders.readProfiles);
    const members = realtime.segmentMembersPageOperation('seg-gold', { limit: 1 });
    const { profile_id: memberId } = await this.#firstOf<decoders.SegmentMember>(members, decoders.readSegmentMembers);
    const one = realtime.getRealtimeProfileOperation('col-1', memberId);
    const member = await this.send<realtime.RealtimeProfile>(one, realtime.readRealtimeProfile);
    const links = member.links as Record<string, string[]> | undefined;
    const jobs = management.ingestJobsOperation({ createdFrom: from, createdTo: to });
    const job = await this.#firstOf<decoders.IngestJob>(jobs, decoders.readIngestJobs);
    return {
      indexId: index.id,
      profileId: person.id,
      ingestJobId: job.id,
      memberId,
      memberKeys: { email: links?.email?.[0] as string, loyalty_id: links?.loyalty_id?.[0] as string },
      from,
      to,
      startRun: async () => {
        const start = management.startWorkflowOperation({ configId: 'cg-slow' });
        return (await this.send<management.WorkflowRun>(start, management.readWorkflowRun)).id;
      },
    };
  }
}

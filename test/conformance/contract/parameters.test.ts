import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as management from '../../../src/api/management-api.js';
import type { Page } from '../../../src/api/paging.js';
import * as profile from '../../../src/api/profile-api.js';
import * as realtime from '../../../src/api/realtime-api.js';
import { membersOfSegment } from '../../../src/sources/segment-members.js';
import * as decoders from '../../fixtures/decoders.js';
import type { Known } from './calls.js';
import { ContractService } from './contract-service.js';

let contract: ContractService;
let known: Known;
beforeAll(async () => {
  contract = await ContractService.open();
  known = contract.known;
});
afterAll(() => contract.close());

const most = { limit: 1000 };

type Make = Parameters<ContractService['send']>[0];

async function items<T>(operation: Make, decode: Parameters<ContractService['send']>[1]): Promise<T[]> {
  return (await contract.send<Page<T>>(operation, decode)).data;
}

/** Two times that items of a list have, a quarter and three quarters of the way through it. */
function middle(times: readonly (string | null | undefined)[]): { from: string; to: string } {
  const sorted = times.filter((time): time is string => typeof time === 'string').sort();
  return { from: sorted[sorted.length >> 2] as string, to: sorted[(sorted.length * 3) >> 2] as string };
}

const within = (time: unknown, { from, to }: { from: string; to: string }) =>
  typeof time === 'string' && time >= from && time < to;

describe('In the local service, each parameter of the client has its published effect', () => {
  it('happened_from (included) and happened_to (excluded) of audit events', async () => {
    const ask = (bounds: object) =>
      items<decoders.AuditEvent>(management.auditEventsPageOperation({ ...bounds, ...most }), decoders.readAuditEvents);
    const all = await ask({ happenedFrom: known.from, happenedTo: known.to });
    const { from, to } = middle(all.map(({ happened_at: at }) => at));
    const ids = (events: decoders.AuditEvent[]) => events.map(({ event_id: id }) => id).sort();
    const wanted = all.filter(({ happened_at: at }) => within(at, { from, to }));
    expect(ids(await ask({ happenedFrom: from, happenedTo: to }))).toEqual(ids(wanted));
    expect(wanted.length).toBeLessThan(all.length);
  });

  it('created_…, ended_…, state and type of workflow runs', async () => {
    const ask = (request: management.WorkflowRunsRequest) =>
      items<management.WorkflowRun>(
        management.workflowRunsPageOperation({ ...request, ...most }),
        management.readWorkflowRuns,
      );
    const start = management.startWorkflowOperation({ configId: 'cg-slow', runMode: 'source' });
    await contract.send(start, management.readWorkflowRun);
    const all = await ask({});
    const created = middle(all.map(({ created_at: at }) => at));
    const ended = middle(all.map(({ ended_at: at }) => at));
    const cases: [management.WorkflowRunsRequest, (run: management.WorkflowRun) => boolean][] = [
      [{ createdFrom: created.from, createdTo: created.to }, ({ created_at: at }) => within(at, created)],
      [{ endedFrom: ended.from, endedTo: ended.to }, ({ ended_at: at }) => within(at, ended)],
      [{ state: 'succeeded' }, ({ state }) => state === 'succeeded'],
      [{ type: 'source' }, ({ type }) => type === 'source'],
    ];
    for (const [request, isWanted] of cases) {
      const wanted = all.filter(isWanted).map(({ id }) => id);
      expect((await ask(request)).map(({ id }) => id).sort()).toEqual(wanted.sort());
      expect(wanted.length).toBeGreaterThan(0);
      expect(wanted.length).toBeLessThan(all.length);
    }
  });

  it('created_from and created_to of ingest jobs: a window of at most 7 days', async () => {
    const ask = (createdFrom: string, createdTo: string) =>
      items<decoders.IngestJob>(management.ingestJobsOperation({ createdFrom, createdTo }), decoders.readIngestJobs);
    const half = new Date((Date.parse(known.from) + Date.parse(known.to)) / 2).toISOString();
    const [whole, first, second] = [
      await ask(known.from, known.to),
      await ask(known.from, half),
      await ask(half, known.to),
    ];
    expect(new Set([...first, ...second].map(({ id }) => id))).toEqual(new Set(whole.map(({ id }) => id)));
    expect([first.length, second.length]).not.toContain(0);
    const longer = new Date(Date.parse(known.from) - 1).toISOString();
    await expect(ask(longer, known.to)).rejects.toMatchObject({ code: 'bad_request', status: 400 });
  });

  it.each([
    ['campaigns', management.campaignsPageOperation],
    ['drafts', (request: management.CampaignsRequest) => management.campaignDraftsPageOperation(request, 'unstable')],
  ])('destination_data_template_id of %s', async (_, make) => {
    const all = await items<decoders.Campaign>(make(most), decoders.readCampaigns);
    const only = await items<decoders.Campaign>(
      make({ destinationDataTemplateId: 'ddt-1', ...most }),
      decoders.readCampaigns,
    );
    expect(only.length).toBeGreaterThan(0);
    expect(only.length).toBeLessThan(all.length);
    expect(all).toEqual(expect.arrayContaining(only));
  });

  it('filter[<attribute>] of profiles, several together', async () => {
    const { indexId } = known;
    const ask = (filter: [string, string][]) =>
      items<decoders.IndexProfile>(profile.profilesPageOperation({ indexId, filter, ...most }), decoders.readProfiles);
    const all = await ask([]);
    const isWanted = ({ attributes }: decoders.IndexProfile) => {
      const { tier, country } = attributes as Record<string, unknown>;
      return tier === 'gold' && country === 'US';
    };
    const found = await ask([
      ['tier', 'gold'],
      ['country', 'US'],
    ]);
    expect(found.length).toBeGreaterThan(0);
    expect(found.map(({ id }) => id).sort()).toEqual(
      all
        .filter(isWanted)
        .map(({ id }) => id)
        .sort(),
    );
  });

  it('view of a workflow run: verbose has its tasks', async () => {
    const id = await known.startRun();
    const [plain, verbose] = await Promise.all(
      [undefined, 'verbose' as const].map((view) =>
        contract.send<management.WorkflowRun>(management.getWorkflowRunOperation(id, view), management.readWorkflowRun),
      ),
    );
    expect([plain?.task_instances, verbose?.task_instances?.length]).toEqual([undefined, 3]);
  });

  it('run_mode of a started run, which can be stopped', async () => {
    const start = management.startWorkflowOperation({ configId: 'cg-slow', runMode: 'refresh' });
    const run = await contract.send<management.WorkflowRun>(start, management.readWorkflowRun);
    expect(run).toMatchObject({ state: 'scheduled', type: 'refresh', name: 'Full history reload' });
    const stop = management.stopWorkflowOperation(run.id);
    expect(await contract.send(stop, management.readWorkflowRun)).toMatchObject({ id: run.id, state: 'stopping' });
    const unknown = management.startWorkflowOperation({ configId: 'cg-none' });
    await expect(contract.send(unknown, management.readWorkflowRun)).rejects.toMatchObject({ code: 'bad_request' });
  });

  it('enrich, of lookups by either method and of profiles', async () => {
    const { memberKeys: keys, memberId } = known;
    const makers = [
      (enrich: boolean) => realtime.lookupProfileOperation('col-1', { keys, enrich }),
      (enrich: boolean) => realtime.lookupProfileByGetOperation('col-1', { keys, enrich }),
      (enrich: boolean) => realtime.getRealtimeProfileOperation('col-1', memberId, { enrich }),
    ];
    for (const make of makers) {
      const [plain, enriched] = await Promise.all(
        [false, true].map((enrich) =>
          contract.send<realtime.RealtimeProfile>(make(enrich), realtime.readRealtimeProfile),
        ),
      );
      expect([plain?.profile_id, enriched?.profile_id]).toEqual([memberId, memberId]);
      const names = (found: realtime.RealtimeProfile | undefined) => Object.keys(found?.attributes ?? {});
      expect(names(enriched)).toEqual(expect.arrayContaining(names(plain)));
      expect(names(enriched).length).toBeGreaterThan(names(plain).length);
    }
  });

  it('no with_total goes to the members of a segment, whose total is always there', () => {
    const request = { token: null, limit: 1, filter: new Map<string, string>(), withTotal: true };
    expect(membersOfSegment('seg-gold').page(request).query).toEqual([['limit', '1']]);
  });

  it('keys of a lookup with any characters: a plus, a percent sign, an ampersand', async () => {
    const email = 'a+b%26c&d=e f@example.org';
    await contract.send(realtime.sendEventOperation('evs-1', { keys: { email } }), () => null);
    for (const make of [realtime.lookupProfileOperation, realtime.lookupProfileByGetOperation]) {
      const operation = make('col-1', { keys: { email } });
      const found = await contract.send<realtime.RealtimeProfile>(operation, realtime.readRealtimeProfile);
      expect(found.links).toMatchObject({ email: [email] });
    }
  });

  it('scale, after and before of a history, whose last bucket contains before', async () => {
    const [after, before] = ['2026-01-10T00:00:00.000Z', '2026-01-12T00:00:00.000Z'];
    for (const [scale, buckets] of [
      ['day', 3],
      ['hour', 49],
    ] as const) {
      const operation = realtime.collectionHistoryOperation('col-1', { scale, after, before });
      const found = await contract.send<decoders.CollectionHistory>(operation, decoders.readCollectionHistory);
      expect([found.scale, found.data.length, found.data[0]?.bucket]).toEqual([scale, buckets, after]);
    }
    const turned = realtime.collectionHistoryOperation('col-1', { after: before, before: after });
    await expect(contract.send(turned, decoders.readCollectionHistory)).rejects.toMatchObject({ status: 400 });
  });
});

import { expect } from 'vitest';
import type { Decode } from '../../../src/api/client.js';
import * as management from '../../../src/api/management-api.js';
import type { Operation } from '../../../src/api/request.js';
import { operations } from '../../../src/local-service/operations/table.js';
import * as decoders from '../../fixtures/decoders.js';
import { type Checks, dayMs, type Setting } from './setting.js';

/** The result of an operation of our client, which must belong to version 2024-04-01. */
async function read<T>(setting: Setting, operation: Operation, decode: Decode<T>): Promise<T> {
  const name = operation.label.replace(' ', ' /api');
  const [served] = operations.filter(({ method, path }) => `${method} ${path}` === name);
  expect(served?.guard).toMatchObject({ group: 'management', versions: ['2024-04-01'] });
  return setting.read(operation, decode);
}

function ingestJobs(setting: Setting) {
  const [createdFrom, createdTo] = [Date.now() - 6 * dayMs, Date.now()].map((at) => new Date(at).toISOString());
  const window = { createdFrom: createdFrom as string, createdTo: createdTo as string };
  return read(setting, management.ingestJobsOperation(window), decoders.readIngestJobs);
}

function startedRun(setting: Setting) {
  return read(setting, management.startWorkflowOperation({ configId: 'cg-slow' }), management.readWorkflowRun);
}

/** The Management API. */
export const section4Management: Checks = {
  '4.11.text.GET /audit-events': async (setting) => {
    const { data } = await read(setting, management.auditEventsPageOperation({}), decoders.readAuditEvents);
    expect(data).toHaveLength(25);
    expect(data[0]).toMatchObject({ event_type: expect.stringMatching(/^:/), tenant_family: 'acme' });
  },
  '4.11.text.GET /campaign-drafts': async (setting) => {
    const operation = management.campaignDraftsPageOperation({}, 'unstable');
    expect((await read(setting, operation, decoders.readCampaigns)).data[0]?.id).toMatch(/^draft-/);
  },
  '4.11.text.GET /campaigns': async (setting) => {
    const { data } = await read(setting, management.campaignsPageOperation({}), decoders.readCampaigns);
    expect(data[0]?.id).toMatch(/^cmp-/);
  },
  '4.11.text.GET /ingest/jobs': async (setting) => {
    const { data } = await ingestJobs(setting);
    expect(data.length).toBeGreaterThanOrEqual(5);
    expect(data[0]?.tables?.[0]).toMatchObject({ table_name: 'customers', state: 'succeeded' });
  },
  '4.11.text.GET /ingest/jobs/{id}': async (setting) => {
    const [one] = (await ingestJobs(setting)).data;
    const operation = management.getIngestJobOperation(one?.id ?? '');
    expect(await read(setting, operation, decoders.readIngestJob)).toEqual(one);
  },
  '4.11.text.GET /segments': async (setting) => {
    const { data } = await read(setting, management.segmentsPageOperation({}), management.readSegments);
    expect(data).toContainEqual(expect.objectContaining({ id: 'seg-0003', name: 'Gold' }));
  },
  '4.11.text.GET /workflow/runs': async (setting) => {
    const { data } = await read(setting, management.workflowRunsPageOperation({}), management.readWorkflowRuns);
    expect(data[0]).toMatchObject({ id: expect.stringMatching(/^run-/), state: 'succeeded', type: 'full' });
  },
  '4.11.text.GET /workflow/runs/{id}': async (setting) => {
    const { id } = await startedRun(setting);
    const operation = management.getWorkflowRunOperation(id);
    const run = await read(setting, operation, management.readWorkflowRun);
    expect(run).toMatchObject({ id, name: 'Full history reload' });
  },
  '4.11.text.POST /workflow/runs/': async (setting) => {
    const before = await setting.management.read('/api/workflow/runs?limit=1&with_total=true');
    const { id } = await startedRun(setting);
    const after = await setting.management.records('/api/workflow/runs?limit=100');
    expect(after).toHaveLength((before.total ?? 0) + 1);
    expect(after.map((run) => run.id)).toContain(id);
  },
  '4.11.text.POST /workflow/runs/{id}/stop': async (setting) => {
    const { id } = await startedRun(setting);
    const stopped = await read(setting, management.stopWorkflowOperation(id), management.readWorkflowRun);
    expect(stopped).toMatchObject({ id, state: 'stopping' });
  },
};

import { expect } from 'vitest';
import { segmentsPageOperation } from '../../../src/api/management-api.js';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import {
  collectionStatsOperation,
  getRealtimeProfileOperation,
  profileSegmentsPageOperation,
  readRealtimeProfile,
} from '../../../src/api/realtime-api.js';
import type { Operation } from '../../../src/local-service/operations/operation.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { readCollectionStats, readProfileSegments } from '../../fixtures/decoders.js';
import { scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { parse, withStream } from '../../unit/config/sample.js';
import type { Checks } from './setting.js';

const configured = () => parse(withStream('source: index_profiles', 'index: loyalty_members')).service.apiVersions;

const request = ({ method, path }: Operation) => `${method} ${path.replace(/\{[^}]*\}/g, '{}')}`;

/** The requests that the service serves in a version. */
function servedIn(version: string): string[] {
  return operations
    .filter(({ guard }) => guard?.versions.includes(version))
    .map(request)
    .sort();
}

/** Versions. */
export const section9: Checks = {
  '9.1.1': async ({ profile }) => {
    const versioned = operations.filter(({ guard }) => guard !== undefined && guard.group !== 'realtime');
    for (const { method, path } of versioned) {
      const target = path.replace(/\{[^}]*\}/g, 'any');
      const { status, body } = await profile.send(method, target, { 'api-version': undefined });
      expect([path, status, body.message]).toEqual([path, 400, expect.stringContaining('api-version')]);
    }
    expect(versioned.length).toBeGreaterThanOrEqual(14);
  },
  '9.1.2': async (setting) => {
    expect(configured().profile).toBe('2025-07-31');
    expect(await setting.client({ apiVersions: configured() }).send(indexesPageOperation({}))).toHaveProperty('data');
    expect((await setting.profile.get('/api/indexes', { 'api-version': '2024-04-01' })).status).toBe(400);
  },
  '9.1.3': async (setting) => {
    expect([configured().management, configured().campaignDrafts]).toEqual(['2024-04-01', '2024-04-01']);
    expect(await setting.client({ apiVersions: configured() }).send(segmentsPageOperation({}))).toHaveProperty('data');
    expect((await setting.management.get('/api/segments', { 'api-version': '2025-07-31' })).status).toBe(400);
  },
  '9.2.1': async ({ realtime }) => {
    const unversioned = operations.filter(({ guard }) => guard?.group === 'realtime');
    expect(unversioned).toHaveLength(8);
    for (const { method, path } of unversioned) {
      const response = await realtime.send(method, path.replace(/\{[^}]*\}/g, 'any'));
      expect(response.body.message).not.toContain('version');
    }
    expect((await realtime.get('/prof/collections/col-1/stats')).status).toBe(200);
  },
  '9.2.2': async () => {
    const more = { added_later: { deep: [1] } };
    const service = await scriptedService(
      { status: 200, body: { profile_id: 'p', ...more } },
      { status: 200, body: { data: [{ segment_id: 's', ...more }], ...more } },
      { status: 200, body: more },
    );
    const { client, abort, meter } = testClient(serviceOptions(service.baseUrl));
    const options = { signal: abort.signal, meter };
    const profile = await client.send(getRealtimeProfileOperation('c', 'p'), readRealtimeProfile, options);
    expect(profile).toEqual({ profile_id: 'p', ...more });
    const segments = await client.send(profileSegmentsPageOperation('c', 'p', {}), readProfileSegments, options);
    expect(segments).toEqual({ data: [{ segment_id: 's', ...more }], nextToken: null, total: null });
    expect(await client.send(collectionStatsOperation('c'), readCollectionStats, options)).toEqual(more);
  },
  '9.3.2': () => {
    expect(servedIn('2024-04-01').filter((one) => one !== 'POST /api/workflow/runs')).toEqual([
      'GET /api/audit-events',
      'GET /api/campaign-drafts',
      'GET /api/campaigns',
      'GET /api/ingest/jobs',
      'GET /api/ingest/jobs/{}',
      'GET /api/segments',
      'GET /api/workflow/runs',
      'GET /api/workflow/runs/{}',
      'POST /api/workflow/runs/',
      'POST /api/workflow/runs/{}/stop',
    ]);
  },
  '9.3.3': () => {
    const four = ['', '/{}', '/{}/profiles', '/{}/profiles/{}'].map((path) => `GET /api/indexes${path}`);
    expect(servedIn('2025-07-31')).toEqual(four);
  },
  '9.3.4': () => {
    expect(
      operations
        .filter(({ guard }) => guard?.group === 'realtime')
        .map(request)
        .sort(),
    ).toEqual([
      'GET /prof/collections/{}/history',
      'GET /prof/collections/{}/stats',
      'GET /prof/lookup/{}/keychain',
      'GET /prof/profiles/{}/{}',
      'GET /prof/profiles/{}/{}/segments',
      'GET /prof/segments/{}/profiles',
      'POST /prof/events/{}',
      'POST /prof/lookup/{}/keychain',
    ]);
  },
};

import { expect } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { JumpingClock } from '../../unit/api/clocks.js';
import { emptyPage, scriptedService, serviceOptions, testClient } from '../../unit/api/scripted-service.js';
import { type Checks, Setting } from './setting.js';

/** Errors. */
export const section7: Checks = {
  '7.1': async ({ profile }) => {
    for (const { method, path } of operations) {
      const { status, body } = await profile.send(method, path.replace(/\{[^}]*\}/g, 'none'), {
        authorization: 'none',
      });
      expect([path, Object.keys(body)]).toEqual([path, ['status', 'message', 'request_id', 'trace_id']]);
      expect([body.status >= 400, body.status]).toEqual([true, status]);
    }
  },
  '7.2.1': async () => {
    for (const status of [400, 401, 403, 404, 405, 409]) {
      const service = await scriptedService({ status }, emptyPage);
      const error = await testClient(serviceOptions(service.baseUrl)).failure(indexesPageOperation({}));
      expect([error.status, error.kind === 'retryable', service.received.length]).toEqual([status, false, 1]);
    }
  },
  '7.2.2': async (setting) => {
    for (const status of [500, 502, 503, 504]) {
      await setting.profile.control('faults', { kind: 'status', status, count: 2 });
      const { send, meter } = setting.client();
      expect(await send(indexesPageOperation({}))).toHaveProperty('data');
      expect(meter).toMatchObject({ requests: 3, retries: 2 });
    }
    const away = await scriptedService({ status: 503 });
    const retry = { patienceMs: 60_000, maxDelayMs: 1000 };
    const error = await testClient(serviceOptions(away.baseUrl, { retry })).failure(indexesPageOperation({}));
    expect(error).toMatchObject({ code: 'service_unavailable', kind: 'retryable' });
  },
  '7.rows.400.1': async (setting) => {
    const paths = ['/api/indexes?limit=x', `${await setting.members()}?filter[none]=1`, '/api/indexes?next_token=x'];
    for (const path of paths) expect([path, (await setting.profile.get(path)).status]).toEqual([path, 400]);
  },
  '7.rows.400.2': async ({ realtime }) => {
    expect((await realtime.post('/prof/lookup/col-1/keychain', { keys: {} })).status).toBe(400);
    expect((await realtime.get('/prof/lookup/col-1/keychain?_enrich=true')).status).toBe(400);
  },
  '7.rows.404.1': async ({ profile }) => {
    for (const path of ['', '/profiles', '/profiles/p-1']) {
      expect((await profile.get(`/api/indexes/idx-none${path}`)).status).toBe(404);
    }
  },
  '7.rows.404.2': async ({ realtime }) => {
    const keys = { email: 'absent@example.org' };
    expect((await realtime.post('/prof/lookup/col-1/keychain', { keys })).status).toBe(404);
    expect((await realtime.get('/prof/lookup/col-1/keychain?email=absent@example.org')).status).toBe(404);
  },
  '7.rows.429': async () => {
    // The clock does not move, so that all requests fall into one second.
    const own = await Setting.own({ rateLimits: { profile: 3 }, clock: new JumpingClock() });
    const responses = await Promise.all(Array.from({ length: 20 }, () => own.profile.get('/api/indexes')));
    const refused = responses.filter(({ status }) => status === 429);
    expect([refused.length, responses.filter(({ status }) => status === 200).length]).toEqual([17, 3]);
    expect(refused[0]?.body).toMatchObject({ status: 429, message: 'too many requests' });
  },
};

import { expect } from 'vitest';
import { lookupProfileOperation } from '../../../src/api/realtime-api.js';
import { operations } from '../../../src/local-service/operations/table.js';
import { type Checks, Setting } from './setting.js';

const week = () => {
  const now = Date.now();
  return `created_from=${new Date(now - 6 * 86_400_000).toISOString()}&created_to=${new Date(now).toISOString()}`;
};

/** Purpose of the service. */
export const section1: Checks = {
  '1.text.1': async ({ profile }) => {
    const guarded = operations.filter(({ guard }) => guard !== undefined);
    for (const { method, path } of guarded) {
      const { status } = await profile.send(method, path.replace(/\{[^}]*\}/g, 'any'), { authorization: undefined });
      expect([path, status]).toEqual([path, 401]);
    }
    expect(guarded).toHaveLength(operations.length - 1);
  },
  '1.text.2': async (setting) => {
    const token = await (await setting.key({ tenant: 'another' })).issue();
    expect((await setting.callerOf(token, 'another').get('/api/indexes')).status).toBe(200);
    expect((await setting.callerOf(token, 'acme').get('/api/indexes')).status).toBe(401);
    expect((await setting.callerOf(setting.service.token, 'another').get('/api/indexes')).status).toBe(401);
  },
  '1.rows.Management API': async ({ management, drafts }) => {
    const kinds = ['audit-events', 'campaigns', `ingest/jobs?${week()}`, 'segments', 'workflow/runs'];
    for (const kind of kinds) expect((await management.read(`/api/${kind}`)).data.length).toBeGreaterThan(0);
    expect((await drafts.read('/api/campaign-drafts')).data.length).toBeGreaterThan(0);
  },
  '1.rows.Profile API': async ({ profile }) => {
    const [index] = (await profile.read('/api/indexes')).data;
    expect((await profile.get(`/api/indexes/${index?.id}`)).body.id).toBe(index?.id);
    const gold = await profile.read(`/api/indexes/${index?.id}/profiles?filter[tier]=gold`);
    expect(new Set(gold.data.map(({ attributes }) => attributes.tier))).toEqual(new Set(['gold']));
  },
  '1.rows.Real-time API': async ({ realtime, ada }) => {
    expect(realtime.headers).not.toHaveProperty('api-version');
    await realtime.event({ keys: ada, attributes: { seen: 'yes' } });
    const { profile_id: id, attributes } = await realtime.lookup(ada);
    expect(attributes.seen).toBe('yes');
    expect(await realtime.segmentsOf(id)).toContain('seg-gold');
    expect(await realtime.total()).toBeGreaterThan(0);
  },
  '1.text.3': async ({ realtime, ada }) => {
    for (let page = 1; page <= 20; page += 1) {
      await realtime.event({ keys: ada, attributes: { page } });
      expect((await realtime.lookup(ada)).attributes.page).toBe(String(page));
    }
  },
  '1.text.4': async () => {
    const setting = await Setting.own();
    const { realtime, ada } = setting;
    const statuses = async () => [
      (await realtime.post('/prof/events/evs-1', { keys: ada })).status,
      (await realtime.post('/prof/lookup/col-1/keychain', { keys: ada })).status,
      (await realtime.get('/prof/segments/seg-gold/profiles')).status,
      (await realtime.get('/prof/collections/col-1/stats')).status,
    ];
    expect(await statuses()).toEqual([202, 200, 200, 200]);
    await realtime.control('realtime', { enabled: false });
    expect(await statuses()).toEqual([404, 404, 404, 404]);
    expect((await setting.profile.get('/api/indexes')).status).toBe(200);
    const refused = await setting.client().failure(lookupProfileOperation('col-1', { keys: ada }));
    expect(refused.hint).toMatch(/real-time features .* operator/);
  },
};

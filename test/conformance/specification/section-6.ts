import { expect } from 'vitest';
import { sendEventOperation } from '../../../src/api/realtime-api.js';
import type { Checks } from './setting.js';

/** Events. */
export const section6: Checks = {
  '6.1.1': async (setting) => {
    const { realtime } = setting;
    const keys = { email: 'stream@example.org' };
    expect(await setting.client().send(sendEventOperation('evs-2', { keys }))).toBeNull();
    expect((await realtime.lookup(keys, 'col-2')).collection_id).toBe('col-2');
    expect((await realtime.post('/prof/lookup/col-1/keychain', { keys })).status).toBe(404);
    const none = await setting.client().failure(sendEventOperation('evs-none', { keys }));
    expect(none).toMatchObject({ code: 'not_found' });
  },
  '6.1.2': async ({ realtime }) => {
    const keys = { email: 'new@example.org' };
    expect((await realtime.post('/prof/lookup/col-1/keychain', { keys })).status).toBe(404);
    const before = await realtime.total();
    await realtime.event({ keys, attributes: { city: 'Ulm' } });
    await realtime.event({ keys, attributes: { tier: 'gold' } });
    const { attributes, profile_id: id } = await realtime.lookup(keys);
    expect([attributes, await realtime.total()]).toEqual([{ city: 'Ulm', tier: 'gold' }, before + 1]);
    expect(await realtime.segmentsOf(id)).toEqual(['seg-gold']);
  },
  '6.1.3': async ({ realtime }) => {
    const keys = { email: 'kinds@example.org' };
    await realtime.event({ event_type: 'page_view', keys });
    await realtime.event({ event_type: 'purchase', keys, amount: 12.5 });
    await realtime.event({ event_type: 'loyalty', keys, points: 30 });
    const { attributes } = await realtime.lookup(keys);
    expect(attributes).toMatchObject({ page_views: '1', purchases: '1', total_spent: '12.5', points: '30' });
  },
};

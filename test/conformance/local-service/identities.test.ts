import { afterAll, expect, it } from 'vitest';
import { startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';
import { RealtimeCaller } from './realtime-caller.js';

const started: Caller[] = [];
afterAll(() => Promise.all(started.map(({ service }) => service.close())));

async function start(options: Parameters<typeof startLocalService>[0]): Promise<Caller> {
  const caller = new Caller(await startLocalService(options));
  started.push(caller);
  return caller;
}

interface Pair {
  readonly from: string;
  readonly into: string;
}
interface Changed {
  readonly merges: readonly Pair[];
  readonly splits: readonly Pair[];
}
type Contacts = ReadonlyMap<string, { readonly email: unknown; readonly phone: unknown }>;

async function contacts(caller: Caller, index = 'loyalty_members'): Promise<Contacts> {
  const records = await caller.records(`/api/indexes/${await caller.indexId(index)}/profiles?limit=1000`);
  return new Map(records.map(({ id, attributes: { email, phone } }) => [id, { email, phone }]));
}

const day = async (caller: Caller) => (await caller.control('change', { days: 1 })).body as unknown as Changed;
const pairOf = ({ from, into }: Pair) => `${from}>${into}`;

it('a day merges and splits profiles as it says: the e-mail and phone go from one id to the other, and to no third one', async () => {
  const caller = await start({ profiles: 20_000, seed: 4 });
  let before = await contacts(caller);
  for (let passed = 0; passed < 4; passed += 1) {
    const { merges, splits } = await day(caller);
    expect([merges.length, splits.length]).toEqual([5, 5]);
    const after = await contacts(caller);
    const holders = new Map([...after].map(([id, { email }]) => [email, id]));
    expect(holders.size).toBe(after.size);
    expect(new Set([...after.values()].map(({ phone }) => phone)).size).toBe(after.size);
    const moved = [...before].flatMap(([from, { email }]) => {
      const into = holders.get(email);
      return into === undefined || into === from ? [] : [{ from, into }];
    });
    expect(moved.map(pairOf).sort()).toEqual([...merges, ...splits].map(pairOf).sort());
    for (const { from, into } of moved) expect(after.get(into)).toEqual(before.get(from));
    for (const { from, into } of merges) expect([after.has(from), before.has(into)]).toEqual([false, true]);
    for (const { from, into } of splits) expect([after.has(from), before.has(into)]).toEqual([true, false]);
    before = after;
  }
});

it('every index and the real-time profile show the same e-mail and phone, by which a lookup finds the profile', async () => {
  const caller = await start({ profiles: 3000 });
  const { merges, splits } = (await caller.control('change', { days: 3, updated: 0.2, deleted: 0.05 }))
    .body as unknown as Changed;
  const members = await contacts(caller);
  const realtime = new RealtimeCaller(caller.service);
  const visitors = await contacts(caller, 'store_visitors');
  expect([...visitors].every(([id, { phone }]) => members.get(id)?.phone === phone)).toBe(true);
  let checked = 0;
  for (const { from, into } of [...merges, ...splits]) {
    for (const id of [from, into]) {
      const { email, phone } = members.get(id) ?? {};
      const { status, body } = await realtime.get(`/prof/profiles/col-1/${id}`);
      if (status === 404) continue;
      expect([body.links.email[0], body.links.phone]).toEqual([email, [phone]]);
      expect(await realtime.lookup({ email: String(email), phone: String(phone) })).toEqual(body);
      checked += 1;
    }
  }
  expect(checked).toBeGreaterThan(3);
});

it('a day without an update merges and splits no profile', async () => {
  const caller = await start({ profiles: 1000 });
  const { merges, splits } = (await caller.control('change', { updated: 0, deleted: 0.2 })).body as unknown as Changed;
  expect([merges, splits]).toEqual([[], []]);
});

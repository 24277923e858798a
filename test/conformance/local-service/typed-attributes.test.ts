import { expect, it, onTestFinished } from 'vitest';
import { startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';
import { RealtimeCaller } from './realtime-caller.js';

const kinds = (values: readonly unknown[]) =>
  new Set(values.map((value) => (Array.isArray(value) ? 'list' : value === null ? 'null' : typeof value)));

async function start(attributes: 'text' | 'typed') {
  const service = await startLocalService({ profiles: 2000, attributes });
  onTestFinished(() => service.close());
  const caller = new Caller(service);
  const path = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles`;
  return { caller, path, realtime: new RealtimeCaller(service), members: await caller.records(`${path}?limit=1000`) };
}

it('attributes are text, and with `typed` the same values have the types of their JSON', async () => {
  const [text, typed] = [await start('text'), await start('typed')];
  expect(kinds(text.members.flatMap(({ attributes }) => Object.values(attributes)))).toEqual(new Set(['string']));
  expect(kinds(typed.members.flatMap(({ attributes }) => Object.values(attributes)))).toEqual(
    new Set(['string', 'number', 'boolean', 'object', 'list', 'null']),
  );
  const shown = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
  for (const [at, { id, attributes }] of typed.members.entries()) {
    const present = Object.entries(attributes).filter(([, value]) => value !== null);
    const wanted = Object.fromEntries(present.map(([name, value]) => [name, shown(value)]));
    expect(text.members[at]).toMatchObject({ id, attributes: wanted });
    expect(Object.keys(text.members[at]?.attributes ?? {})).toEqual(Object.keys(wanted));
  }
});

it('a filter matches the text of a value in both forms', async () => {
  for (const form of ['text', 'typed'] as const) {
    const { caller, path, members } = await start(form);
    const found = await caller.records(`${path}?filter[is_active]=false&limit=1000`);
    expect(found).toEqual(members.filter(({ attributes }) => String(attributes.is_active) === 'false'));
    expect(found.length).toBeGreaterThan(100);
  }
});

it('the same holds for real-time profiles, and for what events set in them', async () => {
  const keys = { email: 'typed@example.org' };
  const attributes = { odd: { er: true }, list: [1], flag: false, nothing: null };
  for (const [form, wanted] of [
    ['text', { odd: '{"er":true}', list: '[1]', flag: 'false' }],
    ['typed', attributes],
  ] as const) {
    const { realtime } = await start(form);
    await realtime.event({ keys, attributes });
    expect((await realtime.lookup(keys)).attributes).toEqual(wanted);
  }
});

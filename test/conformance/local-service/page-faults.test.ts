import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller, type Envelope } from './caller.js';

let service: LocalService;
let caller: Caller;
let members: string;
let all: Envelope['data'];
beforeAll(async () => {
  service = await startLocalService({ profiles: 100 });
  caller = new Caller(service);
  members = `/api/indexes/${await caller.indexId('loyalty_members')}/profiles`;
  all = await caller.records(`${members}?limit=1000`);
});
afterAll(() => service.close());
afterEach(() => caller.clearFaults());

const set = (fault: Record<string, unknown>) => caller.control('faults', fault);
const ids = (records: Envelope['data']) => records.map(({ id }) => id);

describe('faults of pages', () => {
  const list = () => `${members}?limit=20`;

  it('repeat_token gives the same token again', async () => {
    const { next_token: first } = await caller.read(list());
    await set({ kind: 'repeat_token' });
    const { next_token: second } = await caller.read(`${list()}&next_token=${first}`);
    expect(second).toBe(first);
  });

  it('loop points to the first page, with the same tokens or fresh ones', async () => {
    await set({ kind: 'loop', after: 2 });
    const looped = await caller.pages(list(), 5);
    expect(ids(looped[3]?.data ?? [])).toEqual(ids(all.slice(0, 20)));
    expect(looped[3]?.next_token).toBe(looped[4]?.next_token);
    await caller.clearFaults();
    await set({ kind: 'loop', after: 2, fresh: true });
    const fresh = (await caller.pages(list(), 8)).map(({ next_token: token }) => token);
    expect(new Set(fresh).size).toBe(8);
  });

  it('dead_token refuses a token, but not the list', async () => {
    const { next_token: token } = await caller.read(list());
    await set({ kind: 'dead_token', count: 1 });
    expect((await caller.get(`${list()}&next_token=${token}`)).status).toBe(400);
    expect((await caller.get(`${list()}&next_token=${token}`)).status).toBe(200);
    await set({ kind: 'dead_token', token });
    expect((await caller.get(list())).status).toBe(200);
    expect((await caller.get(`${list()}&next_token=${token}`)).status).toBe(400);
  });

  it('dead_token can refuse all tokens issued before', async () => {
    const { next_token: old } = await caller.read(list());
    await set({ kind: 'dead_token', issued_before_now: true });
    expect((await caller.get(`${list()}&next_token=${old}`)).status).toBe(400);
    const { next_token: fresh } = await caller.read(list());
    expect((await caller.get(`${list()}&next_token=${fresh}`)).status).toBe(200);
  });

  it('duplicate repeats the last record of a page on the next one', async () => {
    await set({ kind: 'duplicate', count: 1 });
    const found = ids(await caller.records(list()));
    expect(found.length).toBe(101);
    expect(found[20]).toBe(found[19]);
    expect(new Set(found).size).toBe(100);
  });

  it('empty_pages puts pages without records before each page, and nothing is lost', async () => {
    await set({ kind: 'empty_pages', pages: 2 });
    const pages = await caller.pages(list());
    expect(pages.map(({ data }) => data.length)).toEqual([0, 0, 20, 0, 0, 20, 0, 0, 20, 0, 0, 20, 0, 0, 20]);
    expect(pages.flatMap(({ data }) => data)).toEqual(all);
  });

  it('small_pages gives fewer records than requested, and nothing is lost', async () => {
    await set({ kind: 'small_pages' });
    const pages = await caller.pages(list());
    expect(pages.every(({ data }) => data.length === 10)).toBe(true);
    expect(pages.flatMap(({ data }) => data)).toEqual(all);
  });

  it('ignore_filter ignores every filter, known or not', async () => {
    await set({ kind: 'ignore_filter' });
    expect(await caller.records(`${members}?filter[nickname]=x&limit=30`)).toEqual(all);
    expect(await caller.records(`${members}?filter[tier]=gold&limit=30`)).toEqual(all);
  });

  it('attributes_array wraps attributes in a list', async () => {
    await set({ kind: 'attributes_array' });
    const { data } = await caller.read(list());
    expect(data[0]?.attributes).toEqual([all[0]?.attributes]);
    // Its records are indexes, which have no attributes.
    const indexes = await caller.read('/api/indexes');
    expect(Object.keys(indexes.data[0] ?? {})).not.toContain('attributes');
  });

  it('garbage_record replaces a record by any text', async () => {
    await set({ kind: 'garbage_record', record: '{"no":"id"}', at: 1 });
    const { data } = await caller.read(list());
    expect(data[1]).toEqual({ no: 'id' });
    expect(data[2]).toEqual(all[2]);
  });

  it('wrong_total sends a wrong total, by difference or as given', async () => {
    await set({ kind: 'wrong_total', delta: -3, count: 1 });
    expect((await caller.read(`${list()}&with_total=true`)).total).toBe(97);
    await set({ kind: 'wrong_total', total: 5 });
    expect((await caller.read(`${list()}&with_total=true`)).total).toBe(5);
    expect(await caller.read(list())).not.toHaveProperty('total');
  });

  it('empty returns a list without records', async () => {
    await set({ kind: 'empty' });
    expect(await caller.read(`${list()}&with_total=true`)).toEqual({ data: [], total: 0 });
  });

  it('end_form ends the list in another form', async () => {
    await set({ kind: 'end_form', form: 'null' });
    expect((await caller.pages(list())).at(-1)?.next_token).toBeNull();
  });
});

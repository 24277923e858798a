import pLimit from 'p-limit';
import { expect, it } from 'vitest';
import { getRealtimeProfileOperation, profileSegmentsPageOperation } from '../../../src/api/realtime-api.js';
import { KeyedFetcher } from '../../../src/extract/keyed-fetcher.js';
import type { KeyedRequest } from '../../../src/sources/source.js';
import { type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

async function fetcherOf(reply: Reply, requests: readonly KeyedRequest[], atOnce = 1) {
  const service = await scriptedService(reply);
  const { client, abort, clock, meter } = testClient(serviceOptions(service.baseUrl));
  const context = { client, meter, signal: abort.signal, clock, pageSize: { limit: 10 } };
  return { service, fetcher: new KeyedFetcher(context, requests, { mayMiss: true, limit: pLimit(atOnce) }) };
}

const segmentsOfOne: KeyedRequest = {
  operation: ({ token, limit }) => profileSegmentsPageOperation('col-1', 'p-1', { nextToken: token, limit }),
  returns: 'page',
  added: { profile_id: 'p-1' },
};

it('A key whose pages never end, each with a new token, fails', async () => {
  const endless: Reply = (response, { url }) => {
    const next_token = String(Number(url.searchParams.get('next_token') ?? 0) + 1);
    response.end(JSON.stringify({ data: [{ id: 'seg-1' }], next_token }));
  };
  const { fetcher, service } = await fetcherOf(endless, [segmentsOfOne]);
  await expect(fetcher.fetch(null)).rejects.toMatchObject({ code: 'page_loop' });
  expect(service.received).toHaveLength(1000);
});

it.each([1, 3, 40])(
  'Large records come in several pages, each record once, with %i requests at once',
  async (atOnce) => {
    const keys = Array.from({ length: 30 }, (_, number) => `p-${number}`);
    const reply: Reply = (response, { url }) => {
      const id = url.pathname.split('/').at(-1) as string;
      response.statusCode = id === 'p-7' || id === 'p-29' ? 404 : 200;
      response.end(JSON.stringify({ id, text: 'x'.repeat(1_000_000) }));
    };
    const operationOf = (key: string) => () => getRealtimeProfileOperation('col-1', key);
    const requests = keys.map((key) => ({ operation: operationOf(key), returns: 'record' as const, added: {} }));
    const { fetcher, service } = await fetcherOf(reply, requests, atOnce);
    const ids: string[] = [];
    let missing = 0;
    let pages = 0;
    let token: string | null = null;
    do {
      const page = await fetcher.fetch(token);
      expect(page.body.length).toBeLessThan((8 + atOnce) * 1_001_000);
      ids.push(...(JSON.parse(`[${page.body}]`) as { id: string }[]).map(({ id }) => id));
      missing += page.missing;
      pages += 1;
      token = page.nextToken;
    } while (token !== null);
    expect(ids).toEqual(keys.filter((key) => key !== 'p-7' && key !== 'p-29'));
    expect(missing).toBe(2);
    expect(pages).toBe(atOnce === 40 ? 1 : Math.ceil(28 / (7 + atOnce)));
    expect(service.received).toHaveLength(30);
  },
);

it.each([400, 404, 409, 410, 413, 422])(
  'A page token of a key that is refused with %i is not a missing key: its pages are read again',
  async (status) => {
    let refusals = 1;
    const reply: Reply = (response, { url }) => {
      const token = url.searchParams.get('next_token');
      const isRefused = token !== null && refusals-- > 0;
      response.statusCode = isRefused ? status : 200;
      const page = { data: [{ segment_id: token ?? 'first' }], next_token: token === null ? 'second' : '' };
      response.end(JSON.stringify(isRefused ? { status, message: 'no' } : page));
    };
    const { fetcher, service } = await fetcherOf(reply, [segmentsOfOne]);
    const { body, missing } = await fetcher.fetch(null);
    expect(missing).toBe(0);
    expect(JSON.parse(`[${body}]`)).toEqual([
      { profile_id: 'p-1', segment_id: 'first' },
      { profile_id: 'p-1', segment_id: 'second' },
    ]);
    expect(service.received).toHaveLength(4);
    refusals = 100;
    await expect(fetcher.fetch(null)).rejects.toMatchObject({ code: 'dead_token' });
  },
);

function getsOf(keys: readonly string[]): KeyedRequest[] {
  return keys.map((key) => ({
    key,
    operation: () => getRealtimeProfileOperation('col-1', key),
    returns: 'record',
    added: {},
  }));
}

/** Refuses the ids that begin with "bad". */
const refusing =
  (status: number): Reply =>
  (response, { url }) => {
    const id = url.pathname.split('/').at(-1) as string;
    response.statusCode = id.startsWith('bad') ? status : 200;
    response.end(JSON.stringify({ id, message: 'this id is not valid' }));
  };

it.each([400, 410, 413, 414, 422, 431])(
  'An id that the service refuses with %i is a reject, and the others are read',
  async (status) => {
    const { fetcher, service } = await fetcherOf(refusing(status), getsOf(['p-1', 'bad-2', 'p-3', '..', 'bad-5']));
    const page = await fetcher.fetch(null);
    expect((JSON.parse(`[${page.body}]`) as { id: string }[]).map(({ id }) => id)).toEqual(['p-1', 'p-3']);
    expect(page.refusedKeys).toEqual([
      { key: 'bad-2', reason: 'id_refused' },
      { key: '..', reason: 'id_not_in_url' },
      { key: 'bad-5', reason: 'id_refused' },
    ]);
    expect(page.missing).toBe(0);
    expect(service.received).toHaveLength(4);
  },
);

it('A service that refuses every id fails the stream', async () => {
  const { fetcher } = await fetcherOf(refusing(400), getsOf(['bad-1', 'bad-2']));
  await expect(fetcher.fetch(null)).rejects.toMatchObject({ code: 'bad_request', status: 400 });
});

it.each([401, 403, 409])('A refusal with %i is about no id', async (status) => {
  const { fetcher } = await fetcherOf(refusing(status), getsOf(['p-1', 'bad-2']));
  await expect(fetcher.fetch(null)).rejects.toMatchObject({ status });
});

it('A key with fewer records than its total fails, if they do not come when it is asked again', async () => {
  let missing = 1;
  const reply: Reply = (response) => {
    const items = [{ segment_id: 's-1' }, ...(missing-- > 0 ? [] : [{ segment_id: 's-2' }])];
    response.end(JSON.stringify({ data: items, total: 2 }));
  };
  const { fetcher, service } = await fetcherOf(reply, [segmentsOfOne]);
  expect(JSON.parse(`[${(await fetcher.fetch(null)).body}]`)).toHaveLength(2);
  expect(service.received).toHaveLength(2);
  missing = 100;
  await expect(fetcher.fetch(null)).rejects.toMatchObject({
    code: 'total_mismatch',
    message: "one id has 2 records by the service's own total, but only 1 came, in 3 readings",
  });
});

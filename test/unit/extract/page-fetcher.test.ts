import { expect, it } from 'vitest';
import { profilesPageOperation } from '../../../src/api/profile-api.js';
import { collectionHistoryOperation } from '../../../src/api/realtime-api.js';
import { ResponseBody } from '../../../src/api/response-body.js';
import { fetchSinglePage, ListFetcher, onlyPage, singlePageFetcher } from '../../../src/extract/page-fetcher.js';
import { scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

/** A fetcher of pages of 400 records, with memory for bodies of 1 MB; each record has `bytes`. */
async function fetcher(bytes: number) {
  const service = await scriptedService((response, { url }) => {
    const limit = Number(url.searchParams.get('limit'));
    const data = Array.from({ length: limit }, () => ({ id: 'x'.repeat(bytes) }));
    response.end(JSON.stringify({ data, next_token: 'b' }));
  });
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl), { bodyBytes: 1_000_000 });
  const pageSize = { limit: 400 };
  const fetching = new ListFetcher(
    { client, meter, signal: abort.signal, clock, pageSize },
    ({ token, limit }) => profilesPageOperation({ indexId: 'i', nextToken: token, limit }),
    { added: {}, takesLimit: true },
  );
  const limits = () => service.received.map(({ url }) => url.searchParams.get('limit'));
  return { fetching, pageSize, limits };
}

it('A page that is too large for the memory is asked for again with half as many records, also in the middle of a list', async () => {
  const { fetching, pageSize, limits } = await fetcher(6_000);
  (await fetching.fetch('a')).response?.dispose();
  expect(limits()).toEqual(['400', '200', '100', '50', '25']);
  expect(pageSize.limit).toBe(25);
  (await fetching.fetch('b')).response?.dispose();
  expect(limits()).toHaveLength(6);
});

it('So is one that the memory holds, and whose conversion it would not hold', async () => {
  const { fetching, pageSize, limits } = await fetcher(2_000);
  (await fetching.fetch('a')).response?.dispose();
  expect(limits()).toEqual(['400', '200', '100']);
  expect(pageSize.limit).toBe(100);
});

it('A page that is too large even with few records ends with an error', async () => {
  const { fetching, limits } = await fetcher(100_000);
  await expect(fetching.fetch(null)).rejects.toMatchObject({ code: 'response_too_large' });
  expect(limits()).toEqual(['400', '200', '100', '50', '25']);
});

it.each([400, 404, 413, 414, 416, 422])('A page size that is refused with %i is halved', async (status) => {
  const service = await scriptedService((response, { url }) => {
    response.statusCode = Number(url.searchParams.get('limit')) > 100 ? status : 200;
    response.end('{"data":[],"next_token":""}');
  });
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl));
  const pageSize = { limit: 400 };
  const fetching = new ListFetcher(
    { client, meter, signal: abort.signal, clock, pageSize },
    ({ token, limit }) => profilesPageOperation({ indexId: 'i', nextToken: token, limit }),
    { added: {}, takesLimit: true },
  );
  (await fetching.fetch(null)).response?.dispose();
  expect(pageSize.limit).toBe(100);
});

it('A list that does not exist is asked for once more, with the smallest page', async () => {
  const service = await scriptedService({ status: 404 });
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl));
  const fetching = new ListFetcher(
    { client, meter, signal: abort.signal, clock, pageSize: { limit: 400 } },
    ({ token, limit }) => profilesPageOperation({ indexId: 'i', nextToken: token, limit }),
    { added: {}, takesLimit: true },
  );
  await expect(fetching.fetch(null)).rejects.toMatchObject({ status: 404 });
  expect(service.received).toHaveLength(2);
  await expect(fetching.fetch(null)).rejects.toMatchObject({ status: 404 });
  expect(service.received).toHaveLength(3);
});

it('A list in one page is never taken from a second response that is only a part of it', async () => {
  let released = 0;
  const response = new ResponseBody(Buffer.from('{}'), () => {
    released += 1;
  });
  const page = { ...onlyPage, body: response.bytes, start: 0, end: 2, issuedAt: '', response };
  const part = { page, isWhole: false };
  const fetching = singlePageFetcher({ page, isWhole: true }, async () => part);
  expect(await fetching.fetch(null)).toBe(page);
  await expect(fetching.fetch(null)).rejects.toMatchObject({ code: 'malformed_response' });
  expect(released).toBe(1);
  const whole = singlePageFetcher(part, async () => ({ page: { ...page, total: 1 }, isWhole: true }));
  await whole.fetch(null);
  expect(await whole.fetch(null)).toMatchObject({ total: 1 });
});

it.each([
  ['another scale', '{"scale":"hour","data":[{"bucket":1}]}', 'hour'],
  ['another scale, after the records', '{"data":[{"bucket":1}],"scale":"minute"}', 'minute'],
  ['no scale', '{"data":[{"bucket":1}]}', 'day'],
  ['no text as scale', '{"scale":[1],"data":[{"bucket":1}]}', 'day'],
])('Buckets have the scale that the service states: %s', async (_, body, scale) => {
  const service = await scriptedService((response) => response.end(body));
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl));
  const fetching = new ListFetcher(
    { client, meter, signal: abort.signal, clock, pageSize: { limit: 400 } },
    () => collectionHistoryOperation('col-1', { scale: 'day', after: undefined }),
    { added: { collection: 'col-1', scale: 'day' }, takesLimit: false },
  );
  const page = await fetching.fetch(null);
  expect(JSON.parse(page.body.toString('utf8', page.start, page.end))).toEqual({
    collection: 'col-1',
    scale,
    bucket: 1,
  });
  page.response?.dispose();
});

it.each([
  [3, 3, true],
  [3, null, true],
  [4, null, false],
  [2, null, true],
  [2, 't', false],
  [0, 't', false],
  [undefined, null, true],
  [undefined, 't', false],
  ['3', 't', false],
])('Three members with a total of %j and the token %j are the whole list: %j', async (total, token, isWhole) => {
  const data = ['a', 'b', 'c'].map((id) => ({ id }));
  const service = await scriptedService({ status: 200, body: { data, total, next_token: token === 3 ? 't' : token } });
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl));
  const context = { client, meter, signal: abort.signal, clock, pageSize: { limit: 9 } };
  const plain = () => profilesPageOperation({ indexId: 'i' });
  expect(await fetchSinglePage(context, { plain, added: {} })).toMatchObject({ isWhole });
});

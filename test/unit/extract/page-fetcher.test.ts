import { expect, it } from 'vitest';
import { profilesPageOperation } from '../../../src/client/profile-api.js';
import { ListFetcher } from '../../../src/extract/page-fetcher.js';
import { scriptedService, serviceOptions, testClient } from '../client/scripted-service.js';

/** A fetcher of pages of 400 records, with room for bodies of 1 MB; each record has `bytes`. */
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
  (await fetching.fetch('a')).release();
  expect(limits()).toEqual(['400', '200', '100']);
  expect(pageSize.limit).toBe(100);
  (await fetching.fetch('b')).release();
  expect(limits()).toHaveLength(4);
});

it('A page that is too large even with few records ends with an error', async () => {
  const { fetching, limits } = await fetcher(100_000);
  await expect(fetching.fetch(null)).rejects.toMatchObject({ code: 'response_too_large' });
  expect(limits()).toEqual(['400', '200', '100', '50', '25']);
});

import pLimit from 'p-limit';
import { expect, it } from 'vitest';
import { profileSegmentsPageOperation } from '../../../src/client/realtime-api.js';
import { KeyedFetcher } from '../../../src/extract/keyed-fetcher.js';
import { scriptedService, serviceOptions, testClient } from '../client/scripted-service.js';

it('A key whose pages never end, each with a new token, ends with an error', async () => {
  const service = await scriptedService((response, { url }) => {
    const next_token = String(Number(url.searchParams.get('next_token') ?? 0) + 1);
    response.end(JSON.stringify({ data: [{ id: 'seg-1' }], next_token }));
  });
  const { client, abort, clock, meter } = testClient(serviceOptions(service.baseUrl));
  const context = { client, meter, signal: abort.signal, clock, pageSize: { limit: 10 } };
  const request = {
    operation: (page: { token: string | null; limit: number }) =>
      profileSegmentsPageOperation('col-1', 'p-1', { nextToken: page.token, limit: page.limit }),
    answers: 'page' as const,
    added: { profile_id: 'p-1' },
  };
  const fetcher = new KeyedFetcher(context, [request], { mayMiss: true, limit: pLimit(1) });
  await expect(fetcher.fetch()).rejects.toMatchObject({ code: 'page_loop' });
  expect(service.received).toHaveLength(1000);
});

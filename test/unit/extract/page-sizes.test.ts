import pLimit from 'p-limit';
import { describe, expect, it } from 'vitest';
import { profilesPageOperation } from '../../../src/api/profile-api.js';
import { profileSegmentsPageOperation } from '../../../src/api/realtime-api.js';
import { Secret } from '../../../src/core/secret.js';
import type { ServiceOptions } from '../../../src/core/service-options.js';
import { KeyedFetcher } from '../../../src/extract/keyed-fetcher.js';
import { ListFetcher } from '../../../src/extract/page-fetcher.js';
import { type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

/** Takes pages of up to that many records, and refuses others with 400. */
const takes =
  (most: number, message = 'limit is too large'): Reply =>
  (response, { url }) => {
    const isTaken = Number(url.searchParams.get('limit')) <= most;
    response.statusCode = isTaken ? 200 : 400;
    response.end(JSON.stringify(isTaken ? { data: [{ segment_id: 's' }] } : { status: 400, message }));
  };

async function fetchers(reply: Reply, changes: Partial<ServiceOptions> = {}) {
  const service = await scriptedService(reply);
  const { client, meter, abort, clock } = testClient(serviceOptions(service.baseUrl, changes));
  const pageSize = { limit: 400 };
  const context = { client, meter, signal: abort.signal, clock, pageSize };
  const list = new ListFetcher(
    context,
    ({ token, limit }) => profilesPageOperation({ indexId: 'i', nextToken: token, limit }),
    { added: {}, takesLimit: true },
  );
  const request = {
    operation: ({ token, limit }: { token: string | null; limit: number }) =>
      profileSegmentsPageOperation('col-1', 'p-1', { nextToken: token, limit }),
    returns: 'page' as const,
    added: { profile_id: 'p-1' },
  };
  const keyed = new KeyedFetcher(context, [request], { mayMiss: true, limit: pLimit(1) });
  const limits = () => service.received.map(({ url }) => Number(url.searchParams.get('limit')));
  return { list, keyed, pageSize, limits, service };
}

describe.each(['list', 'keyed'] as const)('a refused first page of a %s', (kind) => {
  it('is halved until the service takes it, once the smallest has shown that its size is the reason', async () => {
    const found = await fetchers(takes(120));
    (await found[kind].fetch(null)).response?.dispose();
    expect(found.limits()).toEqual([400, 25, 200, 100]);
    expect(found.pageSize.limit).toBe(100);
  });

  it.each([500, 504])('is halved if the service fails over its size with %i', async (status) => {
    const found = await fetchers((response, { url }) => {
      response.statusCode = Number(url.searchParams.get('limit')) > 120 ? status : 200;
      response.end('{"data":[{"segment_id":"s"}]}');
    });
    (await found[kind].fetch(null)).response?.dispose();
    // The service is given another chance, because it may have failed over something else.
    expect(found.limits()).toEqual([400, 400, 400, 25, 400, 400, 400, 200, 200, 200, 100]);
    expect(found.pageSize.limit).toBe(100);
  });

  it('keeps its size if the service asks to wait', async () => {
    let failures = 4;
    const found = await fetchers((response) => {
      failures -= 1;
      response.writeHead(failures < 0 ? 200 : 500, { 'retry-after': '1' });
      response.end('{"data":[{"segment_id":"s"}]}');
    });
    (await found[kind].fetch(null)).response?.dispose();
    expect(found.limits()).toEqual([400, 400, 400, 400, 400]);
  });

  it('keeps its size over an outage', async () => {
    let failures = 5;
    const found = await fetchers((response) => {
      failures -= 1;
      response.statusCode = failures < 0 ? 200 : 500;
      response.end('{"data":[{"segment_id":"s"}]}');
    });
    (await found[kind].fetch(null)).response?.dispose();
    expect(found.limits()).toEqual([400, 400, 400, 25, 25, 25, 400]);
    (await found[kind].fetch(null)).response?.dispose();
    expect(found.pageSize.limit).toBe(400);
  });

  it('ends with the refusal after one more request if its size is not the reason', async () => {
    const found = await fetchers(takes(0, 'no such filter'));
    const fetched = found[kind].fetch(null);
    if (kind === 'list') await expect(fetched).rejects.toMatchObject({ code: 'bad_request' });
    else expect((await fetched).refusedKeys).toEqual([{ key: null, reason: 'id_refused' }]);
    expect(found.limits()).toEqual([400, 25]);
  });

  it('ends at once if the service speaks of the version', async () => {
    const found = await fetchers(takes(0, 'unsupported API version'));
    await expect(found[kind].fetch(null)).rejects.toMatchObject({
      code: 'bad_request',
      hint: expect.stringContaining('`api_versions`'),
    });
    expect(found.limits()).toEqual([400]);
  });

  it('is not one if the token exchange was refused: the secret is sent once', async () => {
    const auth = { type: 'client_credentials', clientId: 'c', clientSecret: new Secret('wrong-secret') } as const;
    const found = await fetchers({ status: 400, body: { error: 'invalid_client' } }, { auth });
    await expect(found[kind].fetch(null)).rejects.toMatchObject({ code: 'oauth_failed' });
    expect(found.service.received).toHaveLength(1);
  });
});

it('profiles are not missing because the token endpoint is', async () => {
  const auth = { type: 'client_credentials', clientId: 'c', clientSecret: new Secret('some-secret') } as const;
  const found = await fetchers({ status: 404 }, { auth });
  await expect(found.keyed.fetch(null)).rejects.toMatchObject({ code: 'oauth_failed' });
});

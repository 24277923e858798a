import { describe, expect, it } from 'vitest';
import { readAllIndexes, resolveIndex, type ServiceAsk } from '../../../src/sources/whole-list.js';
import { scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

/** A service with `perPage` indexes a page; `tokenAfter` gives the token for the page after a page, null at the end. */
async function indexes(perPage: number, tokenAfter: (page: number) => string | null): Promise<ServiceAsk> {
  const service = await scriptedService((response, { url }) => {
    const page = Number(url.searchParams.get('next_token') ?? 0);
    const data = Array.from({ length: perPage }, (_, index) => ({
      id: `idx-${page}-${index}`,
      name: `name ${page} ${index}`,
    }));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ data, next_token: tokenAfter(page) }));
  });
  const { client, abort } = testClient(serviceOptions(service.baseUrl));
  return { client, signal: abort.signal, meter: { requests: 0, retries: 0, throttled: 0, bytes: 0 } };
}

describe('The indexes of a tenant', () => {
  it('are read to their end, however many there are', async () => {
    const ask = await indexes(500, (page) => (page < 24 ? String(page + 1) : null));
    expect(await readAllIndexes(ask)).toHaveLength(12_500);
    expect(await resolveIndex(ask, 'name 24 499')).toBe('idx-24-499');
  });

  it('are named if no index has the requested name: the nearest, or the first ten', async () => {
    const ask = await indexes(12, () => null);
    const hint = (name: string) => resolveIndex(ask, name).then(String, (error: { hint?: string }) => error.hint);
    expect(await hint('nam 0 3')).toMatch(/^did you mean "name 0 3"/);
    expect(await hint('customers')).toMatch(/^it has "name 0 0", .*"name 0 9" and others: cdsync discover$/);
  });

  it('end with an error if the page tokens form a loop', async () => {
    const ask = await indexes(2, (page) => String((page + 1) % 3));
    await expect(resolveIndex(ask, 'name 0 1')).rejects.toMatchObject({ code: 'page_loop' });
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ServiceClient, ServiceError } from '../../../src/api/client.js';
import type { Operation } from '../../../src/api/request.js';
import { windowFetcher } from '../../../src/extract/window-fetcher.js';
import type { Window, WindowedSource } from '../../../src/sources/source.js';

const startMs = Date.parse('2026-01-01T00:00:00Z');
const hour: Window = { from: new Date(startMs).toISOString(), to: new Date(startMs + 3_600_000).toISOString() };

interface Reply {
  readonly ids: readonly string[];
  readonly token?: string | undefined;
}

/** Fetches the hour from a service that responds in this way; returns the ids, and how often it was asked. */
async function fetched(
  responseTo: (from: number, to: number, count: number) => Reply,
  { certainMs, nowMs = startMs }: { certainMs?: number; nowMs?: number } = {},
) {
  let requests = 0;
  const client = {
    async send(
      { query = [] }: Operation,
      decode: (body: Buffer, head: { status: number; headers: object }) => unknown,
    ) {
      expect(query.map(([name]) => name)).toEqual(['from', 'to']);
      const [from, to] = query.map(([, value]) => Date.parse(value)) as [number, number];
      requests += 1;
      const { ids, token } = responseTo(from, to, requests);
      const body = JSON.stringify({ data: ids.map((id) => ({ id })), next_token: token });
      return decode(Buffer.from(body), { status: 200, headers: {} });
    },
  } as unknown as ServiceClient;
  const source = {
    kind: 'windowed',
    takesLimit: false,
    key: ['id'],
    added: {},
    certainMs,
    page: ({ window }: { window: Window }) => ({
      query: [
        ['from', window.from],
        ['to', window.to],
      ],
    }),
  } as unknown as WindowedSource;
  const signal = new AbortController().signal;
  const clock = { now: () => nowMs, monotonic: () => 0 };
  const context = { client, clock, signal, meter: {}, pageSize: { limit: 100 } } as unknown as Parameters<
    typeof windowFetcher
  >[0];
  const { body, start, end, nextToken } = await windowFetcher(context, source, hour).fetch('an old token');
  expect(nextToken).toBeNull();
  const records = JSON.parse(`[${body.subarray(start, end)}]`) as { id: string }[];
  return { ids: records.map(({ id }) => id), requests };
}

describe('a window with one response', () => {
  it('takes one request if it has no token', async () => {
    expect(await fetched(() => ({ ids: ['a', 'b'] }))).toEqual({ ids: ['a', 'b'], requests: 1 });
  });

  it('takes three requests if it has a token that means nothing', async () => {
    const times = { a: startMs, b: startMs + 3_599_999 };
    const responseTo = (from: number, to: number, count: number) => ({
      ids: Object.entries(times).flatMap(([id, at]) => (at >= from && at < to ? [id] : [])),
      token: `t${count}`,
    });
    expect(await fetched(responseTo)).toEqual({ ids: ['a', 'b'], requests: 3 });
  });

  it('returns every record once if responses are cut off', async () => {
    const moments = fc.uniqueArray(fc.oneof(fc.nat(3599), fc.nat(99)), { maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(moments, fc.integer({ min: 25, max: 60 }), fc.boolean(), async (seconds, most, always) => {
        const { ids } = await fetched((from, to) => {
          const inside = seconds.filter((at) => startMs + at * 1000 >= from && startMs + at * 1000 < to);
          const token = always || inside.length > most ? 't' : undefined;
          return { ids: inside.slice(0, most).map(String), token };
        });
        expect(ids.sort()).toEqual(seconds.map(String).sort());
      }),
      { numRuns: 200 },
    );
  });

  it('keeps what only the whole response had', async () => {
    const responseTo = (from: number, to: number) =>
      to - from === 3_600_000 ? { ids: ['late'], token: 't' } : { ids: [`${from}`] };
    expect((await fetched(responseTo)).ids).toEqual(['late', `${startMs}`, `${startMs + 1_800_000}`]);
  });

  it.each([
    ['an hour before', 3_600_000, 0, []],
    ['a moment before', 1, 2, ['b']],
    ['half an hour before', 1_800_000, 2, ['b']],
  ])('is read from %s on the service remembers, if that refuses an older one', async (_, oldMs, most, ids) => {
    const certainMs = 7 * 86_400_000;
    const oldestMs = startMs + oldMs;
    const remembers = (from: number) => {
      if (from >= oldestMs) return { ids: ['b'] };
      throw new ServiceError('created_from is too long ago', { code: 'bad_request', status: 400 });
    };
    const found = await fetched(remembers, { certainMs, nowMs: oldestMs + certainMs });
    expect(found.ids).toEqual(ids);
    expect(found.requests).toBeLessThanOrEqual(Math.max(1, most));
    // The same refusal of a recent window has another reason.
    const refused = fetched(() => remembers(0), { certainMs, nowMs: startMs + 3_600_000 });
    await expect(refused).rejects.toMatchObject({ code: 'bad_request' });
  });

  it('ends with an error if ever new records come', async () => {
    await expect(fetched((_, __, count) => ({ ids: [`${count}`], token: `${count}` }))).rejects.toMatchObject({
      code: 'page_loop',
    });
  });
});

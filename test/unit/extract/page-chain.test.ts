import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/api/client.js';
import { ResponseBody } from '../../../src/api/response-body.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { PageChain, type PageSink, type ReadTask, readTaskSchema } from '../../../src/extract/page-chain.js';
import type { PageBytes } from '../../../src/extract/page-fetcher.js';
import { MalformedPageError } from '../../../src/extract/scan/scanned-page.js';
import { firstCursor, noCounters, type PartitionCursor } from '../../../src/storage/journal.js';

const whole: ReadTask = {
  partition: { kind: 'whole' },
  ordinal: 0,
  filter: [],
  pageSize: 10,
  distrustsTokens: false,
  start: firstCursor,
};

const reused = 0x23;

function page(nextToken: string | null, text = 'x'): PageBytes {
  const body = Buffer.from(text);
  const issuedAt = '2026-11-22T00:00:00.000Z';
  // Memory that may be reused gets other content at once.
  const response = new ResponseBody(body, (isReusable) => {
    if (isReusable) body.fill(reused);
  });
  return { body, start: 0, end: body.length, nextToken, total: null, issuedAt, missing: 0, response };
}

function refusal(status = 400): ServiceError {
  return new ServiceError('the token is not known', { code: 'bad_request', status });
}

/** Reads a task against pages by their tokens, and returns the cursors and restarts that the sink got, in order. */
async function read(
  task: ReadTask,
  pages: (token: string | null, fetch: number) => PageBytes | Error,
  taken: (page: PageBytes, index: number) => Partial<Awaited<ReturnType<PageSink['take']>>> | Error = () => ({}),
) {
  const asked: (string | null)[] = [];
  const log: (PartitionCursor | { restart: number })[] = [];
  let fetches = 0;
  let takes = 0;
  const meter = { ...noCounters };
  const chain = new PageChain(task, {
    meter,
    fetcher: {
      fetch: async (token) => {
        asked.push(token);
        const reply = pages(token, fetches++);
        if (reply instanceof Error) throw reply;
        return reply;
      },
    },
    sink: {
      take: async (page, cursor) => {
        expect(page.body.includes(reused)).toBe(false);
        const found = taken(page, takes++);
        if (found instanceof Error) throw found;
        log.push(cursor);
        return { records: 1, hasNew: true, ...found };
      },
      restart: async (attempt) => {
        log.push({ restart: attempt });
      },
    },
  });
  const error = await chain.read().then(
    () => undefined,
    (thrown) => thrown as { code?: string },
  );
  return { error, asked, log, meter };
}

describe('a task', () => {
  it('is plain JSON, whatever its partition, filter and cursor', () => {
    const text = fc.string({ unit: 'grapheme' });
    const partition = fc.oneof(
      fc.constantFrom({ kind: 'whole' as const }, { kind: 'again' as const }),
      fc.record({ kind: fc.constant('value' as const), value: text }),
      fc.record({ kind: fc.constant('window' as const), from: text, to: text }),
      fc.record({ kind: fc.constant('record' as const), key: text }),
      fc.record({ kind: fc.constant('keys' as const), chunk: fc.nat() }),
    );
    const start = fc.record({
      token: fc.option(text),
      issued_at: fc.option(text),
      pages: fc.nat(),
      attempt: fc.nat(),
      done: fc.boolean(),
    });
    const names = fc.oneof(text, fc.constantFrom('__proto__', '1', 'toString'));
    const tasks = fc.record({
      partition,
      ordinal: fc.nat(),
      filter: fc.array(fc.tuple(names, text)),
      pageSize: fc.nat(),
      distrustsTokens: fc.boolean(),
      start,
    });
    fc.assert(
      fc.property(tasks, (task) => {
        expect(readTaskSchema.parse(JSON.parse(JSON.stringify(task)))).toEqual(task);
      }),
    );
  });
});

describe('a chain of pages', () => {
  it('goes from its cursor to its last page, and gives each page the cursor after it', async () => {
    const start = { ...firstCursor, token: 'b', pages: 2 };
    const found = await read({ ...whole, start }, (token) => page(token === 'b' ? 'c' : null));
    expect(found.error).toBeUndefined();
    expect(found.asked).toEqual(['b', 'c']);
    expect(found.log).toMatchObject([
      { token: 'c', pages: 3, attempt: 1, done: false },
      { token: null, pages: 4, attempt: 1, done: true },
    ]);
  });

  it('starts again if only its token is refused, and gives up after the third attempt', async () => {
    const once = await read(whole, (token, fetch) =>
      token === 'b' && fetch === 1 ? refusal() : page(token === null ? 'b' : null),
    );
    expect(once.error).toBeUndefined();
    expect(once.log).toMatchObject([
      { pages: 1, attempt: 1 },
      { restart: 2 },
      { pages: 1, attempt: 2 },
      { pages: 2, attempt: 2, done: true },
    ]);
    const always = await read(whole, (token) => (token === 'b' ? refusal() : page('b')));
    expect(always.error).toMatchObject({
      code: 'dead_token',
      message: 'the service refused page tokens in 3 attempts, the last after 1 page',
    });
    expect(always.log.filter((each) => 'restart' in each)).toEqual([{ restart: 2 }, { restart: 3 }]);
  });

  it.each([404, 409, 410, 413, 422])('starts again if only its token is refused, with %i too', async (status) => {
    const found = await read(whole, (token, fetch) =>
      token === 'b' && fetch === 1 ? refusal(status) : page(token === null ? 'b' : null),
    );
    expect(found.error).toBeUndefined();
  });

  it('fails with the refusal itself if the list is refused too', async () => {
    const refused = refusal();
    const found = await read({ ...whole, start: { ...firstCursor, token: 'b', pages: 1 } }, () => refused);
    expect(found.error).toBe(refused);
  });

  it('notices tokens that run in a circle of any length, and a hundred pages without a new key', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 20 }), async (lead, length) => {
        const next = (token: string | null) => {
          const at = token === null ? 0 : Number(token) + 1;
          return page(String(at < lead + length ? at : lead));
        };
        const found = await read(whole, next);
        expect(found.error).toMatchObject({ code: 'page_loop' });
        expect(found.asked.length).toBeLessThan(4 * (lead + length) + 4);
      }),
    );
    const endless = (token: string | null) => page(String(Number(token ?? 0) + 1));
    const fruitless = await read(whole, endless, (_, index) => ({ hasNew: index < 5 }));
    expect(fruitless.error).toMatchObject({ code: 'page_loop' });
    expect(fruitless.log).toHaveLength(105);
    const empty = await read(
      whole,
      (token) => page(token === '150' ? null : String(Number(token ?? 0) + 1)),
      () => ({ records: 0, hasNew: false }),
    );
    expect(empty.error).toBeUndefined();
  });

  it('ends after a thousand empty pages in a row, however many runs read them', async () => {
    const endless = (token: string | null) => page(String(Number(token ?? 0) + 1));
    const nothing = () => ({ records: 0, hasNew: false });
    const found = await read(whole, endless, nothing);
    expect(found.error).toMatchObject({ code: 'page_loop', message: '1,000 pages in a row came without a record' });
    expect(found.log).toHaveLength(1000);
    let start = found.log[699] as PartitionCursor;
    const resumed = await read({ ...whole, start }, endless, nothing);
    expect(resumed.error).toMatchObject({ code: 'page_loop' });
    expect(resumed.log).toHaveLength(301);
    const broken = await read({ ...whole, start }, endless, (_, at) => (at === 0 ? {} : nothing()));
    expect(broken.error).toMatchObject({ code: 'page_loop' });
    expect(broken.log).toHaveLength(1001);
    start = found.log[998] as PartitionCursor;
    const last = await read({ ...whole, start }, () => page(null), nothing);
    expect(last.error).toBeUndefined();
  });

  it('ends at the first page without a new key if tokens are not trusted', async () => {
    const endless = (token: string | null) => page(String(Number(token ?? 0) + 1));
    const found = await read({ ...whole, distrustsTokens: true }, endless, (_, index) => ({ hasNew: index < 2 }));
    expect(found.error).toMatchObject({ code: 'page_loop' });
    expect(found.log).toHaveLength(3);
  });

  it.each([
    ['interrupted', 'interrupted'],
    ['service_unavailable', 'an outage'],
  ] as const)(
    'ends with %s if that stops the request that would show whether a token is dead',
    async (code, message) => {
      const refuses = (token: string | null, fetch: number) =>
        token === 'b' ? refusal() : fetch === 0 ? page('b') : new CdsyncError(message, { code });
      expect((await read(whole, refuses)).error).toMatchObject({ code });
      const refusesAll = (token: string | null, fetch: number) =>
        token === null && fetch === 0 ? page('b') : refusal();
      expect((await read(whole, refusesAll)).error).toMatchObject({ code: 'bad_request' });
    },
  );

  it('fetches a malformed page again, and continues with the token of the intact one', async () => {
    const found = await read(
      whole,
      (token, fetch) => page(token === null ? (fetch === 0 ? 'torn' : 'b') : null),
      (_, index) => (index === 0 ? new MalformedPageError('valid JSON') : {}),
    );
    expect(found.error).toBeUndefined();
    expect(found.log).toMatchObject([{ token: 'b' }, { token: null, done: true }]);
    expect(found.meter.retries).toBe(1);
    const never = await read(
      whole,
      () => page(null),
      () => new MalformedPageError('valid JSON'),
    );
    expect(never.error).toBeInstanceOf(MalformedPageError);
    expect(never.asked).toHaveLength(4);
  });

  it('fetches the first page again if that is malformed after a dead token', async () => {
    const { asked, error, log } = await read(
      { ...whole, start: { ...firstCursor, token: 'dead', pages: 2 } },
      (token) => (token === 'dead' ? refusal() : page(token === null ? 'b' : null)),
      (_, index) => (index === 0 ? new MalformedPageError('valid JSON') : {}),
    );
    expect(error).toBeUndefined();
    expect(asked).toEqual(['dead', null, 'b', null]);
    expect(log).toMatchObject([{ restart: 2 }, { token: 'b', pages: 1 }, { token: null, pages: 2, done: true }]);
  });

  it('reports the error in the envelope of a malformed page', async () => {
    const { error } = await read(
      whole,
      () => ({ ...page(null, '{"data":[],"errors":["out of order"],"next_token":null}'), start: 9, end: 34 }),
      () => new MalformedPageError('valid JSON in every record'),
    );
    expect(error).toMatchObject({ message: 'the page is malformed: expected a page, not an error' });
  });

  it('reads a page that needs the exact cut when it is fetched again', async () => {
    const found = await read(
      whole,
      (_, fetch) => (fetch === 0 ? page(null, 'torn') : { ...page(null, '{"data":[1],"x":[]}'), start: 9, end: 17 }),
      ({ body, end }) => (end === 10 && body.length === 19 ? {} : new MalformedPageError('valid JSON')),
    );
    expect(found.error).toBeUndefined();
    expect(found.asked).toHaveLength(2);
  });
});

describe('the bodies of pages', () => {
  /** Reads a task whose bodies are counted: those that arrived, and those that were given back. */
  async function bodies(
    pages: (token: string | null, fetch: number) => Promise<PageBytes> | PageBytes,
    take: (page: PageBytes, index: number) => void = () => undefined,
  ) {
    const counts = { arrived: 0, back: 0 };
    /** Bodies that were not given back, at each request. */
    const open: number[] = [];
    const [asked, took]: [(string | null)[], string[]] = [[], []];
    let fetches = 0;
    const chain = new PageChain(whole, {
      meter: { ...noCounters },
      fetcher: {
        fetch: async (token) => {
          asked.push(token);
          open.push(counts.arrived - counts.back);
          const { response: _, ...rest } = await pages(token, fetches++);
          counts.arrived += 1;
          const response = new ResponseBody(rest.body, () => {
            counts.back += 1;
          });
          return { ...rest, response };
        },
      },
      sink: {
        take: async (page) => {
          take(page, took.length);
          took.push(page.body.toString());
          return { records: 1, hasNew: true };
        },
        restart: async () => undefined,
      },
    });
    const error = await chain.read().then(
      () => undefined,
      (thrown) => thrown as Error,
    );
    return { counts, open, asked, took, error };
  }

  const three = (token: string | null) => page(token === null ? 'b' : token === 'b' ? 'c' : null, token ?? 'a');

  it('are given back after the last page', async () => {
    expect(await bodies(three)).toMatchObject({
      counts: { arrived: 3, back: 3 },
      took: ['a', 'b', 'c'],
      error: undefined,
    });
  });

  it('are given back if the sink fails, also that of the page that was fetched at the same time', async () => {
    const failing = bodies(three, (_, index) => {
      if (index === 1) throw new Error('the disk is full');
    });
    const { counts, error } = await failing;
    expect(error?.message).toBe('the disk is full');
    await expect.poll(() => counts).toEqual({ arrived: 3, back: 3 });
  });

  it('are given back if a page arrives after the end of the chain', async () => {
    let arrive = () => {};
    const late = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const { counts } = await bodies(
      async (token) => {
        if (token === 'b') await late;
        return three(token);
      },
      () => {
        throw new Error('the disk is full');
      },
    );
    expect(counts).toEqual({ arrived: 1, back: 1 });
    arrive();
    await expect.poll(() => counts).toEqual({ arrived: 2, back: 2 });
  });

  it('of a malformed page are given back, and its token is not followed', async () => {
    const pages = (token: string | null, fetch: number) => {
      if (token === null) return page(fetch === 0 ? 'old' : 'new', fetch === 0 ? 'torn' : 'a');
      return page(null, token);
    };
    const { counts, open, asked, took, error } = await bodies(pages, ({ body }) => {
      if (body.toString() === 'torn') throw new MalformedPageError('a whole page');
    });
    expect([asked, took, error]).toEqual([[null, 'old', null, 'new'], ['a', 'new'], undefined]);
    expect(counts).toEqual({ arrived: 4, back: 4 });
    // The page that followed its token has no memory any more when it is fetched again.
    expect(open.slice(0, 3)).toEqual([0, 1, 0]);
  });
});

import pLimit from 'p-limit';
import { describe, expect, it } from 'vitest';
import { type ServiceClient, ServiceError } from '../../../src/api/client.js';
import type { Operation } from '../../../src/api/request.js';
import { ResponseBody } from '../../../src/api/response-body.js';
import { type FetchContext, onlyPage } from '../../../src/extract/page-fetcher.js';
import { DetailedFetcher, RecordDetails, type StoredRecords } from '../../../src/extract/record-details.js';
import type { WindowedSource } from '../../../src/sources/source.js';

const none: StoredRecords = { skipped: new Set(), undetailed: new Set() };

/** A stream whose details come so; a number is the status of a refusal. */
function details(responseTo: (id: string, view: 'one' | 'details') => object | string | number, known = none) {
  const asked: string[] = [];
  const lines: string[] = [];
  const client = {
    async send({ label, path }: Operation, decode: (body: Buffer, head: object) => unknown) {
      asked.push(`${label} ${path}`);
      const reply = responseTo(path, label as 'one' | 'details');
      if (typeof reply === 'number')
        throw new ServiceError(`${label} got ${reply}`, { code: 'bad_request', status: reply });
      return decode(Buffer.from(typeof reply === 'string' ? reply : JSON.stringify(reply)), {});
    },
  } as unknown as ServiceClient;
  const operation = (label: string) => (path: string) => ({ label, path }) as Operation;
  const source = {
    kind: 'windowed',
    one: operation('one'),
    details: { overview: ['id', 'state'], one: operation('details') },
  } as unknown as WindowedSource;
  const clock = { now: () => 0, monotonic: () => 0 };
  const context = { client, clock, signal: new AbortController().signal, meter: {} } as unknown as FetchContext;
  const record = new RecordDetails({ source, known, limit: pLimit(1), notice: (line) => lines.push(line) });
  const rows = ({ body, start, end }: { body: Buffer; start: number; end: number }) =>
    JSON.parse(`[${body.subarray(start, end)}]`) as Record<string, unknown>[];
  return {
    asked,
    lines,
    /** How often the body of a page was released when its details failed. */
    releases: async () => {
      let count = 0;
      const body = Buffer.from('{"id":"a"}');
      const response = new ResponseBody(body, () => {
        count += 1;
      });
      const page = { ...onlyPage, body, start: 0, end: body.length, issuedAt: '', response };
      const fetcher = new DetailedFetcher(context, { fetch: async () => page }, record);
      await expect(fetcher.fetch(null)).rejects.toBeInstanceOf(ServiceError);
      return count;
    },
    page: async (...overviews: (object | string | number)[]) => {
      const texts = overviews.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
      const body = Buffer.from(`[ ${texts.join(' , ')} ]`);
      const page = {
        body,
        start: 1,
        end: body.length - 1,
        nextToken: 'next',
        total: 7,
        issuedAt: '',
        missing: 0,
      };
      const whole = await record.complete(page, context);
      expect(whole).toMatchObject({ nextToken: 'next', total: 7 });
      return rows(whole);
    },
    text: async (overview: string) => {
      const body = Buffer.from(overview);
      const page = { ...onlyPage, body, start: 0, end: body.length, issuedAt: '' };
      return (await record.complete(page, context)).body.toString();
    },
    single: async (id: string) => {
      const { missing, ...page } = await record.single(id, context);
      return { rows: rows(page), missing };
    },
  };
}

describe('a page whose records lack their details', () => {
  it('frees the memory of its body if a request for them fails for good', async () => {
    expect(await details(() => 500).releases()).toBe(1);
  });

  it('keeps each digit of the fields that only the list has', async () => {
    const { text } = details(() => '{"id":"a","error":"e"}');
    const fields = '"rows":12345678901234567890,"share":1.0,"more":{"n":[0.10,9007199254740993]}';
    expect(await text(`{"id":"a",${fields}}`)).toBe(`{${fields},"id":"a","error":"e"}`);
  });

  it('stays as it is if no URL can carry the id', async () => {
    const { page, asked } = details(() => 404);
    const overviews = [{ id: '.' }, { id: '..', state: 'ended' }, { id: '' }];
    expect(await page(...overviews)).toEqual(overviews);
    expect(asked).toEqual([]);
  });

  it('gets them by id, and keeps what only the overview says', async () => {
    const { page } = details((id) => ({ id, state: 'ended', error: { type: id } }));
    expect(await page({ id: 'a', state: 'open', name: 'Nightly' }, { id: 'b' })).toEqual([
      { id: 'a', state: 'ended', name: 'Nightly', error: { type: 'a' } },
      { id: 'b', state: 'ended', error: { type: 'b' } },
    ]);
  });

  it('changes no number that JavaScript would', async () => {
    const whole = '{"id":"a","data":12345678901234567890}';
    const { page } = details(() => whole);
    expect(await page('{"id":"a","name":1}')).toEqual(await page('{"id":"a","name":1,"data":12345678901234567890}'));
  });

  it('leaves out skipped records, and asks for nothing if a record has no id', async () => {
    const { page, asked } = details((id) => ({ id, error: 1 }), { ...none, skipped: new Set(['a']) });
    expect(await page({ id: 'a' }, { id: 'b' }, 42, { id: 7 })).toEqual([{ id: 'b', error: 1 }, 42, { id: 7 }]);
    expect(asked).toEqual(['details b']);
  });

  it.each([400, 404])(
    'stays as it is if the service refuses with %i; it is asked three times, and reported once',
    async (status) => {
      const { page, asked, lines } = details(() => status);
      const runs = Array.from({ length: 9 }, (_, index) => ({ id: `r${index}`, state: 'failed' }));
      expect(await page(...runs)).toEqual(runs);
      expect(asked).toHaveLength(3);
      expect(lines).toEqual([`details got ${status}: of such records, what their list says is kept`]);
    },
  );

  it('is asked for to its end if only some records are refused', async () => {
    const { page, asked } = details((id) => (id === 'r0' ? { id, error: 1 } : 404));
    await page(...Array.from({ length: 9 }, (_, index) => ({ id: `r${index}` })));
    expect(asked).toHaveLength(9);
  });

  it('fails for any other error', async () => {
    await expect(details(() => 403).page({ id: 'a' })).rejects.toMatchObject({ status: 403 });
  });

  it('refuses the details of another record', async () => {
    await expect(details(() => ({ id: 'z', error: 1 })).page({ id: 'a' })).rejects.toMatchObject({
      code: 'malformed_response',
    });
  });
});

describe('a record that is asked for by id', () => {
  it('is returned with its details, else as the list would show it, else not at all', async () => {
    const responses = (id: string, view: string) => {
      if (id === 'a') return { id, error: 1 };
      return id === 'b' && view === 'one' ? { id, state: 'open' } : 404;
    };
    const { single, lines } = details(responses);
    expect(await single('a')).toEqual({ rows: [{ id: 'a', error: 1 }], missing: 0 });
    expect(await single('b')).toEqual({ rows: [{ id: 'b', state: 'open' }], missing: 0 });
    expect(await single('c')).toEqual({ rows: [], missing: 1 });
    expect(lines).toHaveLength(1);
  });

  it('is not asked for a second time if it has ended and the service has no details', async () => {
    const { single, asked } = details((id) => ({ id, state: 'ended' }), {
      ...none,
      undetailed: new Set(['d', 'e', 'f', 'g']),
    });
    for (const id of ['d', 'e', 'f', 'g']) await single(id);
    expect(asked).toEqual(['details d', 'details e', 'details f']);
  });
});

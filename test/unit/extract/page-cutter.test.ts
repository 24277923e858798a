import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ColumnSet } from '../../../src/columns/columns.js';
import { cutPage, cutPageExactly, MalformedPageError } from '../../../src/extract/scan/page-cutter.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';

const names = fc.constantFrom('meta', 'warnings', 'x"]', 'data":[', 'ünï');
const tokens = fc.oneof(
  fc.string(),
  fc.constantFrom('', 'a"b\\', '],"next_token":"evil"}', '\u2028'),
  fc.constant(null),
);
const records = fc.array(
  fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom({ next_token: 'inner', data: [1] }, ']}', [[]])),
);

/** An envelope with any white space and its members in any order, including strange ones. */
const pages = fc
  .record(
    {
      data: records,
      next_token: tokens,
      total: fc.nat(),
      extra: fc.array(fc.tuple(names, fc.jsonValue()), { maxLength: 2 }),
    },
    { requiredKeys: ['data'] },
  )
  .chain(({ data, next_token, total, extra = [] }) => {
    const members: [string, unknown][] = [['data', data]];
    if (next_token !== undefined) members.push(['next_token', next_token]);
    if (total !== undefined) members.push(['total', total]);
    for (const member of extra) if (!members.some(([name]) => name === member[0])) members.push(member);
    return fc.tuple(fc.shuffledSubarray(members, { minLength: members.length }), fc.constantFrom(undefined, 1, '\t'));
  })
  .map(([members, space]) => {
    const text = JSON.stringify(Object.fromEntries(members), undefined, space);
    // JSON.stringify writes -0 as 0.
    return { members: JSON.parse(text) as { data: unknown[]; next_token?: string | null; total?: number }, text };
  });

describe('the cutter', () => {
  it('finds the same records, token and total as JSON.parse', () => {
    fc.assert(
      fc.property(pages, ({ members, text }) => {
        const body = Buffer.from(text);
        const cut = cutPage(body);
        expect(cut.nextToken).toBe(members.next_token || null);
        const exact = cutPageExactly(body);
        expect([exact.nextToken, exact.total]).toEqual([members.next_token || null, members.total ?? null]);
        expect(JSON.parse(`[${body.toString('utf8', exact.start, exact.end)}]`)).toEqual(members.data);
        // The cut from both ends may mistake another list after the records for their end. The scanner then objects.
        const fast = body.toString('utf8', cut.start, cut.end);
        expect([JSON.stringify(members.data), undefined]).toContain(jsonOr(`[${fast}]`));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ['5', 5],
    ['-5', null],
    ['1.5', null],
    ['"5"', null],
    ['null', null],
  ])('of a total of %s it makes %j', (total, found) => {
    expect(cutPage(Buffer.from(`{"total":${total},"data":[],"next_token":"t"}`)).total).toBe(found);
    expect(cutPage(Buffer.from(`{"data":[],"total":${total},"next_token":"t"}`)).total).toBe(found);
  });

  it('never takes a truncated body for a whole page', () => {
    fc.assert(
      fc.property(pages, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), ({ text }, share) => {
        const whole = Buffer.from(text);
        const body = whole.subarray(0, Math.floor(whole.length * share));
        expect(() => cutPageExactly(body)).toThrow(MalformedPageError);
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    '',
    '[]',
    'null',
    '<html>',
    '{"data":{}}',
    '{"items":[]}',
    '{"items":[{"id":"a"}],"next_token":"t"}',
    '{"data":[],"data":7}',
    '{"data":[],"status":500}',
    '{"status":"404","data":[{"id":"a"}],"next_token":"t"}',
    '{"data":[{"id":"a"}],"next_token":"t","status":599}',
    '{"message":"out of order"}',
    '{"error":{"code":7}}',
    '{"errors":["out of order"],"total":0}',
    '{"data":null,"message":"out of order"}',
    '{"data":[],"status":"error"}',
    '{"data":[],"code":503}',
    '{"data":[{"id":"a"}],"error":{"code":7},"next_token":"t"}',
    '{"data":[],"errors":["out of order"]}',
    '{"error":"out of order","data":[]}',
    '{"data":[],"success":false,"next_token":null}',
    '{"data":[],"next_token":[]}',
    '{"data":[],"next_token":5}',
    '{"data":[]}x',
    '{"data":[],}',
    '{"data":[] "total":1}',
    '{"data":[{"id":"a"}],"data":null,"next_token":null}',
    '{"next_token":"t","data":[],"next_token":null}',
    '{"next_token":null,"next_token":"t","data":[]}',
    '{"data":[],"next_token":"t","next_token":null}',
    '{"data":[],"nextToken":"t"}',
    '{"data":[],"next_page_token":"t","total":7}',
    '{"has_more":true,"data":[]}',
    '{"data":[{"id":"a"}],"next_token":null,"has_more":true}',
    '{"has_more":true,"next_token":"","data":[]}',
    '{"data":[],"nextToken":"t","next_token":null}',
    '{"data":[],"paging":{"next_token":"t"}}',
    '{"data":[],"links":{"self":"s","next":"/x?page=2"}}',
  ])('refuses %j', (text) => {
    expect(() => cutPage(Buffer.from(text))).toThrow(MalformedPageError);
  });

  it.each([
    ['{"data":[]}', null],
    ['{"data":[],"status":"ok","code":0,"error":null,"errors":[],"success":true,"message":"all"}', null],
    ['{"errors": { } ,"error":"","data":[]}', null],
    ['{}', null],
    [' { } ', null],
    ['{"total":0}', null],
    ['{"data":null,"next_token":"t"}', 't'],
    ['{"next_token":"t","total":5}', 't'],
    ['{"data":[],"status":"ok","next_token":"t"}', 't'],
    ['{"data":[],"status":200,"message":"fine","next_token":"t"}', 't'],
    ['{"data":[],"next_token":""}', null],
    ['{"data":[],"next_token":null}', null],
    ['{"data":[],"next_token":"t"}', 't'],
    ['{"next_token":"t","data":[]}', 't'],
    ['{"data":[],"warnings":["w"],"next_token":"a\\u0062"}', 'ab'],
    ['{"next_token":"t","data":[],"next_token":"t"}', 't'],
    ['{"data":[],"has_more":false,"next":null,"links":{"next":""},"paging":{"page":2}}', null],
    ['{"data":[],"nextToken":"","has_more":false,"next_token":null}', null],
    ['{"n\\u0065xt_token":"t","data":[]}', 't'],
    ['{"data":[],"has_more":true,"next_token":"t","request_id":"r"}', 't'],
    ['{"data":5,"data":[],"next_token":"t"}', 't'],
    ['{"meta":{"data":[1],"next_token":"inner"},"data":[{"data":[],"next_token":"x"}],"next_token":"t"}', 't'],
  ])('of %s the next token is %j', (text, token) => {
    expect(cutPage(Buffer.from(text)).nextToken).toBe(token);
  });
});

/** The records that a page chain takes from a body: it cuts quickly, then exactly if the scanner objects. */
function taken(body: Buffer): { token: string | null; records: number } | undefined {
  for (const cut of [cutPage, cutPageExactly]) {
    try {
      const { start, end, nextToken } = cut(body);
      const { records, rejects } = new RecordScanner(new ColumnSet([]), scanOptions).scan(body, start, end);
      return { token: nextToken, records: records + rejects.length };
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedPageError);
    }
  }
  return undefined;
}

const scanOptions = { container: 'attributes' as const, key: ['id'], filter: new Map<string, string>() };

/** The same by JSON.parse. */
function expected(text: string): ReturnType<typeof taken> {
  try {
    const { data, next_token: token = null, ...others } = JSON.parse(text) as Record<string, unknown>;
    const isEmpty = (data ?? null) === null && !Object.values(others).some(Array.isArray);
    if (!(Array.isArray(data) || isEmpty) || (token !== null && typeof token !== 'string')) return undefined;
    return { token: token || null, records: Array.isArray(data) ? data.length : 0 };
  } catch {
    return undefined;
  }
}

describe('the cutter and the scanner together', () => {
  const bodies = [
    '{"data":[{"id":"a","attributes":{"t":["]","}"]}},{"id":"b"}],"next_token":"t\\"k","total":2}',
    '{"total":2,"next_token":"t","data":[{"id":"a"},{"id":"b","data":[]}]}',
    '{\n "data" : [ {"id":"a"} ] ,\n "next_token" : "t" \n}\n',
    '{"meta":[{"x":[1]}],"data":[],"warnings":["w"],"next_token":"t"}',
  ];
  const pieces = [
    '',
    '"',
    ',',
    '{',
    '}',
    '[',
    ']',
    ':',
    '\\',
    ' ',
    '\u0001',
    '0',
    'e',
    ']}',
    '],"',
    '"data":[',
    '"next_token":"u"',
  ];

  it.each(['{"data":[{"id":"a"}],"data":[],"next_token":null}', '{"data":[],"data":[{"id":"a"}],"next_token":null}'])(
    'take nothing from two lists: %s',
    (text) => {
      expect(taken(Buffer.from(text))).toBeUndefined();
    },
  );

  it('take the same from a garbled body as JSON.parse, or nothing', () => {
    const change = fc.tuple(
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.constantFrom(...pieces),
      fc.nat(3),
    );
    fc.assert(
      fc.property(fc.constantFrom(...bodies), fc.array(change, { maxLength: 3 }), (body, changes) => {
        let text = body;
        for (const [share, insert, remove] of changes) {
          const at = Math.floor(share * text.length);
          text = text.slice(0, at) + insert + text.slice(at + remove);
        }
        const found = taken(Buffer.from(text));
        // A member that is there twice may be refused.
        if (found !== undefined || !/("data"|"next_token").*\1/s.test(text)) expect(found).toEqual(expected(text));
      }),
      { numRuns: 4000 },
    );
  });
});

function jsonOr(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return undefined;
  }
}

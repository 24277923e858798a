import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutPage, cutPageExactly, MalformedPageError } from '../../../src/extract/page-cutter.js';

const names = fc.constantFrom('meta', 'warnings', 'x"]', 'data":[', 'ünï');
const tokens = fc.oneof(
  fc.string(),
  fc.constantFrom('', 'a"b\\', '],"next_token":"evil"}', '\u2028'),
  fc.constant(null),
);
const records = fc.array(
  fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom({ next_token: 'inner', data: [1] }, ']}', [[]])),
);

/** An envelope with its members in any order, strange ones among them, and any white space. */
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
  .map(([members, space]) => ({
    members: Object.fromEntries(members) as { data: unknown[]; next_token?: string | null; total?: number },
    text: JSON.stringify(Object.fromEntries(members), undefined, space),
  }));

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
        // From both ends another list behind the records may be taken for their end: then the scanner objects.
        const fast = body.toString('utf8', cut.start, cut.end);
        expect([JSON.stringify(members.data), undefined]).toContain(jsonOr(`[${fast}]`));
      }),
      { numRuns: 500 },
    );
  });

  it('takes no body that was cut short for a whole page', () => {
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
    '{"data":[],"next_token":5}',
    '{"data":[]}x',
    '{"data":[],}',
    '{"data":[] "total":1}',
  ])('refuses %j', (text) => {
    expect(() => cutPage(Buffer.from(text))).toThrow(MalformedPageError);
  });

  it.each([
    ['{"data":[]}', null],
    ['{"data":[],"next_token":""}', null],
    ['{"data":[],"next_token":null}', null],
    ['{"data":[],"next_token":"t"}', 't'],
    ['{"next_token":"t","data":[]}', 't'],
    ['{"data":[],"warnings":["w"],"next_token":"a\\u0062"}', 'ab'],
  ])('of %s the next token is %j', (text, token) => {
    expect(cutPage(Buffer.from(text)).nextToken).toBe(token);
  });
});

function jsonOr(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return undefined;
  }
}

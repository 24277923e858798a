import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withFields } from '../../../src/extract/page-fetcher.js';

const fields = { segment_id: 'a"b', scale: 'day' };

describe('fields that come from the request', () => {
  it('come first in every object, whose own fields win; the rest stays as it is', () => {
    const record = fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue());
    fc.assert(
      fc.property(fc.array(record), fc.constantFrom(undefined, 2, '\t'), (records, space) => {
        const text = JSON.stringify(records, undefined, space);
        const body = Buffer.from(text);
        const found = withFields(body, 1, body.length - 1, fields).toString();
        const expected = (JSON.parse(text) as unknown[]).map((each) =>
          typeof each === 'object' && each !== null && !Array.isArray(each) ? { ...fields, ...each } : each,
        );
        expect(JSON.parse(`[${found}]`)).toEqual(expected);
      }),
    );
  });

  it.each(['{"a":1', '{"a":1},{"b"', '{]'])('refuse %s', (text) => {
    const body = Buffer.from(text);
    expect(() => withFields(body, 0, body.length, fields)).toThrow('its records are not valid JSON');
  });
});

import '../../fixtures/property-seed.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { visible, visibleJson } from '../../../src/core/printable.js';

const hostile = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u{FEFF}]/u;
const texts = fc.string({ unit: 'binary', maxLength: 40 });

describe('text on its way to a terminal', () => {
  it.each([
    ['\x1b[31mred\x1b[0m', '\\x1b[31mred\\x1b[0m'],
    ['\x1b]52;c;cGx1Z2g=\x07', '\\x1b]52;c;cGx1Z2g=\\x07'],
    ['a\nb\r\nc\td', 'a\\nb\\r\\nc\\td'],
    ['\x00\x7f\x85\x9b1m', '\\x00\\x7f\\x85\\x9b1m'],
    ['abc\u202Etxt.exe\u2066', 'abc\\u202etxt.exe\\u2066'],
    ['a\u2028b\u2029c\uFEFF', 'a\\u2028b\\u2029c\\ufeff'],
    ['half \uD800 of one', 'half \\ud800 of one'],
  ])('shows %j', (text, shown) => expect(visible(text)).toBe(shown));

  it.each(['', 'plain', 'Zürich', '東京', '👩‍👩‍👧', 'می‌خواهم', 'שלום', 'C:\\x1b'])('stays as it is: %j', (text) =>
    expect(visible(text)).toBe(text),
  );

  it('has nothing that a terminal obeys, and becomes no different when it passes twice', () => {
    fc.assert(
      fc.property(texts, (text) => {
        expect(visible(text)).not.toMatch(hostile);
        expect(visible(visible(text))).toBe(visible(text));
      }),
    );
  });

  it('keeps its value if it is JSON', () => {
    fc.assert(
      fc.property(fc.dictionary(texts, texts), (value) => {
        const json = visibleJson(JSON.stringify(value, null, 1));
        expect(json.replaceAll('\n', '')).not.toMatch(hostile);
        expect(JSON.parse(json)).toEqual(value);
      }),
    );
  });
});

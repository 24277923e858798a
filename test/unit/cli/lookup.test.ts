import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keysOfLine, keysOfStream, keysOfWords } from '../../../src/cli/lookup.js';

describe('Keys of a lookup', () => {
  it.each([
    ['email=ann@example.com', { email: 'ann@example.com' }],
    ['  email=ann@example.com\t phone=+49 151 2345 ', { email: 'ann@example.com', phone: '+49 151 2345' }],
    ['id=a=b', { id: 'a=b' }],
    ['number=02134', { number: '02134' }],
    ['{"email": "ann@example.com", "full name": "Ann  Lee "}', { email: 'ann@example.com', 'full name': 'Ann  Lee ' }],
  ])('are read from %j', (line, keys) => {
    expect(keysOfLine(line, 'line 1')).toEqual(keys);
  });

  it('of any names and values come through JSON as they are', () => {
    const key = fc.string({ unit: 'binary', minLength: 1 });
    fc.assert(
      fc.property(fc.dictionary(key, key, { minKeys: 1, noNullPrototype: true }), (keys) => {
        fc.pre(!Object.hasOwn(keys, '__proto__'));
        expect(keysOfLine(JSON.stringify(keys), 'line 1')).toEqual(keys);
      }),
    );
  });

  it.each([
    ['ann@example.com', 'a word is not key=value'],
    ['email=', 'a key has no value'],
    ['=ann@example.com', 'a key has no name'],
    ['email=ann@example.com email=bob@example.com', 'a key is given twice'],
    ['{}', 'there is no key'],
    ['{"email": "ann@example.com"', 'it is not JSON'],
    ['{"loyalty": 2134}', 'the value of a key is not a text'],
    ['{"email": ["ann@example.com"]}', 'the value of a key is not a text'],
  ])('are refused in %j, with the place but without the text', (line, reason) => {
    const refusal = (() => {
      try {
        return keysOfLine(line, 'line 7');
      } catch (error) {
        return error as Error & { code: string; hint: string };
      }
    })();
    expect(refusal).toMatchObject({ code: 'usage', message: `line 7: ${reason}` });
    expect(`${refusal.message} ${refusal.cause}`).not.toMatch(/ann@|bob@|2134/);
  });

  it('are refused where there are none', () => {
    expect(() => keysOfWords([], 'the command line')).toThrow('the command line: there is no key');
  });

  it('are one lookup a line; the number of a wrong line counts the empty ones', async () => {
    const input = Readable.from(['\uFEFFemail=a\r\n\n  \nid=', '1\n{"id":"2"}\nwrong\nid=3\n']);
    const found: unknown[] = [];
    const reading = (async () => {
      for await (const keys of keysOfStream(input)) found.push(keys);
    })();
    await expect(reading).rejects.toMatchObject({ message: 'line 6: a word is not key=value' });
    expect(found).toEqual([{ email: 'a' }, { id: '1' }, { id: '2' }]);
  });
});

import { expect, it } from 'vitest';
import { sealedContents, sealedLines } from '../../../src/core/sealed-json.js';

const contents = [{ key: 'a', reason: 'é' }, { key: null }, { key: 'b', reason: 'x' }];

it('a list with a lost, altered or moved line is an error', () => {
  const bytes = Buffer.from(sealedLines(contents));
  expect(sealedContents(bytes.toString())).toEqual(contents);
  for (let length = 0; length < bytes.length - 1; length += 1)
    expect(() => sealedContents(bytes.subarray(0, length).toString()), `cut at ${length}`).toThrow();
  const lines = bytes.toString().split('\n');
  for (const others of [lines.slice(1), lines.slice(0, 2), [lines[1], lines[0], lines[2]], [...lines, lines[0]]])
    expect(() => sealedContents(others.join('\n'))).toThrow();
  for (let bit = 0; bit < 8 * bytes.length; bit += 1) {
    const altered = Buffer.from(bytes);
    altered[bit >> 3] = (altered[bit >> 3] as number) ^ (1 << (bit & 7));
    let read: readonly object[] | undefined;
    try {
      read = sealedContents(altered.toString());
    } catch {
      continue;
    }
    expect(read, `bit ${bit}`).toEqual(contents);
  }
});

it('lines of an earlier build have no checksums, and are read', () => {
  expect(sealedContents('{"key":"a"}\n{"key":"b"}\n')).toEqual([{ key: 'a' }, { key: 'b' }]);
});

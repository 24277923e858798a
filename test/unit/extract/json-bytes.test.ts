import fc from 'fast-check';
import { expect, it } from 'vitest';
import { copyTrimmed } from '../../../src/extract/scan/json-bytes.js';

it('copies a value without the white space around it, into separate memory', () => {
  const around = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t') });
  fc.assert(
    fc.property(around, fc.oneof(fc.json(), fc.constant('')), around, (before, json, behind) => {
      const body = Buffer.from(`${before}${json}${behind}`);
      const copy = copyTrimmed(body);
      expect(copy.toString()).toBe(json.replace(/^[ \n\r\t]+|[ \n\r\t]+$/g, ''));
      body.fill(0);
      expect(copy.toString()).toBe(json.replace(/^[ \n\r\t]+|[ \n\r\t]+$/g, ''));
    }),
  );
});

it('does not look at much white space again and again', () => {
  expect(copyTrimmed(Buffer.concat([Buffer.from('{}'), Buffer.alloc(50_000_000, ' ')])).toString()).toBe('{}');
});

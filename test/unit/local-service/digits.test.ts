import fc from 'fast-check';
import { it } from 'vitest';
import { writeDigits, writeHex } from '../../../src/local-service/data/body-table.js';

const bits = fc.integer({ min: 0, max: 0xffff_ffff });

function written(write: (target: Uint8Array, offset: number, value: number) => void, value: number): string {
  const target = Buffer.alloc(16, '.');
  write(target, 3, value);
  return target.toString('latin1').replaceAll('.', '');
}

it('writes a number in ten decimal digits', () => {
  fc.assert(fc.property(bits, (value) => written(writeDigits, value) === String(value).padStart(10, '0')));
});

it('writes a number in eight hexadecimal digits', () => {
  fc.assert(fc.property(bits, (value) => written(writeHex, value) === value.toString(16).padStart(8, '0')));
});

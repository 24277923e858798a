import { expect, it } from 'vitest';
import { newVariants } from '../../../src/delivery/table/column-map.js';
import type { MapEntry } from '../../../src/delivery/table/record.js';

it('a variant is a change of the schema once', () => {
  const of = (variant: string | null) => new Map([['n', { variant, kind: 'BIGINT' } as MapEntry]]);
  const place = { column: 'n', destination: 'wh', variant: 'n__text' };
  const change = { ...place, change: 'variant_column', from: 'BIGINT', to: 'VARCHAR' };
  expect(newVariants(of(null), of('n__text'), 'wh')).toEqual([change]);
  expect(newVariants(undefined, of('n__text'), 'wh')).toEqual([change]);
  expect(newVariants(of('n__text'), of('n__text'), 'wh')).toEqual([]);
  expect(newVariants(undefined, of(null), 'wh')).toEqual([]);
});

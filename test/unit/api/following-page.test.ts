import { expect, it } from 'vitest';
import { z } from 'zod';
import { pageDecoder } from '../../../src/api/paging.js';

const decode = (text: string) => pageDecoder(z.looseObject({}))(Buffer.from(text));

it.each([
  '{"data":[],"has_more":true}',
  '{"data":[],"has_more":true,"next_token":null}',
  '{"data":[],"next":"/x?page=2","next_token":""}',
])('a list does not end where another member says that a page follows: %s', (text) => {
  expect(() => decode(text)).toThrow(/says that another page follows/);
});

it('a list ends with an empty token', () => {
  expect(decode('{"data":[],"has_more":false,"next":null,"next_token":""}').nextToken).toBeNull();
});

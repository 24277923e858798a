import { describe, expect, it } from 'vitest';
import { parseQuery, single } from '../../../src/local-service/http/query.js';
import { Router } from '../../../src/local-service/http/router.js';
import type { Operation } from '../../../src/local-service/operations/operation.js';

const operation = (method: string, path: string): Operation => ({
  method,
  path,
  handle: () => ({ status: 204, headers: {}, body: Buffer.alloc(0) }),
});

describe('routes', () => {
  const router = new Router([
    operation('GET', '/api/things'),
    operation('POST', '/api/things'),
    operation('GET', '/api/things/{id}'),
    operation('GET', '/api/things/{id}/parts/{part-id}'),
  ]);

  it('give the parameters of the path, decoded', () => {
    const { operation: found, parameters } = router.find('GET', '/api/things/a%2Fb/parts/%C3%BC');
    expect([found.path, parameters]).toEqual(['/api/things/{id}/parts/{part-id}', ['a/b', 'ü']]);
  });

  it('distinguish an unknown path from a method that is not allowed', () => {
    expect(router.find('GET', '/api/things').slashed).toBe(false);
    expect(router.find('GET', '/api/things/').slashed).toBe(true);
    expect(() => router.find('GET', '/api/things/%')).toThrow(expect.objectContaining({ status: 404 }));
    expect(() => router.find('PUT', '/api/things')).toThrow(
      expect.objectContaining({ status: 405, headers: { allow: 'GET, POST' } }),
    );
  });
});

describe('query strings', () => {
  it('are decoded, with a plus as a blank', () => {
    expect(parseQuery('a=1&b%5Bc%5D=x+y%2B&&d&e=f=g')).toEqual([
      ['a', '1'],
      ['b[c]', 'x y+'],
      ['d', ''],
      ['e', 'f=g'],
    ]);
    expect(parseQuery('')).toEqual([]);
    expect(() => parseQuery('a=%ff')).toThrow(expect.objectContaining({ status: 400 }));
  });

  it('give the value of a parameter that may occur only once', () => {
    expect(single([['a', '1']], 'a')).toBe('1');
    expect(single([['a', '1']], 'b')).toBeUndefined();
    const twice = [
      ['a', '1'],
      ['a', '1'],
    ] as const;
    expect(() => single(twice, 'a')).toThrow(expect.objectContaining({ status: 400 }));
  });
});

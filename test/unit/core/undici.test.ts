import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import { Pool, poolWithRequest } from '../../../src/core/undici.js';

const load = createRequire(import.meta.url);

it('the package has the files that are loaded without its index, and HTTP/2 is loaded when it is called', () => {
  expect(Pool).toBe(load('undici/lib/dispatcher/pool.js'));
  const late = load('undici/lib/dispatcher/client-h2.js');
  expect(late).toHaveLength(0);
  // Without a client and a connection it fails, in its own file.
  expect(() => late()).toThrow(TypeError);
  expect(load('undici/lib/dispatcher/client-h2.js')).toHaveLength(2);
});

it('a pool has no request before it is asked for', () => {
  expect('request' in Pool.prototype).toBe(false);
  expect(poolWithRequest()).toBe(Pool);
  expect(Pool.prototype.request).toBeTypeOf('function');
});

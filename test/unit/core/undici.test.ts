import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import { Pool } from '../../../src/core/undici.js';

const load = createRequire(import.meta.url);

it('the package has the files that are loaded without its index', () => {
  expect(Pool).toBe(load('undici/lib/dispatcher/pool.js'));
});

it('HTTP/2 works when it is called', () => {
  // Without a client and a connection it fails, in its own file.
  expect(() => load('undici/lib/dispatcher/client-h2.js')()).toThrow(TypeError);
  expect(load('undici/lib/dispatcher/client-h2.js')).toHaveLength(2);
});

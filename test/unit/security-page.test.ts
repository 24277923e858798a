import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

test('SECURITY.md names tests that exist', () => {
  const page = readFileSync('SECURITY.md', 'utf8');
  const named = [...page.matchAll(/`((?:unit|integration|conformance|fault)\/[^`]*)`/g)].map(([, path = '']) => path);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((path) => !existsSync(join('test', path)))).toEqual([]);
});

import { describe, expect, it } from 'vitest';
import { isThisMachine, withPostgresTls } from '../../../src/sdk/encryption.js';

describe('a host', () => {
  it.each([
    'localhost',
    'LOCALHOST',
    '127.0.0.1',
    '127.255.3.4',
    '::1',
    '[::1]',
    '0:0:0:0:0:0:0:1',
    '/var/run/postgresql',
  ])('is this machine: %s', (host) => expect(isThisMachine(host)).toBe(true));

  it.each([
    '127.evil.example.com',
    '127.0.0.1.example.com',
    'localhost.example.com',
    'db',
    '128.0.0.1',
    '0.0.0.0',
    '::',
    '::2',
    '10.0.0.1',
    '',
  ])('is another machine, or may be: %j', (host) => expect(isThisMachine(host)).toBe(false));
});

describe('the TLS of a connection to PostgreSQL', () => {
  const decided = (query: string, host: string, option?: 'verify' | 'required' | 'off') =>
    withPostgresTls(new URL(`postgres://${host}/crm${query}`), host, option).searchParams.get('sslmode');

  it.each([
    ['', 'db', undefined, 'verify-full'],
    ['', 'localhost', undefined, 'disable'],
    ['?sslmode=prefer', 'db', undefined, 'verify-full'],
    ['?sslmode=prefer', 'localhost', undefined, 'disable'],
    ['?sslmode=require', 'db', undefined, 'verify-full'],
    ['?sslmode=require&uselibpqcompat=true', 'db', undefined, 'verify-full'],
    ['?sslmode=verify-full', 'localhost', undefined, 'verify-full'],
    ['?sslmode=no-verify', 'db', undefined, 'no-verify'],
    ['?sslmode=disable', 'localhost', undefined, 'disable'],
    ['?sslmode=disable', 'db', 'off', 'disable'],
    ['?sslmode=disable', 'db', 'verify', 'verify-full'],
    ['', 'db', 'off', 'disable'],
    ['', 'db', 'required', 'no-verify'],
  ] as const)('with the URL %j to %s and tls %s is %s', (query, host, option, mode) => {
    expect(decided(query, host, option)).toBe(mode);
  });

  it('is refused where only the URL asks for plain text to another machine', () => {
    expect(() => decided('?sslmode=disable', 'db')).toThrow(/without encryption/);
  });
});

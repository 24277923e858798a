import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { isExempt, proxyFor } from '../../../src/core/proxy.js';

const target = (url: string) => {
  const { hostname, port, protocol } = new URL(url);
  return { hostname, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) };
};

describe('NO_PROXY', () => {
  it.each([
    ['https://a.example.com', 'example.com', true],
    ['https://a.example.com', '.example.com', true],
    ['https://a.example.com', '*.example.com', true],
    ['https://example.com', '.example.com', true],
    ['https://notexample.com', 'example.com', false],
    ['https://A.Example.com', 'a.EXAMPLE.com', true],
    ['https://a.example.com', 'b.com, a.example.com:443', true],
    ['https://a.example.com:8443', 'a.example.com:443', false],
    ['https://a.example.com', '*', true],
    ['https://a.example.com', '', false],
    ['http://10.1.2.3', '10.0.0.0/8', true],
    ['http://11.1.2.3', '10.0.0.0/8', false],
    ['http://10.1.2.3', '10.1.2.3', true],
    ['http://10.1.2.3:81', '10.1.2.3:80', false],
    ['http://[fd00::1]', 'fd00::/8', true],
    ['http://[fd00::1]:8080', '[fd00::1]:8080', true],
  ])('for %s, with %j, is %s', (url, noProxy, expected) => {
    expect(isExempt(target(url), noProxy)).toBe(expected);
  });
});

describe('a proxy', () => {
  const has = (url: string, env: Record<string, string>) => proxyFor(new URL(url), env) !== undefined;

  it('is that of the scheme, in small letters or large, and an empty variable is none', () => {
    expect(has('https://a.example', { HTTPS_PROXY: 'http://p:1' })).toBe(true);
    expect(has('https://a.example', { https_proxy: 'p:1' })).toBe(true);
    expect(has('https://a.example', { HTTP_PROXY: 'http://p:1' })).toBe(false);
    expect(has('http://a.example', { http_proxy: 'http://p:1', NO_PROXY: 'b.example' })).toBe(true);
    expect(has('http://a.example', { http_proxy: '', HTTP_PROXY: '' })).toBe(false);
    expect(has('http://a.example', { http_proxy: 'http://p:1', no_proxy: 'a.example' })).toBe(false);
  });

  it('is never between this machine and itself', () => {
    for (const host of ['localhost', '127.0.0.1', '127.9.9.9', '[::1]'])
      expect(has(`http://${host}:8787`, { HTTP_PROXY: 'http://p:1' })).toBe(false);
  });

  it('that is no http:// or https:// URL is refused without showing it', () => {
    for (const value of ['socks5://u:pass-word@p:1', 'http://u:pass-word@p:x', 'ftp://pass-word'])
      expect(() => has('https://a.example', { HTTPS_PROXY: value })).toThrow(
        expect.objectContaining({ code: 'proxy_invalid', message: expect.not.stringContaining('pass-word') }),
      );
  });
});

it('a login of a proxy may have a bare percent sign', async () => {
  const logins: string[] = [];
  const server = createServer().on('connect', ({ headers }, socket) => {
    logins.push(Buffer.from(String(headers['proxy-authorization']).slice('Basic '.length), 'base64').toString());
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  for (const login of ['me:50%off', 'me:50%25off']) {
    const proxy = proxyFor(new URL('http://a.example'), { HTTP_PROXY: `http://${login}@127.0.0.1:${port}` });
    await expect(proxy?.tunnel({ hostname: 'a.example', port: 80 }, 5_000)).rejects.toThrow('502');
  }
  server.close();
  expect(logins).toEqual(['me:50%off', 'me:50%off']);
});

import { describe, expect, it } from 'vitest';
import { duckdbProxy } from '../../../src/sdk/index.js';

describe('the way of DuckDB to an object store', () => {
  const of = (store: string, env: Record<string, string>) => duckdbProxy(new URL(store), env);

  it.each([
    ['without a proxy', 'https://s3.eu-central-1.amazonaws.com', {}],
    ['on this machine', 'http://127.0.0.1:9000', { HTTP_PROXY: 'http://proxy:3128' }],
    ['that NO_PROXY names', 'https://minio.example', { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: '.example' }],
    ['by https, if there is only a proxy for http', 'https://minio.example', { HTTP_PROXY: 'http://proxy:3128' }],
  ])('is direct to a store %s', (_, store, env) => {
    expect(of(store, env)).toEqual(["SET http_proxy = ''"]);
  });

  it('leads over the proxy, with its login', () => {
    expect(of('https://minio.example', { HTTPS_PROXY: 'http://me:it%27s@proxy:3128' })).toEqual([
      "SET http_proxy = 'http://proxy:3128'",
      "SET http_proxy_username = 'me'",
      "SET http_proxy_password = 'it''s'",
    ]);
    expect(of('https://minio.example', { HTTPS_PROXY: 'http://me:100%@proxy:3128' })[2]).toBe(
      "SET http_proxy_password = '100%'",
    );
    expect(of('http://minio.example', { HTTP_PROXY: 'proxy' })).toEqual(["SET http_proxy = 'http://proxy:80'"]);
  });
});

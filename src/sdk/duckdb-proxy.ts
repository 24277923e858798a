import { proxyFor } from '../core/proxy.js';
import { sqlText } from '../core/sql.js';

/**
 * Statements that let DuckDB reach an object store as the other connections of cdsync reach their hosts: by the proxy of the
 * environment, or directly if NO_PROXY names the host or it is this machine. DuckDB alone knows only HTTP_PROXY, and takes it for
 * every host.
 * @throws {CdsyncError} `proxy_invalid`
 */
export function duckdbProxy(store: URL, env: Readonly<Record<string, string | undefined>>): string[] {
  const server = proxyFor(store, env)?.server;
  if (server === undefined) return ["SET http_proxy = ''"];
  const set = (name: string, text: string) => `SET ${name} = ${sqlText(decodeURIComponent(text))}`;
  const login =
    server.username === ''
      ? []
      : [set('http_proxy_username', server.username), set('http_proxy_password', server.password)];
  const port = server.port === '' && server.protocol === 'http:' ? ':80' : '';
  return [set('http_proxy', `${server.origin}${port}`), ...login];
}

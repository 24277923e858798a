import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { callAfter } from './clock.js';
import { ProxyFailure, type Target } from './proxy-failure.js';
import { decodedLogin } from './secret.js';

function authorization({ username, password }: URL): Record<string, string> {
  if (username === '') return {};
  const login = [username, password].map(decodedLogin).join(':');
  return { 'proxy-authorization': `Basic ${Buffer.from(login, 'utf8').toString('base64')}` };
}

/**
 * Opens a connection to a host by a proxy (RFC 9110, section 9.3.6).
 * @param timeoutMs until the proxy has made the tunnel
 * @throws {ProxyFailure}
 */
export function openTunnel(proxy: URL, target: Target, timeoutMs: number): Promise<Socket> {
  const to = `${target.hostname}:${target.port}`;
  const request = (proxy.protocol === 'https:' ? httpsRequest : httpRequest)({
    host: proxy.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : Number(proxy.port),
    method: 'CONNECT',
    path: to,
    headers: { host: to, ...authorization(proxy) },
    agent: false,
  });
  const place = proxy.host;
  return new Promise((resolve, reject) => {
    const cancel = callAfter(timeoutMs, () => {
      request.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' }));
    });
    request.once('connect', ({ statusCode = 0 }, socket, head) => {
      cancel();
      if (statusCode >= 200 && statusCode < 300) {
        if (head.length > 0) socket.unshift(head);
        (socket as Socket).setNoDelay(true);
        resolve(socket as Socket);
        return;
      }
      socket.destroy();
      const code = statusCode === 407 ? 'EPROXYLOGIN' : 'EPROXY';
      reject(new ProxyFailure(`the proxy ${place} answers ${statusCode} to CONNECT ${to}`, code));
    });
    request.once('error', (error: NodeJS.ErrnoException) => {
      cancel();
      reject(new ProxyFailure(`the proxy ${place} gives no connection (${error.code ?? error.name})`, 'EPROXY'));
    });
    request.end();
  });
}

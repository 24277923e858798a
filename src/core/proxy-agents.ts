import { type ClientRequestArgs, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { proxyFor } from './proxy.js';

type Variables = Readonly<Record<string, string | undefined>>;
type Created = (error: Error | null, socket: Duplex) => void;

/** What both agents of Node have, which their types hide. */
interface Connecting {
  createConnection(options: object, created?: Created): Duplex | undefined | null;
}

/** Where a request leads. */
function urlOf(protocol: 'http:' | 'https:', { host, port }: ClientRequestArgs): URL {
  const name = host ?? 'localhost';
  const shown = name.includes(':') && !name.startsWith('[') ? `[${name}]` : name;
  return new URL(`${protocol}//${shown}:${port ?? (protocol === 'https:' ? 443 : 80)}`);
}

/** Makes an agent connect by the proxy of each host, or directly to a host that has none. */
function withProxies<A extends HttpAgent>(
  agent: A,
  protocol: 'http:' | 'https:',
  { env, timeoutMs }: { readonly env: Variables; readonly timeoutMs: number },
): A {
  const connecting = agent as unknown as Connecting;
  const direct = connecting.createConnection.bind(agent);
  connecting.createConnection = (options: ClientRequestArgs, created: Created = () => undefined) => {
    const url = urlOf(protocol, options);
    const proxy = proxyFor(url, env);
    if (proxy === undefined) return direct(options, created);
    const target = { hostname: url.hostname, port: Number(options.port) };
    proxy.tunnel(target, timeoutMs).then(
      (socket: Socket) => created(null, protocol === 'https:' ? (direct({ ...options, socket }) as Duplex) : socket),
      (error: Error) => created(error, undefined as unknown as Duplex),
    );
    return undefined;
  };
  return agent;
}

/**
 * Agents for clients that are built on Node's own `http` and `https`: they go by HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
 * @returns undefined if the environment names no proxy: then the client's own agents serve
 * @throws {CdsyncError} `proxy_invalid`, at a connection
 */
export function proxyAgents(
  env: Variables,
  { timeoutMs, maxSockets }: { readonly timeoutMs: number; readonly maxSockets: number },
): { readonly httpAgent: HttpAgent; readonly httpsAgent: HttpsAgent } | undefined {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'];
  if (names.every((name) => (env[name] ?? '') === '')) return undefined;
  const options = { keepAlive: true, maxSockets };
  const proxied = { env, timeoutMs };
  return {
    httpAgent: withProxies(new HttpAgent(options), 'http:', proxied),
    httpsAgent: withProxies(new HttpsAgent(options), 'https:', proxied),
  };
}

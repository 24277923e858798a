import { BlockList, isIP, type Socket } from 'node:net';
import { CdsyncError } from './errors.js';
import type { Target } from './proxy-failure.js';

/** A proxy by which a host is reached. */
interface ProxyRoute {
  /** With the login, if it needs one: for a program that opens its connections itself. */
  readonly server: URL;
  /** @throws {ProxyFailure} */
  tunnel(target: Target, timeoutMs: number): Promise<Socket>;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** The value of a variable, in small letters first: that is the older custom. An empty one counts as unset. */
function variable(env: Variables, name: string): { name: string; value: string } | undefined {
  const set = [name.toLowerCase(), name].find((name) => env[name]);
  return set === undefined ? undefined : { name: set, value: env[set] as string };
}

/** Whether NO_PROXY names a host: itself, a domain above it, a range of addresses, with a port or without, or `*`. */
export function isExempt({ hostname, port }: Target, noProxy: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  return noProxy
    .split(/[\s,]+/)
    .filter(Boolean)
    .some((entry) => {
      if (entry === '*') return true;
      const [, bracketed, range] = /^\[([^\]]+)\](?::\d+)?$/.exec(entry) ?? [];
      const ofPort = /^(?:[^:]+|\[.*\]):(\d+)$/.exec(entry)?.[1];
      if (ofPort !== undefined && Number(ofPort) !== port) return false;
      const named = (bracketed ?? (ofPort === undefined ? entry : entry.slice(0, -ofPort.length - 1))).toLowerCase();
      if (isIP(host) !== 0) return isInRange(host, range ?? named);
      const domain = named.replace(/^\*?\./, '');
      return host === domain || host.endsWith(`.${domain}`);
    });
}

function isInRange(address: string, range: string): boolean {
  const [base = '', bits] = range.split('/');
  const version = isIP(base);
  if (version === 0 || version !== isIP(address)) return false;
  const list = new BlockList();
  const family = version === 4 ? 'ipv4' : 'ipv6';
  const most = version === 4 ? 32 : 128;
  const length = bits === undefined ? most : Number(bits);
  if (!Number.isInteger(length) || length < 0 || length > most) return false;
  list.addSubnet(base, length, family);
  return list.check(address, family);
}

function isLoopback({ hostname }: Target): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  return host === 'localhost' || host.endsWith('.localhost') || isInRange(host, '127.0.0.0/8') || host === '::1';
}

function invalid(name: string): CdsyncError {
  return new CdsyncError(`the variable ${name} is not the URL of a proxy`, {
    code: 'proxy_invalid',
    hint: 'write it as http://host:port or https://host:port, with user:password@ before the host if it asks for them',
  });
}

function parsed({ name, value }: { name: string; value: string }): URL {
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  // Without a cause: it would quote the password.
  if (!URL.canParse(text)) throw invalid(name);
  const url = new URL(text);
  if (!['http:', 'https:'].includes(url.protocol) || url.hostname === '') throw invalid(name);
  return url;
}

/**
 * The proxy for a URL, by HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in large letters or small. Nothing on this machine is reached by
 * a proxy.
 * @throws {CdsyncError} `proxy_invalid`, without the variable's value
 */
export function proxyFor(url: URL, env: Variables): ProxyRoute | undefined {
  const isSecure = url.protocol === 'https:';
  const setting = variable(env, isSecure ? 'HTTPS_PROXY' : 'HTTP_PROXY');
  const target = { hostname: url.hostname, port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port) };
  if (setting === undefined || isLoopback(target) || isExempt(target, variable(env, 'NO_PROXY')?.value ?? ''))
    return undefined;
  const proxy = parsed(setting);
  // Most runs have none.
  return { server: proxy, tunnel: async (to, ms) => (await import('./tunnel.js')).openTunnel(proxy, to, ms) };
}

type Done = (...ended: [null, Socket] | [Error, null]) => void;

/** Where a connection leads, as undici puts it. */
interface Hop {
  readonly hostname: string;
  readonly port: string;
  readonly protocol: string;
  readonly httpSocket?: Socket | undefined;
}

/** A connector of undici that goes by a proxy. @param connect the usual one: it encrypts the tunnel if the protocol says so */
export function byProxy<O extends Hop>(
  proxy: ProxyRoute,
  timeoutMs: number,
  connect: (options: O, done: Done) => void,
): (options: O, done: Done) => void {
  return (options, done) => {
    const { hostname, protocol, port } = options;
    const host = hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname;
    const target = { hostname: host, port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) };
    proxy.tunnel(target, timeoutMs).then(
      (socket) => (protocol === 'https:' ? connect({ ...options, httpSocket: socket }, done) : done(null, socket)),
      (error: Error) => done(error, null),
    );
  };
}

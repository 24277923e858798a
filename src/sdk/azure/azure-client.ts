import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type * as Azure from '@azure/storage-blob';
import { proxyAgents } from '../../core/proxy-agents.js';
import type { Secret } from '../../core/secret.js';
import { loginRefused, vendorLibrary } from '../errors.js';
import { silenceMs } from '../silence.js';

/** Where a container is, and how to log in. */
export interface AzureOptions {
  /** `az://container/prefix` */
  readonly url: string;
  readonly endpoint?: string | undefined;
  readonly account?: string | undefined;
  readonly accountKey?: Secret | undefined;
  readonly sas?: Secret | undefined;
  /** Ends all requests that are under way. */
  readonly signal: AbortSignal;
}

const connectMs = 10_000;
const maxSockets = 50;
const retryOptions = { maxTries: 4, retryDelayInMs: 500, maxRetryDelayInMs: 10_000 };

interface Connecting {
  createConnection(options: object, created?: (error: Error | null, socket?: Socket) => void): Socket | undefined;
}

/**
 * Makes an agent end connections on which nothing moves. The request is tried again on another, unless nothing has ever arrived from there: the
 * library repeats only failures whose codes it knows.
 */
function endsSilence<A extends HttpAgent>(agent: A, hasResponded: () => boolean): A {
  const connecting = agent as unknown as Connecting;
  const connect = connecting.createConnection.bind(agent);
  const watched = (socket: Socket | undefined) =>
    socket?.setTimeout(silenceMs, () => {
      const code = hasResponded() ? 'ETIMEDOUT' : 'ESILENT';
      socket.destroy(Object.assign(new Error('nothing moved on the connection'), { code }));
    });
  connecting.createConnection = (options, created) =>
    watched(
      connect(options, (error, socket) => {
        watched(socket);
        created?.(error, socket);
      }),
    );
  return agent;
}

interface Identity {
  readonly DefaultAzureCredential: new () => NonNullable<Parameters<typeof Azure.newPipeline>[0]>;
}

async function credentialOf(library: typeof Azure, { account = '', accountKey, sas }: AzureOptions) {
  if (accountKey !== undefined) return new library.StorageSharedKeyCredential(account, accountKey.reveal());
  if (sas !== undefined) return new library.AnonymousCredential();
  // Its types are not needed for one constructor, and are as large as all of the client.
  const name: string = '@azure/identity';
  const { DefaultAzureCredential } = await vendorLibrary(name, () => import(name) as Promise<Identity>);
  return new DefaultAzureCredential();
}

/** The end of a shared access signature; undefined if it does not say. */
export function sasEnd({ sas }: AzureOptions): Date | undefined {
  const end = new Date(parametersOf(sas)?.get('se') ?? '');
  return Number.isNaN(end.getTime()) ? undefined : end;
}

/** Whether a login may create blobs by one request each, and write nothing else. */
export function mayOnlyCreate({ sas }: AzureOptions): boolean {
  const permissions = parametersOf(sas)?.get('sp') ?? '';
  return permissions.includes('c') && !permissions.includes('w');
}

function parametersOf(sas: Secret | undefined): URLSearchParams | undefined {
  return sas && new URLSearchParams(sas.reveal().replace(/^\?+/, ''));
}

/** The URL of an account: a separate host, or a path of the host. */
function accountUrl({ endpoint, account = '' }: AzureOptions): string {
  if (endpoint === undefined) return `https://${account}.blob.core.windows.net`;
  const { host, pathname, protocol } = new URL(endpoint);
  return host.startsWith(`${account}.`) || pathname !== '/'
    ? `${protocol}//${host}${pathname.replace(/\/$/, '')}`
    : `${protocol}//${host}/${account}`;
}

export interface Client {
  readonly container: Azure.ContainerClient;
  close(): void;
}

/** @throws {CdsyncError} `connector_package_missing`; `destination_login` if the signature has ended */
export async function clientOf(options: AzureOptions): Promise<Client> {
  const end = sasEnd(options);
  if (end !== undefined && end.getTime() <= Date.now())
    throw loginRefused(`the shared access signature for ${options.url} ended on ${end.toISOString()}`, {
      hint: 'ask for a new one, and put it into `sas`',
    });
  const library = await vendorLibrary('@azure/storage-blob', () => import('@azure/storage-blob'));
  const agentOptions = { keepAlive: true, maxSockets };
  const { httpAgent, httpsAgent } = proxyAgents(process.env, { timeoutMs: connectMs, maxSockets }) ?? {
    httpAgent: new HttpAgent(agentOptions),
    httpsAgent: new HttpsAgent(agentOptions),
  };
  let isReached = false;
  const agents = [endsSilence(httpAgent, () => isReached), endsSilence(httpsAgent, () => isReached)] as const;
  const pipeline = library.newPipeline(await credentialOf(library, options), { retryOptions });
  pipeline.factories.push({
    create: (next) => ({
      async sendRequest(request) {
        request.agent = agents[request.url.startsWith('https:') ? 1 : 0];
        const response = await next.sendRequest(request);
        isReached = true;
        return response;
      },
    }),
  });
  const sas = options.sas === undefined ? '' : `?${options.sas.reveal().replace(/^\?+/, '')}`;
  const { hostname } = new URL(options.url);
  return {
    container: new library.ContainerClient(`${accountUrl(options)}/${hostname}${sas}`, pipeline),
    close: () => {
      for (const agent of agents) agent.destroy();
    },
  };
}

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { ServiceState } from '../service-state.js';
import { badRequest, headOf, ServiceError, send } from './response.js';

/** Longer than our own clients leave a connection idle. */
const keepAliveMs = 120_000;

/** The status for a request that Node cannot read, by the code of the error. For other codes it is 400. */
const unreadableStatuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** An HTTP server. Requests that Node itself would refuse without a body get an error body too (specification, section 7). */
export function createHttpServer(
  tls: { readonly key: string; readonly cert: string } | undefined,
  { clock, errors }: Pick<ServiceState, 'clock' | 'errors'>,
  listener: RequestListener,
): Server {
  const latest = new WeakMap<Duplex, ServerResponse>();
  const refuse = (serverResponse: ServerResponse, error: ServiceError) =>
    send(serverResponse, errors.of(error), clock.dateHeader());
  const listen = (request: IncomingMessage, serverResponse: ServerResponse) => {
    latest.set(request.socket, serverResponse);
    // A client may disconnect during a response; without a listener, that would end the process.
    serverResponse.on('error', () => undefined);
    if (request.headers.host === undefined && request.httpVersion === '1.1') {
      refuse(serverResponse, badRequest('the header Host is missing'));
      return;
    }
    // Servers must take a whole URL too, as proxies send it (RFC 9112, section 3.2.2).
    if (request.url?.startsWith('/') === false) request.url = request.url.replace(/^https?:\/\/[^/?]*/i, '');
    listener(request, serverResponse);
  };
  const tuning = { keepAliveTimeout: keepAliveMs, requestTimeout: 0, noDelay: true, requireHostHeader: false };
  const server = tls === undefined ? createServer(tuning, listen) : createTlsServer({ ...tuning, ...tls }, listen);
  server.on('checkExpectation', (_, serverResponse) =>
    refuse(serverResponse, new ServiceError(417, 'expect 100-continue alone')),
  );
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, socket) => {
    const serverResponse = latest.get(socket);
    const isBegun = serverResponse?.headersSent === true && !serverResponse.writableFinished;
    if (!socket.writable || isBegun) {
      socket.destroy();
      return;
    }
    const status = unreadableStatuses[code] ?? 400;
    const response = errors.of(new ServiceError(status, 'the request cannot be read', { Connection: 'close' }));
    const lines = headOf(response, clock.dateHeader()).map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${response.body}`);
  });
  return server;
}

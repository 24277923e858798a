import { createServer } from 'node:net';

/** The port if nothing on this machine listens there, otherwise 0: any free one. */
export function freePort(port: number, host = '127.0.0.1'): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(0));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(port)));
  });
}

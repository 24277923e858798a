import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that can cut its connections, like a server that goes away. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #left = Number.POSITIVE_INFINITY;
  #refuses = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(target: { readonly host: string; readonly port: number }): Promise<CuttingProxy> {
    const server = createServer();
    const proxy = new CuttingProxy(server);
    server.on('connection', (client) => proxy.#join(client, target));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #join(client: Socket, { host, port }: { readonly host: string; readonly port: number }): void {
    if (this.#refuses) {
      client.destroy();
      return;
    }
    const server = connect(port, host);
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
    client.on('data', (chunk: Buffer) => {
      this.#left -= chunk.length;
      if (this.#left < 0) this.cut();
      else server.write(chunk);
    });
    server.pipe(client);
  }

  /** Lets this many more bytes reach the server, then cuts every connection; later connections work. */
  cutAfter(bytes: number): void {
    this.#left = bytes;
  }

  /** Cuts every connection. */
  cut(): void {
    this.#left = Number.POSITIVE_INFINITY;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** With true, cuts every connection and refuses new ones; with false, accepts them again. */
  refuse(refuses: boolean): void {
    this.#refuses = refuses;
    if (refuses) this.cut();
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request and its response, as they went over the wire. */
export interface Exchange {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly sent: string;
  readonly status: number;
  readonly answered: string;
}

async function bytesOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** A proxy between a client and a service that passes everything on unchanged and records it. */
export class Recorder {
  readonly url: string;
  readonly exchanges: Exchange[] = [];
  readonly close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async open(behind: string): Promise<Recorder> {
    const server = createServer(async (request, response) => {
      const sent = await bytesOf(request);
      const { method = 'GET', headers } = request;
      const further = httpRequest(behind + request.url, { method, headers }, async (upstream) => {
        const body = await bytesOf(upstream);
        const status = upstream.statusCode ?? 0;
        const url = new URL(request.url ?? '', behind);
        recorder.exchanges.push({ method, url, headers, sent: sent.toString(), status, answered: body.toString() });
        response.writeHead(status, upstream.headers).end(body);
      });
      further.on('error', () => response.destroy());
      further.end(sent);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const recorder = new Recorder(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return recorder;
  }

  /** The last exchange, apart from requests for a token. */
  last(): Exchange {
    const found = this.exchanges.findLast(({ url }) => !url.pathname.endsWith('/oauth2/token'));
    if (found === undefined) throw new Error('nothing was sent');
    return found;
  }
}

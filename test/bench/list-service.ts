import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const indexes = '{"data":[{"id":"loyalty_members","name":"members"}],"next_token":"","total":1}';

/** The list of a service, whose records are made when they are asked for. */
export interface List {
  readonly records: number;
  /** Records in a page where a request does not say. */
  readonly pageSize: number;
  /** The record at a place of the list in a night, as JSON. */
  readonly record: (at: number, night: number) => string;
}

export interface ListService {
  readonly url: string;
  /** The next answers are of this night. */
  night: number;
  stop(): void;
}

export async function serveList({ records, pageSize, record }: List): Promise<ListService> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://list');
    const answer = (text: string) => {
      const body = Buffer.from(text);
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    };
    if (pathname.endsWith('/indexes')) return answer(indexes);
    const from = Number(searchParams.get('next_token') ?? 0);
    const to = Math.min(records, from + Number(searchParams.get('limit') ?? pageSize));
    const page = Array.from({ length: to - from }, (_, index) => record(from + index, service.night));
    answer(`{"data":[${page.join(',')}],"next_token":"${to < records ? to : ''}"}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const service: ListService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    night: 0,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return service;
}

import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { writeConfig } from './configs.js';
import { measure } from './process.js';
import type { Figure } from './table.js';

const indexOf = (stream: number) => (stream === 0 ? 'loyalty_members' : `index_${stream}`);

/** The list of a service, whose records are made when they are asked for. */
export interface List {
  readonly records: number;
  /** Records in a page where a request does not say. */
  readonly pageSize: number;
  /** How many streams read such a list, each its own; by default one. */
  readonly streams?: number;
  /** The record at a place of the list in a version, as JSON. */
  readonly record: (at: number, version: number) => string;
}

/** One run over a list, and what its report must say of the stream: a bench of something else must not pass for it. */
export interface ListRun {
  readonly what: string;
  /** which version of the records the list has. */
  readonly version: number;
  readonly expects: Readonly<Record<string, number>>;
}

interface ListService {
  readonly url: string;
  /** The next responses are of this version. */
  version: number;
  stop(): void;
}

async function serveList({ records, pageSize, streams = 1, record }: List): Promise<ListService> {
  const data = Array.from({ length: streams }, (_, stream) => ({ id: indexOf(stream), name: indexOf(stream) }));
  const indexes = JSON.stringify({ data, next_token: '', total: streams });
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://list');
    const respond = (text: string) => {
      const body = Buffer.from(text);
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    };
    if (pathname.endsWith('/indexes')) return respond(indexes);
    const from = Number(searchParams.get('next_token') ?? 0);
    const to = Math.min(records, from + Number(searchParams.get('limit') ?? pageSize));
    const page = Array.from({ length: to - from }, (_, index) => record(from + index, service.version));
    respond(`{"data":[${page.join(',')}],"next_token":"${to < records ? to : ''}"}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const service: ListService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    version: 0,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return service;
}

/** Runs one run after the other over a list. @param memoryMb the `memory_mb` of the runs */
export async function measureRuns(
  cdsync: string,
  folder: string,
  { name, list, memoryMb, runs }: { name: string; list: List; memoryMb: number; runs: readonly ListRun[] },
): Promise<Figure[]> {
  const service = await serveList(list);
  const settings = { base_url: service.url, tenant_id: 'acme', auth: { token: 'a-token' }, budget: { shared: 'none' } };
  const stream = { source: 'index_profiles', page_size: list.pageSize };
  const streams = Array.from({ length: list.streams ?? 1 }, (_, at) => ({
    ...stream,
    name: `s${at}`,
    index: indexOf(at),
  }));
  const job = { guards: { max_changed: '100%' }, streams };
  const config = await writeConfig(folder, name, {}, settings, job, { memory_mb: memoryMb });
  const figures: Figure[] = [];
  try {
    for (const { what, version, expects } of runs) {
      service.version = version;
      const usage = await measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet']);
      if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stdout}`);
      const [stream] = JSON.parse(usage.stdout).jobs[0].streams;
      const isOther = Object.entries(expects).some(([key, value]) => stream[key] !== value);
      if (isOther) throw new Error(`${what}: ${JSON.stringify(stream)}`);
      const measured = `${usage.wallSeconds.toFixed(1)} s / ${usage.cpuSeconds.toFixed(1)} s / ${Math.round(usage.peakMb)} MB`;
      process.stderr.write(`${what}: ${measured}\n`);
      figures.push({ what: `${what}, \`memory_mb: ${memoryMb}\`, wall / CPU / peak RSS`, measured });
    }
  } finally {
    service.stop();
    await rm(join(folder, name), { recursive: true, force: true });
  }
  return figures;
}

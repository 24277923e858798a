import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import { writeConfig } from './configs.js';
import { measure } from './process.js';
import type { Figure } from './table.js';

const pageSize = 1000;
const indexes = '{"data":[{"id":"loyalty_members","name":"members"}],"next_token":"","total":1}';

/** The record at a place of the list. Each `night` changes one of a thousand. */
function record(at: number, night: number): string {
  const points = (at * 7919) % 1000;
  const changed = night > 0 && at % 1000 === 17 ? points + night : points;
  return `{"id":"p${String(at).padStart(9, '0')}","index_id":"loyalty_members","attributes":{"points":${changed}}}`;
}

/** A service with one list, whose pages are made when they are asked for. */
async function serveList(count: number): Promise<{ url: string; night: number; stop(): Promise<void> }> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://list');
    const answer = (text: string) => {
      const body = Buffer.from(text);
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    };
    if (pathname.endsWith('/indexes')) return answer(indexes);
    const from = Number(searchParams.get('next_token') ?? 0);
    const to = Math.min(count, from + Number(searchParams.get('limit') ?? pageSize));
    const records: string[] = [];
    for (let at = from; at < to; at += 1) records.push(record(at, list.night));
    const next = to < count ? String(to) : '';
    answer(`{"data":[${records.join(',')}],"next_token":"${next}"}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const list = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    night: 0,
    stop: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return list;
}

/** How much memory nights take where a list is long and its records are small: what is known of them, and what else grows. */
export async function benchLongList(cdsync: string, folder: string, count: number): Promise<Figure[]> {
  const service = await serveList(count);
  // What is known may take half of it.
  const memoryMb = Math.max(768, Math.ceil((count * 48) / 1e6));
  const given = { base_url: service.url, tenant_id: 'acme', auth: { token: 'a-token' }, budget: { shared: 'none' } };
  const job = { guards: { max_changed: '100%' } };
  const config = await writeConfig(folder, 'long-list', { page_size: pageSize }, given, job, { memory_mb: memoryMb });
  const night = async (what: string, recognised: number): Promise<Figure> => {
    const usage = await measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet']);
    if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stdout}`);
    const { rows, recognised: known } = JSON.parse(usage.stdout).jobs[0].streams[0];
    if (rows !== count || known !== recognised) throw new Error(`${what}: ${rows} rows, ${known} recognised`);
    process.stderr.write(`${what}: ${usage.wallSeconds.toFixed(0)} s, ${Math.round(usage.peakMb)} MB\n`);
    return {
      what: `${formatCount(count)} records of 75 bytes, \`memory_mb: ${memoryMb}\`: ${what}, wall / CPU / peak RSS`,
      measured: `${usage.wallSeconds.toFixed(0)} s / ${usage.cpuSeconds.toFixed(0)} s / ${Math.round(usage.peakMb)} MB`,
    };
  };
  try {
    const figures = [await night('a first run', 0), await night('a night, nothing changed', count)];
    service.night = 1;
    return [...figures, await night('a night, 0.1 % changed', count - Math.floor((count - 18) / 1000) - 1)];
  } finally {
    await service.stop();
    await rm(join(folder, 'long-list'), { recursive: true, force: true });
  }
}

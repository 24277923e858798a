import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import { writeConfig } from './configs.js';
import { serveList } from './list-service.js';
import { measure } from './process.js';
import type { Figure } from './table.js';

const pageSize = 1000;

/** The record at a place of the list. Each `night` changes one of a thousand. */
function record(at: number, night: number): string {
  const points = (at * 7919) % 1000;
  const changed = night > 0 && at % 1000 === 17 ? points + night : points;
  return `{"id":"p${String(at).padStart(9, '0')}","index_id":"loyalty_members","attributes":{"points":${changed}}}`;
}

/** How much memory nights take where a list is long and its records are small: what is known of them, and what else grows. */
export async function benchLongList(cdsync: string, folder: string, count: number): Promise<Figure[]> {
  const service = await serveList({ records: count, pageSize, record });
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
    service.stop();
    await rm(join(folder, 'long-list'), { recursive: true, force: true });
  }
}

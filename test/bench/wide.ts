import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import { writeConfig } from './configs.js';
import { serveList } from './list-service.js';
import { measure } from './process.js';
import type { Figure } from './table.js';

const pageSize = 50;

/** A record of many attributes: numbers, texts and truth values by turns. Each `night` changes some numbers of one in ten. */
function record(columns: number) {
  return (at: number, night: number): string => {
    const isChanged = at % 10 === 3;
    const values = Array.from({ length: columns }, (_, column) => {
      if (column % 3 === 1) return [`attribute_${column}`, `text ${(at * column) % 977}`];
      if (column % 3 === 2) return [`attribute_${column}`, at % 2 === 0];
      return [`attribute_${column}`, at * column + (isChanged && column % 100 === 0 ? night : 0)];
    });
    return JSON.stringify({ id: `p${at}`, index_id: 'loyalty_members', attributes: Object.fromEntries(values) });
  };
}

/** What tables of very many columns cost, of which DuckDB looks at each in every step. */
export async function benchWide(cdsync: string, folder: string, columns: number, records: number): Promise<Figure[]> {
  const service = await serveList({ records, pageSize, record: record(columns) });
  const given = { base_url: service.url, tenant_id: 'acme', auth: { token: 'a-token' }, budget: { shared: 'none' } };
  const job = { guards: { max_changed: '100%' } };
  const config = await writeConfig(folder, 'wide', { page_size: pageSize }, given, job, { memory_mb: 768 });
  const night = async (what: string, updated: number): Promise<Figure> => {
    const usage = await measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet']);
    if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stdout}`);
    const [stream] = JSON.parse(usage.stdout).jobs[0].streams;
    if (stream.rows !== records || stream.updated !== updated) throw new Error(`${what}: ${JSON.stringify(stream)}`);
    return {
      what: `${formatCount(columns)} columns x ${formatCount(records)} rows, \`memory_mb: 768\`: ${what}, wall / CPU / peak RSS`,
      measured: `${usage.wallSeconds.toFixed(1)} s / ${usage.cpuSeconds.toFixed(1)} s / ${Math.round(usage.peakMb)} MB`,
    };
  };
  try {
    const figures = [await night('a first run', 0), await night('a night, nothing changed', 0)];
    service.night = 1;
    return [...figures, await night('a night, a tenth of the rows changed', Math.ceil((records - 3) / 10))];
  } finally {
    service.stop();
    await rm(join(folder, 'wide'), { recursive: true, force: true });
  }
}

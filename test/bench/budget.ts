import type { RunReport } from '../../src/core/run.js';
import { writeConfig } from './configs.js';
import { measure, serve } from './process.js';
import type { Figure } from './table.js';

const limit = 2000;
/** Pages of 10 need 20,000 requests: ten seconds of the whole budget. */
const profiles = 200_000;

/** How much of the tenant's limit 64 partitions use, against a service that counts a strict sliding second. */
export async function benchBudget(cdsync: string, folder: string): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  const config = await writeConfig(
    folder,
    'budget',
    { page_size: 10, partition_by: { attribute: 'country' } },
    { page_size: 500 },
  );
  try {
    // The first run learns the countries, the second reads them side by side.
    const warm = await writeConfig(folder, 'budget', { page_size: 500, partition_by: { attribute: 'country' } });
    await measure(process.execPath, [cdsync, 'run', warm, '--json', '--quiet'], service.env);
    await writeConfig(folder, 'budget', { page_size: 10, partition_by: { attribute: 'country' } });
    await service.control('stats/reset', {});
    const usage = await measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet'], service.env);
    const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
    const stream = job?.streams[0];
    if (stream === undefined) throw new Error(`no report: ${usage.stderr}`);
    const share = stream.requests / stream.seconds / limit;
    return [
      {
        what: `share of ${limit}/s used by 64 partitions, from the first to the last page`,
        measured: `${(share * 100).toFixed(1)} % (${stream.requests} requests in ${stream.seconds.toFixed(2)} s)`,
        reach: '>= 98 %',
        stretch: '>= 99.5 %',
      },
      { what: 'answers of status 429 drawn by it', measured: String(stream.throttled), reach: '0', stretch: '0' },
    ];
  } finally {
    await service.stop();
  }
}

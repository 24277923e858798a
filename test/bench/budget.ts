import type { RunReport } from '../../src/core/run.js';
import { writeConfig } from './configs.js';
import { measure, serve } from './process.js';
import type { Figure } from './table.js';

const limit = 2000;
/** Pages of 10 need 20,000 requests: ten seconds of the whole budget. */
const profiles = 200_000;

interface Seen {
  readonly at: number;
  readonly requests: number;
}

/**
 * Requests per second, counted by the service: from the end of the first burst, which a sliding window lets through at
 * once, to the last pages.
 */
function steadyRate(seen: readonly Seen[], pages: number): number {
  const from = seen.find(({ requests }) => requests >= limit);
  const to = seen.findLast(({ requests }) => requests <= pages);
  if (from === undefined || to === undefined) throw new Error('the run was too short to be watched');
  return ((to.requests - from.requests) / (to.at - from.at)) * 1000;
}

/** Share of the tenant's limit that 64 partitions use, at a service that counts a strict sliding second. */
export async function benchBudget(cdsync: string, folder: string): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  const config = await writeConfig(
    folder,
    'budget',
    { page_size: 10, partition_by: { attribute: 'country' } },
    { page_size: 500 },
  );
  try {
    // The first run learns the countries; the second reads them at the same time.
    const warm = await writeConfig(folder, 'budget', { page_size: 500, partition_by: { attribute: 'country' } });
    await measure(process.execPath, [cdsync, 'run', warm, '--json', '--quiet'], service.env);
    await writeConfig(folder, 'budget', { page_size: 10, partition_by: { attribute: 'country' } });
    await service.control('stats/reset', {});
    const seen: Seen[] = [];
    const usage = await measure(
      process.execPath,
      [cdsync, 'run', config, '--json', '--quiet'],
      service.env,
      async () => {
        const { requests } = (await service.control('stats')) as unknown as { requests: number };
        seen.push({ at: performance.now(), requests });
      },
    );
    const { peak_per_second } = await service.control('stats');
    const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
    const stream = job?.streams[0];
    if (stream === undefined) throw new Error(`no report: ${usage.stderr}`);
    const share = steadyRate(seen, stream.pages) / limit;
    return [
      {
        what: `share of ${limit}/s used by 64 partitions, after the first burst to the last page`,
        measured: `${(share * 100).toFixed(1)} % (peak in any second: ${JSON.stringify(peak_per_second)})`,
        reach: '>= 98 %',
        stretch: '>= 99.5 %',
      },
      { what: 'answers of status 429 drawn by it', measured: String(stream.throttled), reach: '0', stretch: '0' },
    ];
  } finally {
    await service.stop();
  }
}

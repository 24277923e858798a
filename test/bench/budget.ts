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

interface Load {
  readonly share: number;
  readonly throttled: number;
  readonly peak: unknown;
}

/** So many processes at once, each with 64 partitions and a storage folder of its own, within one limit. */
async function load(cdsync: string, folder: string, processes: number): Promise<Load> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  const names = Array.from({ length: processes }, (_, index) => `budget-${processes}-${index}`);
  const stream = { partition_by: { attribute: 'country' } };
  const run = (config: string, onSample?: () => void) =>
    measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet'], { env: service.env, onSample });
  try {
    // The first run learns the countries; the second reads them at the same time.
    for (const name of names) await run(await writeConfig(folder, name, { ...stream, page_size: 500 }));
    const configs: string[] = [];
    for (const name of names) {
      configs.push(await writeConfig(folder, name, { ...stream, page_size: 10 }, { page_size: 500 }));
    }
    await service.control('stats/reset', {});
    const seen: Seen[] = [];
    const look = async () => {
      const { requests } = (await service.control('stats')) as unknown as { requests: number };
      seen.push({ at: performance.now(), requests });
    };
    const usages = await Promise.all(configs.map((config, index) => run(config, index === 0 ? look : undefined)));
    const { peak_per_second: peak } = await service.control('stats');
    const streams = usages.map(({ stdout, stderr }) => {
      const read = (JSON.parse(stdout) as RunReport).jobs[0]?.streams[0];
      if (read === undefined) throw new Error(`no report: ${stderr}`);
      return read;
    });
    // The first to end leaves its part to the others; until then all of them send.
    const pages = streams.reduce((sum, read) => sum + read.pages, 0);
    const throttled = streams.reduce((sum, read) => sum + read.throttled, 0);
    return { share: steadyRate(seen, pages) / limit, throttled, peak };
  } finally {
    await service.stop();
  }
}

/** Share of the tenant's limit that is used, at a service that counts a strict sliding second. */
export async function benchBudget(cdsync: string, folder: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [processes, who, reach, stretch] of [
    [1, '64 partitions', '>= 98 %', '>= 99.5 %'],
    [2, 'two processes of 64 partitions', '>= 90 %', '>= 97 %'],
  ] as const) {
    const { share, throttled, peak } = await load(cdsync, folder, processes);
    figures.push(
      {
        what: `share of ${limit}/s used by ${who}, after the first burst to the last page`,
        measured: `${(share * 100).toFixed(1)} % (peak in any second: ${JSON.stringify(peak)})`,
        reach,
        stretch,
      },
      { what: 'answers of status 429 drawn by it', measured: String(throttled), reach: '0', stretch: '0' },
    );
  }
  return figures;
}

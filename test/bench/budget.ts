import type { RunReport } from '../../src/core/run-report.js';
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

/** The same from the first page to the last one: the first second and the last chains count too. */
function wholeRate(seen: readonly Seen[], pages: number): number {
  const few = 10;
  const from = seen.findLast(({ requests }) => requests <= few);
  const to = seen.find(({ requests }) => requests >= pages) ?? seen.at(-1);
  if (from === undefined || to === undefined) throw new Error('the run was too short to be watched');
  return ((to.requests - from.requests) / (to.at - from.at)) * 1000;
}

interface Load {
  readonly whole: number;
  readonly share: number;
  readonly throttled: number;
  readonly peak: unknown;
}

interface Shape {
  readonly who: string;
  /** Each has 64 partitions for each stream, and its own storage folder. */
  readonly processes: number;
  readonly streams: number;
  /** Milliseconds that the service waits before each response. */
  readonly latencyMs: number;
  readonly reach?: string;
  readonly stretch?: string;
}

/** Processes at once within one limit. */
async function load(cdsync: string, folder: string, { processes, streams, latencyMs }: Shape): Promise<Load> {
  const service = await serve(cdsync, ['--profiles', String(profiles), '--latency-ms', String(latencyMs)]);
  const names = Array.from({ length: processes }, (_, index) => `budget-${processes}-${latencyMs}-${index}`);
  const write = (name: string, page: number) => {
    const stream = { source: 'index_profiles', index: 'loyalty_members', partition_by: { attribute: 'country' } };
    const all = Array.from({ length: streams }, (_, index) => ({
      ...stream,
      name: `members_${index}`,
      page_size: page,
    }));
    return writeConfig(folder, name, {}, { page_size: 500 }, { streams: all });
  };
  const run = (config: string, onSample?: () => void) =>
    measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet'], { env: service.env, onSample });
  try {
    // The first run learns the countries; the second reads them at the same time.
    for (const name of names) await run(await write(name, 500));
    const configs: string[] = [];
    for (const name of names) configs.push(await write(name, 10));
    await service.control('stats/reset', {});
    const seen: Seen[] = [];
    const look = async () => {
      const { requests } = (await service.control('stats')) as unknown as { requests: number };
      seen.push({ at: performance.now(), requests });
    };
    const usages = await Promise.all(configs.map((config, index) => run(config, index === 0 ? look : undefined)));
    const { peak_per_second: peak } = await service.control('stats');
    const read = usages.flatMap(({ stdout, stderr }) => {
      const [job] = (JSON.parse(stdout) as RunReport).jobs;
      if (job === undefined) throw new Error(`no report: ${stderr}`);
      return job.streams;
    });
    // The first to end leaves its part to the others; until then all of them send.
    const pages = read.reduce((sum, stream) => sum + stream.pages, 0);
    const throttled = read.reduce((sum, stream) => sum + stream.throttled, 0);
    return { whole: wholeRate(seen, pages) / limit, share: steadyRate(seen, pages) / limit, throttled, peak };
  } finally {
    await service.stop();
  }
}

/** Share of the tenant's limit that is used, at a service that counts a strict sliding second. */
export async function benchBudget(cdsync: string, folder: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  const one = { processes: 1, streams: 1, latencyMs: 0 };
  const shapes: readonly Shape[] = [
    { ...one, who: '64 partitions', reach: '>= 98 %', stretch: '>= 99.5 %' },
    { ...one, who: 'two processes of 64 partitions', processes: 2, reach: '>= 90 %', stretch: '>= 97 %' },
    { ...one, who: '64 partitions of a service that responds after 15 ms', latencyMs: 15 },
    { ...one, who: '128 partitions of a service that responds after 50 ms', streams: 2, latencyMs: 50 },
  ];
  for (const shape of shapes) {
    const { who, reach, stretch } = shape;
    const { whole, share, throttled, peak } = await load(cdsync, folder, shape);
    figures.push(
      {
        what: `share of ${limit}/s used by ${who}, after the first burst to the last page`,
        measured: `${(share * 100).toFixed(1)} % (peak in any second: ${JSON.stringify(peak)})`,
        ...(reach === undefined ? {} : { reach, stretch }),
      },
      {
        what: 'the same from the first page to the last, with the first second and the end of the last chains',
        measured: `${(whole * 100).toFixed(1)} %`,
      },
      { what: 'responses of status 429', measured: String(throttled), reach: '0', stretch: '0' },
    );
  }
  return figures;
}

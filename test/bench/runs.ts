import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import { writeConfig } from './configs.js';
import { parseAlone, readPages } from './pages.js';
import { type ServedService, serve, type Usage } from './process.js';
import { type Run, runCdsync, runPlain } from './programs.js';
import { type Figure, median } from './table.js';

const pageSize = 1000;
/** JSON.parse alone is linear: 200,000 profiles stand for all, in memory that the bench has. */
const parsedPages = 200;

/** A run, and its CPU time as a ratio to JSON.parse alone of as many profiles, taken just before it. */
interface Compared extends Run {
  readonly ratio: number;
}

interface Round {
  readonly plain: Usage | undefined;
  readonly first: Compared;
  readonly night: Compared;
  readonly changed: Compared;
  readonly partitioned: Compared;
}

class Bench {
  readonly #cdsync: string;
  readonly #folder: string;
  readonly #service: ServedService;
  readonly #profiles: number;
  readonly #bodies: readonly Buffer[];

  constructor(cdsync: string, folder: string, service: ServedService, profiles: number, bodies: readonly Buffer[]) {
    this.#cdsync = cdsync;
    this.#folder = folder;
    this.#service = service;
    this.#profiles = profiles;
    this.#bodies = bodies;
  }

  async #run(config: string): Promise<Compared> {
    const scale = this.#profiles / Math.min(this.#profiles, parsedPages * pageSize);
    const parsed = parseAlone(this.#bodies) * scale;
    const run = await runCdsync(this.#cdsync, config, this.#service);
    return { ...run, ratio: run.cpuSeconds / parsed };
  }

  /** Every kind of run once, from nothing. */
  async round(): Promise<Round> {
    const [folder, service] = [this.#folder, this.#service];
    const database = join(folder, 'plain.duckdb');
    const list = await writeConfig(folder, 'list', { page_size: pageSize });
    const parts = { page_size: pageSize, partition_by: { attribute: 'country' } };
    const partition = await writeConfig(folder, 'partitioned', parts);
    const plain = this.#profiles <= 1_000_000 ? await runPlain(database, service, pageSize) : undefined;
    const first = await this.#run(list);
    const night = await this.#run(list);
    await this.#run(partition);
    const partitioned = await this.#run(partition);
    await service.control('change', { days: 1 });
    const changed = await this.#run(list);
    for (const name of ['plain.duckdb', 'list', 'partitioned']) {
      await rm(join(folder, name), { recursive: true, force: true });
    }
    return { plain, first, night, changed, partitioned };
  }
}

function cost(runs: readonly Compared[]): string {
  const ratio = median(runs.map((run) => run.ratio));
  const cpu = median(runs.map(({ cpuSeconds }) => cpuSeconds));
  return `${ratio.toFixed(2)}x (${cpu.toFixed(1)} CPU s); ${Math.round(peak(runs))} MB`;
}

function peak(runs: readonly Usage[]): number {
  return median(runs.map(({ peakMb }) => peakMb));
}

function againstPlain(rounds: readonly Round[]): string | undefined {
  const ratio = (of: (usage: Usage) => number) =>
    median(rounds.map(({ first, plain }) => (plain === undefined ? Number.NaN : of(first) / of(plain))));
  const ratios = [
    ratio((usage) => usage.wallSeconds),
    ratio((usage) => usage.cpuSeconds),
    ratio((usage) => usage.peakMb),
  ];
  return ratios.some(Number.isNaN) ? undefined : ratios.map((each) => `${each.toFixed(2)}x`).join(' / ');
}

function figures(profiles: number, rounds: readonly Round[]): Figure[] {
  const size = formatCount(profiles);
  const of = (name: Exclude<keyof Round, 'plain'>) => rounds.map((round) => round[name]);
  const counts = of('changed').map(({ job: { streams } }) =>
    streams.reduce((sum, { inserted, updated, deleted }) => sum + inserted + updated + deleted, 0),
  );
  const share = ((median(counts) / profiles) * 100).toFixed(1);
  const rate = Math.round(profiles / median(of('night').map(({ extraction }) => extraction)));
  const after = median(of('changed').map((run) => run.after));
  const plain = againstPlain(rounds);
  const what = 'CPU / JSON.parse alone; peak RSS';
  const all: Figure[] = [
    {
      what: `${size}: a night, nothing changed, ${what}`,
      measured: `${cost(of('night'))}; ${formatCount(rate)} profiles/s`,
      reach: '0.6x; 260 MB',
      stretch: '0.37x; 230 MB',
    },
    {
      what: `${size}: the same with \`partition_by\``,
      measured: cost(of('partitioned')),
      reach: '0.9x; 300 MB',
      stretch: '0.65x; 260 MB',
    },
    {
      what: `${size}: a night, ${share} % changed, DuckDB and Parquet published, ${what}`,
      measured: cost(of('changed')),
      reach: '1.8x; 500 MB',
      stretch: '1.3x; 400 MB',
    },
    {
      what: `${size}: the same, after the last page`,
      measured: `${after.toFixed(1)} s`,
      reach: '3 s',
      stretch: '1.5 s',
    },
    {
      what: `${size}: a first run, ${what}`,
      measured: cost(of('first')),
      reach: '4.0x; 600 MB',
      stretch: '3.3x; 500 MB',
    },
    ...(plain === undefined
      ? []
      : [
          {
            what: `${size}: a first run against the plain way (fetch, JSON.parse, appender), wall / CPU / peak RSS`,
            measured: plain,
            reach: 'each < 1.0x',
            stretch: 'each < 0.8x',
          },
        ]),
  ];
  // A smaller list costs mostly what starting costs.
  return profiles === 1_000_000 ? all : all.map((figure) => ({ what: figure.what, measured: figure.measured }));
}

async function roundsOf(cdsync: string, folder: string, profiles: number): Promise<Round[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  try {
    const bodies = await readPages(service, pageSize, parsedPages);
    const bench = new Bench(cdsync, folder, service, profiles, bodies);
    const rounds: Round[] = [];
    // One of ten million takes as long as ten of one million.
    while (rounds.length < (profiles <= 1_000_000 ? 3 : 1)) rounds.push(await bench.round());
    return rounds;
  } finally {
    await service.stop();
  }
}

/** Whole runs: a first one, nights without changes and one after a day of changes. The targets are for a million profiles. */
export async function benchRuns(cdsync: string, folder: string, sizes: readonly number[]): Promise<Figure[]> {
  const all: Figure[] = [];
  const nights: { profiles: number; peakMb: number }[] = [];
  for (const profiles of sizes) {
    const rounds = await roundsOf(cdsync, folder, profiles);
    all.push(...figures(profiles, rounds));
    nights.push({ profiles, peakMb: peak(rounds.map(({ night }) => night)) });
  }
  const [million, most] = [nights.find(({ profiles }) => profiles === 1_000_000), nights.at(-1)];
  if (million === undefined || most === undefined || most === million) return all;
  const bytes = ((most.peakMb - million.peakMb) * 2 ** 20) / (most.profiles - million.profiles);
  all.push({
    what: `growth of a night's peak RSS from 1,000,000 to ${formatCount(most.profiles)} profiles`,
    measured: `${bytes.toFixed(1)} B a profile`,
    reach: '24 B',
    stretch: '12 B',
  });
  return all;
}

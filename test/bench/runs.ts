import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import { writeConfig } from './configs.js';
import { parseAlone, readPages } from './pages.js';
import { type ServedService, serve, type Usage } from './process.js';
import { billOf, type Phase, type Run, runCdsync, runPlain } from './programs.js';
import { type Figure, median, spread } from './table.js';

const pageSize = 1000;
/** JSON.parse alone is linear: 200,000 profiles are parsed, as many as fit into memory, and the time is scaled to all. */
const parsedPages = 200;

/** A run, and its CPU time as a ratio to JSON.parse alone of as many profiles, taken just before it. */
interface Compared extends Run {
  readonly ratio: number;
}

interface Round {
  readonly plain: Usage | undefined;
  readonly first: Compared;
  readonly unchanged: Compared;
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

  /** Prints a cost at once: a bench that is stopped has printed all that it had measured. */
  #report(what: string, { cpuSeconds, wallSeconds, peakMb }: Usage): void {
    const figures = `${cpuSeconds.toFixed(1)} CPU s, ${wallSeconds.toFixed(1)} s, ${Math.round(peakMb)} MB`;
    process.stderr.write(`${formatCount(this.#profiles)}: ${what}: ${figures}\n`);
  }

  async #run(what: string, config: string): Promise<Compared> {
    const scale = this.#profiles / Math.min(this.#profiles, parsedPages * pageSize);
    const parsed = parseAlone(this.#bodies) * scale;
    const run = await runCdsync(this.#cdsync, config, this.#service);
    this.#report(what, run);
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
    if (plain !== undefined) this.#report('plain program', plain);
    const first = await this.#run('first run', list);
    const unchanged = await this.#run('nothing changed', list);
    await this.#run('first run, partitioned', partition);
    const partitioned = await this.#run('nothing changed, partitioned', partition);
    await service.control('change', { days: 1 });
    const changed = await this.#run('changed', list);
    for (const name of ['plain.duckdb', 'list', 'partitioned']) {
      await rm(join(folder, name), { recursive: true, force: true });
    }
    return { plain, first, unchanged, changed, partitioned };
  }

  /** The cost of each phase of a first, an unchanged and a changed run. */
  async bill(): Promise<Figure[]> {
    const list = await writeConfig(this.#folder, 'billed', { page_size: pageSize });
    const figures: Figure[] = [];
    for (const kind of ['a first run', 'nothing changed', 'changed']) {
      if (kind === 'changed') await this.#service.control('change', { days: 1 });
      const phases = await billOf(this.#cdsync, list, this.#service, this.#folder);
      const what = `${formatCount(this.#profiles)}: ${kind}, by phase: CPU s / s / MB`;
      const measured = phases.map(shownPhase).join('; ');
      process.stderr.write(`${what}: ${measured}\n`);
      figures.push({ what, measured });
    }
    await rm(join(this.#folder, 'billed'), { recursive: true, force: true });
    return figures;
  }
}

function shownPhase({ phase, cpu, wall, peakMb }: Phase): string {
  return `${phase} ${cpu.toFixed(2)} / ${wall.toFixed(1)} / ${Math.round(peakMb)}`;
}

function cost(runs: readonly Compared[]): string {
  const ratios = runs.map((run) => run.ratio);
  const cpu = median(runs.map(({ cpuSeconds }) => cpuSeconds));
  const memory = runs.map(({ peakMb }) => peakMb);
  const times = `${median(ratios).toFixed(2)}x${spread(ratios, 2)}, ${cpu.toFixed(1)} CPU s`;
  return `${times}; ${Math.round(peak(runs))} MB${spread(memory, 0)}`;
}

function peak(runs: readonly Usage[]): number {
  return median(runs.map(({ peakMb }) => peakMb));
}

function againstPlain(rounds: readonly Round[]): string | undefined {
  if (rounds.some(({ plain }) => plain === undefined)) return undefined;
  const ratio = (of: (usage: Usage) => number) => {
    const each = rounds.map(({ first, plain }) => of(first) / of(plain ?? first));
    return `${median(each).toFixed(2)}x${spread(each, 2)}`;
  };
  return [ratio((usage) => usage.wallSeconds), ratio((usage) => usage.cpuSeconds), ratio((usage) => usage.peakMb)].join(
    ' / ',
  );
}

function figures(profiles: number, rounds: readonly Round[]): Figure[] {
  const size = formatCount(profiles);
  const of = (name: Exclude<keyof Round, 'plain'>) => rounds.map((round) => round[name]);
  const counts = of('changed').map(({ job: { streams } }) =>
    streams.reduce((sum, { inserted, updated, deleted }) => sum + inserted + updated + deleted, 0),
  );
  const share = ((median(counts) / profiles) * 100).toFixed(1);
  const rate = Math.round(profiles / median(of('unchanged').map(({ extraction }) => extraction)));
  const after = of('changed').map((run) => run.after);
  const plain = againstPlain(rounds);
  const what = 'CPU / JSON.parse alone; peak RSS';
  const all: Figure[] = [
    {
      what: `${size}: a run, nothing changed, ${what}`,
      measured: `${cost(of('unchanged'))}; ${formatCount(rate)} profiles/s`,
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
      what: `${size}: a run, ${share} % changed, DuckDB and Parquet published, ${what}`,
      measured: cost(of('changed')),
      reach: '1.8x; 500 MB',
      stretch: '1.3x; 400 MB',
    },
    {
      what: `${size}: the same, after the last page`,
      measured: `${median(after).toFixed(1)} s${spread(after, 1)}`,
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
  // The cost of a smaller list is mostly the start of the process.
  return profiles === 1_000_000 ? all : all.map((figure) => ({ what: figure.what, measured: figure.measured }));
}

/** One of ten million takes as long as ten of one million. */
const rounds = (profiles: number) => (profiles > 1_000_000 ? 1 : profiles === 1_000_000 ? 2 : 3);

async function measureSize(
  cdsync: string,
  folder: string,
  profiles: number,
): Promise<{ readonly all: Round[]; readonly bill: Figure[] }> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  try {
    const bodies = await readPages(service, pageSize, parsedPages);
    const bench = new Bench(cdsync, folder, service, profiles, bodies);
    const bill = profiles > 1_000_000 ? [] : await bench.bill();
    const all: Round[] = [];
    while (all.length < rounds(profiles)) all.push(await bench.round());
    return { all, bill };
  } finally {
    await service.stop();
  }
}

/** Whole runs: a first one, runs without changes and one after a day of changes. The targets are for a million profiles. */
export async function benchRuns(cdsync: string, folder: string, sizes: readonly number[]): Promise<Figure[]> {
  const all: Figure[] = [];
  const peaks: { profiles: number; peakMb: number }[] = [];
  for (const profiles of sizes) {
    const { all: measured, bill } = await measureSize(cdsync, folder, profiles);
    all.push(...figures(profiles, measured), ...bill);
    peaks.push({ profiles, peakMb: peak(measured.map(({ unchanged }) => unchanged)) });
  }
  const [million, most] = [peaks.find(({ profiles }) => profiles === 1_000_000), peaks.at(-1)];
  if (million === undefined || most === undefined || most === million) return all;
  const bytes = ((most.peakMb - million.peakMb) * 2 ** 20) / (most.profiles - million.profiles);
  all.push({
    what: `growth of a run's peak RSS from 1,000,000 to ${formatCount(most.profiles)} profiles`,
    measured: `${bytes.toFixed(1)} B a profile`,
    reach: '24 B',
    stretch: '12 B',
  });
  return all;
}

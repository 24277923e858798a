import { formatCount } from '../../src/core/quantities.js';
import type { RunReport } from '../../src/core/run-report.js';
import { duckdbExtensions } from '../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../fixtures/iceberg-catalog.js';
import { icebergQuery } from '../fixtures/iceberg-rows.js';
import { ObjectStore } from '../fixtures/object-store.js';
import { Versitygw } from '../fixtures/versitygw.js';
import { writeConfig } from './configs.js';
import { measure, type ServedService, serve, type Usage } from './process.js';
import type { Figure } from './table.js';

interface Store {
  readonly url: string;
  readonly name: string;
  close(): Promise<void>;
}

/** A server that keeps its objects in a folder, or one of npm that keeps them in this process: too small for 10 million rows. */
async function openStore(): Promise<Store> {
  const server = await Versitygw.open('lake');
  if (server !== undefined) return { url: server.url, name: 'versitygw', close: () => server.close() };
  const store = await ObjectStore.open();
  await store.createBucket('lake');
  return { url: store.bareUrl, name: 'fauxqs', close: () => store.close() };
}

interface Pushed extends Usage {
  readonly rows: number;
}

class Bench {
  readonly #cdsync: string;
  readonly #config: string;
  readonly #service: ServedService;

  constructor(cdsync: string, config: string, service: ServedService) {
    this.#cdsync = cdsync;
    this.#config = config;
    this.#service = service;
  }

  async #command(words: readonly string[]): Promise<Pushed> {
    const [command = '', ...options] = words;
    const all = [this.#cdsync, command, this.#config, '--json', '--quiet', ...options];
    const usage = await measure(process.execPath, all, {
      env: { ...this.#service.env, STORE_SECRET: 'a-secret-of-the-test' },
    });
    if (usage.code !== 0) throw new Error(`cdsync ${command} ended with ${usage.code}: ${usage.stderr}${usage.stdout}`);
    const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
    return { ...usage, rows: job?.destinations[0]?.rows ?? 0 };
  }

  run(): Promise<Pushed> {
    return this.#command(['run', '--no-push']);
  }

  push(engine: string): Promise<Pushed> {
    return this.#command(['push', '--destination', engine]);
  }
}

function figure(what: string, { rows, wallSeconds, cpuSeconds, peakMb }: Pushed): Figure {
  const used = `${wallSeconds.toFixed(1)} s / ${cpuSeconds.toFixed(1)} CPU s / ${Math.round(peakMb)} MB`;
  return { what: `${what}: wall / CPU and peak RSS of cdsync`, measured: `${formatCount(rows)} rows: ${used}` };
}

/** Deliveries to an Iceberg table: a first one and one of a day with 1 % updated. */
export async function benchLake(cdsync: string, folder: string, profiles: number): Promise<Figure[]> {
  const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
  if (extensions === undefined) throw new Error("DuckDB's extensions for Iceberg cannot be had");
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const store = await openStore();
    closing.push(() => store.close());
    const catalog = await IcebergCatalog.start({ endpoint: store.url, bucket: 'lake' });
    if (catalog === undefined) throw new Error('there is no Iceberg catalog: it needs java and mvn');
    closing.push(() => catalog.stop());
    await catalog.createNamespace('cdp');
    const service = await serve(cdsync, ['--profiles', String(profiles)]);
    closing.push(() => service.stop());
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: '${STORE_SECRET}', endpoint: store.url };
    const place = { connector: 'iceberg', catalog: catalog.url, namespace: 'cdp', extensions, ...login };
    const destinations = [{ ...place, name: 'lake', table: 'members' }];
    const config = await writeConfig(folder, 'lake', { page_size: 1000 }, {}, { destinations });
    const bench = new Bench(cdsync, config, service);
    const figures: Figure[] = [];
    const push = async (load: string) => {
      const label = `Iceberg table of ${formatCount(profiles)} profiles in ${store.name}, ${load}`;
      figures.push(figure(label, await bench.push('lake')));
      process.stderr.write(`  ${figures.at(-1)?.what}: ${figures.at(-1)?.measured}\n`);
    };
    await bench.run();
    await push('first load');
    await service.control('change', { days: 1, updated: 0.01, inserted: 0.001, deleted: 0.001 });
    await bench.run();
    await push('a later run');
    const reading = { catalog: catalog.url, namespace: 'cdp', extensions, endpoint: store.url };
    const [counted] = await icebergQuery(reading, 'SELECT count(*) AS n FROM ice.cdp.members');
    figures.push({ what: 'rows of the table afterwards', measured: String(counted?.get('n')) });
    return figures;
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

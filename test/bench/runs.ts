import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { formatCount } from '../../src/core/quantities.js';
import type { JobReport, RunReport } from '../../src/core/run.js';
import { writeConfig } from './configs.js';
import { measure, type ServedService, serve, type Usage } from './process.js';
import type { Figure } from './table.js';

interface Run extends Usage {
  readonly job: JobReport;
  /** Seconds from the last page to the end. */
  readonly after: number;
  readonly extraction: number;
}

async function run(cdsync: string, config: string, service: ServedService): Promise<Run> {
  const usage = await measure(process.execPath, [cdsync, 'run', config, '--json', '--quiet'], service.env);
  if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stderr}${usage.stdout}`);
  const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
  if (job === undefined) throw new Error('the report has no job');
  const extraction = Math.max(...job.streams.map(({ seconds }) => seconds));
  return { ...usage, job, extraction, after: job.seconds - extraction };
}

/** The plain way to compare with: fetch + JSON.parse + row appender. */
async function plain(database: string, service: ServedService): Promise<Usage> {
  const { CDS_CLIENT_ID, CDS_CLIENT_SECRET, CDS_TENANT_ID = '' } = service.env;
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: CDS_CLIENT_ID ?? '',
    client_secret: CDS_CLIENT_SECRET ?? '',
  });
  const login = await fetch(`${service.url}/api/v0/oauth2/token`, {
    method: 'POST',
    headers: { 'x-service-tenant': CDS_TENANT_ID },
    body,
  });
  const { access_token } = (await login.json()) as { access_token: string };
  const tsx = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'tsx');
  const words = [join(import.meta.dirname, 'plain.ts'), service.url, access_token, CDS_TENANT_ID, database];
  if (!existsSync(tsx)) throw new Error('tsx is not installed: npm ci');
  const usage = await measure(process.execPath, ['--import', 'tsx', ...words]);
  if (usage.code !== 0) throw new Error(`the plain way ended with ${usage.code}: ${usage.stderr}`);
  return usage;
}

async function benchSize(cdsync: string, folder: string, profiles: number): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  const size = formatCount(profiles);
  const perMillion = 1_000_000 / profiles;
  const config = await writeConfig(folder, `runs-${profiles}`, {
    page_size: 1000,
    partition_by: { attribute: 'country' },
  });
  try {
    const slow = profiles <= 1_000_000 ? await plain(join(folder, `plain-${profiles}.duckdb`), service) : undefined;
    const first = await run(cdsync, config, service);
    const again = await run(cdsync, config, service);
    await service.control('change', { days: 1 });
    const nextDay = await run(cdsync, config, service);
    const changed = nextDay.job.streams.reduce(
      (sum, { inserted, updated, deleted }) => sum + inserted + updated + deleted,
      0,
    );
    const rate = Math.round(profiles / again.extraction);
    return [
      {
        what: `${size} profiles: extraction, server beside it`,
        measured: `${formatCount(rate)} profiles/s`,
        reach: '120,000',
        stretch: '200,000',
      },
      {
        what: `${size}: a first run, CPU s per million / peak RSS`,
        measured: `${(first.cpuSeconds * perMillion).toFixed(1)} / ${Math.round(first.peakMb)} MB`,
        reach: '- / 1018 MB',
        stretch: '- / 918 MB',
      },
      {
        what: `${size}: a run that finds nothing changed, CPU s per million / peak RSS`,
        measured: `${(again.cpuSeconds * perMillion).toFixed(1)} / ${Math.round(again.peakMb)} MB`,
        reach: '12 / 500 MB',
        stretch: '9 / 300 MB',
      },
      ...(slow === undefined
        ? []
        : [
            {
              what: `${size}: a first run against the plain way (fetch + JSON.parse + appender), wall / CPU / peak RSS`,
              measured: [
                first.wallSeconds / slow.wallSeconds,
                first.cpuSeconds / slow.cpuSeconds,
                first.peakMb / slow.peakMb,
              ]
                .map((ratio) => `${ratio.toFixed(2)}x`)
                .join(' / '),
            },
          ]),
      {
        what: `${size}: after the last page, nothing changed`,
        measured: `${again.after.toFixed(1)} s`,
        reach: '3 s',
        stretch: '1.5 s',
      },
      {
        what: `${size}: after the last page, ${formatCount(changed)} changed, publishing included`,
        measured: `${nextDay.after.toFixed(1)} s`,
        reach: '6 s',
        stretch: '3 s',
      },
      { what: `${size}: after the last page, the first run`, measured: `${first.after.toFixed(1)} s` },
    ];
  } finally {
    await service.stop();
  }
}

/** Whole runs: a first one, one without changes, and one after a day of changes. */
export async function benchRuns(cdsync: string, folder: string, sizes: readonly number[]): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const profiles of sizes) figures.push(...(await benchSize(cdsync, folder, profiles)));
  return figures;
}

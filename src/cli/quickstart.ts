import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { writeData, writeLine } from './standard-streams.js';

/** The document that `cdsync serve --json` writes once it listens. */
interface Listening {
  url: string;
  tenant_id: string;
  client_id: string;
  client_secret: string;
  control_token: string;
}

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..', '..');
const config = join(root, 'configs', 'quickstart.yaml');
const data = join(root, 'data');
const cdsync = join(here, 'main.js');

const queries = [
  'select tier, count(*) as members, round(avg(ltv), 2) as average_ltv from members group by tier order by members desc',
  'select country, count(*) as gold_members from gold_members group by country order by gold_members desc, country limit 5',
  'select _run_id, _op, count(*) as changes from members__changes group by all order by _run_id desc, _op limit 6',
];

function shown(path: string): string {
  return relative(process.cwd(), path) || '.';
}

async function cdsyncCommand(words: readonly string[], env: Record<string, string>): Promise<void> {
  writeData(`\n$ cdsync ${words.map((word) => (/[\s"']/.test(word) ? `"${word}"` : word)).join(' ')}\n`);
  const child = spawn(process.execPath, [cdsync, ...words], { stdio: 'inherit', env: { ...process.env, ...env } });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`cdsync ${words[0]} ended with exit code ${code}`);
}

/** Starts the local service in a separate process, and waits until it listens. */
async function startService() {
  await mkdir(data, { recursive: true, mode: 0o700 });
  const words = [
    cdsync,
    'serve',
    '--json',
    '--port',
    '0',
    '--profiles',
    '100000',
    '--state',
    join(data, 'service-state.json'),
  ];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the local service ended with exit code ${code}`);
  });
  failed.catch(() => undefined);
  const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), failed])) as [string];
  const service = JSON.parse(line) as Listening;
  return {
    service,
    stop: async () => {
      child.kill('SIGTERM');
      await failed.catch(() => undefined);
    },
  };
}

/** Lets a day pass in the local service, so that a second start finds changes. */
async function nextDay({ url, control_token }: Listening): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${control_token}` };
  await fetch(`${url}/_control/change`, { method: 'POST', headers, body: JSON.stringify({ days: 1 }) });
}

/** `npm start`: starts the local service, runs a job against it, lists the files, and runs three queries on them. */
async function quickstart(): Promise<void> {
  writeData('Starting a local Customer Data Service with 100,000 profiles ...\n');
  const { service, stop } = await startService();
  const env = {
    CDS_BASE_URL: service.url,
    CDS_TENANT_ID: service.tenant_id,
    CDS_CLIENT_ID: service.client_id,
    CDS_CLIENT_SECRET: service.client_secret,
  };
  try {
    await cdsyncCommand(['run', shown(config)], env);
    writeData(
      `\nFiles:\n  ${shown(join(data, 'quickstart', 'quickstart.duckdb'))}  open it with any DuckDB, read-only\n` +
        `  ${shown(join(data, 'quickstart', 'parquet'))}/<stream>/manifest.json  names the Parquet files of each snapshot\n` +
        `  ${shown(join(data, 'quickstart', 'reports'))}/  what each run did\n`,
    );
    for (const sql of queries) await cdsyncCommand(['query', shown(config), sql], env);
    await nextDay(service);
    writeData('\nA day has passed in the local service. Run npm start again to see what an incremental run brings.\n');
  } finally {
    await stop();
  }
}

await quickstart().catch((error: Error) => {
  writeLine('stderr', `error: ${error.message}`);
  process.exitCode = 1;
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { startLocalService } from '../../src/local-service/service.js';
import { table } from '../../src/output/table.js';
import { requestControl } from '../fixtures/control.js';
import { PostgresServer } from '../fixtures/postgres-server.js';

const root = join(import.meta.dirname, '..', '..');
const cdsync = join(root, 'dist', 'src', 'cli', 'main.js');
const config = join('configs', 'warehouse.yaml');

const byTier = `SELECT tier, count(*) AS members, count(vip.profile_id) AS vips, round(avg(ltv::numeric), 2) AS average_ltv
FROM cdp.members LEFT JOIN cdp.vip ON vip.profile_id = members.id GROUP BY tier ORDER BY members DESC`;
const lastChanged = 'SELECT _synced_at, count(*) AS members FROM cdp.members GROUP BY 1 ORDER BY 1';
const loads =
  'SELECT stream, table_name, action, generation, sequence, rows_sent, rows_after, committed_at FROM cdp._cdsync_loads ORDER BY committed_at';

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function command(words: readonly string[], env: Record<string, string>): Promise<void> {
  say(`\n$ cdsync ${words.join(' ')}`);
  const child = spawn(process.execPath, [cdsync, ...words], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`cdsync ${words[0]} ended with exit code ${code}`);
}

async function ask(server: PostgresServer, sql: string): Promise<void> {
  const rows = await server.query(sql);
  const text = (value: unknown) => (value instanceof Date ? value.toISOString() : String(value));
  say(`\nPostgreSQL> ${sql};`);
  const cells = rows.map((row) => Object.values(row).map(text));
  for (const line of table(Object.keys(rows[0] ?? {}), cells)) say(`  ${line}`);
}

/** `npm run demo:postgres`: copies the local service into a new PostgreSQL, then one day of changes. */
async function demonstrate(profiles: number): Promise<void> {
  say(`Starting a local Customer Data Service with ${profiles.toLocaleString('en')} profiles, and a PostgreSQL ...`);
  await mkdir(join(root, 'data'), { recursive: true, mode: 0o700 });
  const service = await startLocalService({ profiles, stateFile: join(root, 'data', 'service-state.json') });
  const server = await PostgresServer.start('cdsync-demo-');
  try {
    const env = {
      CDS_BASE_URL: service.url,
      CDS_TENANT_ID: service.tenantId,
      CDS_CLIENT_ID: service.clientId,
      CDS_CLIENT_SECRET: service.clientSecret,
      WAREHOUSE_URL: server.url(),
    };
    await command(['run', config], env);
    await ask(server, byTier);
    say('\nA day passes in the local service. The next run loads its changes, and nothing else, into PostgreSQL:');
    await requestControl(service, 'change', { method: 'POST', body: JSON.stringify({ days: 1 }) });
    await command(['run', config], env);
    await ask(server, lastChanged);
    await ask(server, loads);
    await command(['status', config], env);
  } finally {
    await server.stop();
    await service.close();
  }
  say('\nBoth servers are stopped, and the PostgreSQL is removed. The snapshot stays: data/warehouse/warehouse.duckdb');
}

await demonstrate(Number(process.argv[2] ?? 100_000)).catch((error: unknown) => {
  process.stderr.write(`error: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
});

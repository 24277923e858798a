import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLocalService } from '../../src/local-service/service.js';
import { requestControl } from '../fixtures/control.js';
import { duckdbExtensions } from '../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../fixtures/iceberg-catalog.js';
import { icebergQuery } from '../fixtures/iceberg-rows.js';
import { ObjectStore } from '../fixtures/object-store.js';
import { sparkIsThere, sparkRow } from '../fixtures/spark.js';
import { TrinoServer, trinoIsThere } from '../fixtures/trino.js';

const root = join(import.meta.dirname, '..', '..');
const cdsync = join(root, 'dist', 'src', 'cli', 'main.js');
const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test' };
const isComplete = process.argv.includes('--everything');

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function command(words: readonly string[], env: Record<string, string>): Promise<void> {
  say(`\n$ cdsync ${words.join(' ')}`);
  const child = spawn(process.execPath, [cdsync, ...words], { stdio: 'inherit', env: { ...process.env, ...env } });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`cdsync ${words[0]} ended with exit code ${code}`);
}

/** SQL that counts the members and sums the first eight hex digits of an MD5 of each: the same number in every engine. */
function checksum(digits: (text: string) => string): string {
  return `SELECT count(*) AS n, sum(${digits("concat(id, '|', coalesce(tier, ''), '|', coalesce(country, ''))")}) AS s`;
}

const inDuckdb = checksum((text) => `('0x' || substr(md5(${text}), 1, 8))::UBIGINT`);
const inTrino = checksum((text) => `from_base(substr(to_hex(md5(to_utf8(${text}))), 1, 8), 16)`);
const inSpark = checksum((text) => `cast(conv(substr(md5(${text}), 1, 8), 16, 10) AS bigint)`);

/** Reads the table by every engine that is there. @throws if two read something else */
async function compare({
  catalog,
  store,
  extensions,
  trino,
  hasSpark,
}: {
  readonly catalog: IcebergCatalog;
  readonly store: ObjectStore;
  readonly extensions: string;
  readonly trino: { readonly server: TrinoServer; readonly catalog: string } | undefined;
  readonly hasSpark: boolean;
}): Promise<void> {
  const reading = { catalog: catalog.url, namespace: 'cdp', extensions, endpoint: store.url };
  const [row] = await icebergQuery(reading, `${inDuckdb} FROM ice.cdp.members`);
  const read = new Map([['DuckDB', [...(row?.values() ?? [])].join(' rows, checksum ')]]);
  if (trino !== undefined) {
    const [found] = await trino.server.query(`${inTrino} FROM ${trino.catalog}.cdp.members`);
    read.set('Trino', (found ?? []).join(' rows, checksum '));
  }
  if (hasSpark)
    read.set(
      'Spark',
      (await sparkRow(catalog.url, store.bareUrl, `${inSpark} FROM ice.cdp.members`)).join(' rows, checksum '),
    );
  say('');
  for (const [engine, result] of read) say(`  ${engine.padEnd(7)} reads ${result}`);
  if (new Set(read.values()).size > 1) throw new Error('the engines do not read the same');
}

/** `npm run demo:iceberg`: the local service into an Iceberg table by DuckDB, then one day of changes, merged by Trino. */
async function demonstrate(profiles: number): Promise<void> {
  const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
  if (extensions === undefined) throw new Error("DuckDB's extensions for Iceberg cannot be had");
  say(
    `Starting a local Customer Data Service with ${profiles.toLocaleString('en')} profiles, an S3 store and an Iceberg REST catalog ...`,
  );
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-demo-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    const service = await startLocalService({ profiles, stateFile: join(folder, 'service-state.json') });
    closing.push(() => service.close());
    const store = await ObjectStore.open();
    closing.push(() => store.close());
    await store.createBucket('lake');
    const catalog = await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' });
    if (catalog === undefined) throw new Error('there is no Iceberg catalog: it needs java and mvn');
    closing.push(() => catalog.stop());
    await catalog.createNamespace('cdp');
    const hasSpark = sparkIsThere(isComplete);
    const server = trinoIsThere(true) ? await startTrino() : undefined;
    if (server !== undefined) closing.push(() => server.stop());
    const trino = server && { server, catalog: await server.rest(catalog.url, store.bareUrl) };
    const env = { CDS_CLIENT_SECRET: service.clientSecret, STORE_SECRET: login.secret_access_key };
    const configure = async (name: string, engine: unknown): Promise<string> => {
      const path = join(folder, name);
      const destination = {
        ...{ name: 'lake', connector: 'iceberg', catalog: catalog.url, namespace: 'cdp', engine, extensions },
        ...{ endpoint: store.url, access_key_id: login.access_key_id, secret_access_key: '${STORE_SECRET}' },
        mode: 'mirror',
      };
      const auth = { client_id: service.clientId, client_secret: '${CDS_CLIENT_SECRET}' };
      const streams = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }];
      const jobs = { lake: { streams, destinations: [destination] } };
      const at = { base_url: service.url, tenant_id: service.tenantId, auth };
      await writeFile(path, JSON.stringify({ version: 1, service: at, storage: './data', jobs }));
      return path;
    };
    await command(['run', await configure('day-one.json', 'duckdb')], env);
    await compare({ catalog, store, extensions, trino, hasSpark });
    await requestControl(service, 'change', { method: 'POST', body: JSON.stringify({ days: 1 }) });
    say(
      `\nA day passes in the local service. ${server ? 'Trino merges its changes:' : 'There is no Trino: DuckDB merges its changes:'}`,
    );
    const engine = server === undefined ? 'duckdb' : { trino: server.url };
    await command(['run', await configure('day-two.json', engine)], env);
    await compare({ catalog, store, extensions, trino, hasSpark });
    if (server === undefined || !hasSpark)
      say('\nNot shown: see NOT RUN above. `npm run demo:iceberg -- --everything` also downloads Spark.');
  } finally {
    for (const close of closing.reverse()) await close();
  }
  say('\nAll servers are stopped, and their files are removed.');
}

async function startTrino(): Promise<TrinoServer | undefined> {
  say('Starting Trino; the first time it is downloaded (821 MB) ...');
  try {
    return await TrinoServer.start();
  } catch (error) {
    process.stderr.write(
      `\n*** NOT RUN: Trino. ${error instanceof Error ? error.message.split('\n')[0] : error} ***\n\n`,
    );
    return undefined;
  }
}

const profiles = Number(process.argv.find((word) => /^\d+$/.test(word)) ?? 20_000);
await demonstrate(profiles).catch((error: unknown) => {
  process.stderr.write(`error: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
});

import { cp, mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import ducklake from '../../../connectors/ducklake/index.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { filesHolding } from '../../fixtures/files-holding.js';
import { LoadDriver, merge } from '../../fixtures/load-driver.js';
import { ObjectStore } from '../../fixtures/object-store.js';
import { statements, things } from './alterations.js';
import { inLake, type NetworkTrap } from './lake-alterations.js';

const extensions = await duckdbExtensions(['ducklake', 'httpfs']);
const content = 'the-secret-of-another';
const home = process.env.HOME;
let root: string;
let listener: Server;
let trap: NetworkTrap;
let driver: LoadDriver;
let connections = 0;
let lakes = 0;
/** Each alteration has a new one: DuckDB keeps parts of an earlier one in this process. */
const lake = () => join(root, `lake-${lakes}`);
const catalog = () => join(lake(), 'lake.ducklake');

async function open(): Promise<void> {
  const place = { catalog: { duckdb: catalog() }, data_path: join(lake(), 'data'), schema: 'cdp' };
  driver = await LoadDriver.open(ducklake, { extensions, ...place });
}

async function restore(): Promise<void> {
  await driver.close();
  lakes += 1;
  await cp(join(root, 'lake-0'), lake(), { recursive: true });
  await statements(catalog(), `UPDATE s.ducklake_metadata SET value = '${lake()}/data/' WHERE key = 'data_path'`);
  await open();
  await rm(trap.folder, { recursive: true, force: true });
  await mkdir(trap.folder);
  await writeFile(trap.secret, content, { mode: 0o600 });
  connections = 0;
}

const rowsOf = (value: string) =>
  `SELECT CASE WHEN i = 2 THEN 'delete' ELSE 'upsert' END AS _op, i::VARCHAR AS id, '${value}' AS name FROM range(6) r(i)`;

/** The ways in which a run, a check and a delivery use a lake. */
const works: Readonly<Record<string, () => Promise<unknown>>> = {
  look: () =>
    driver.with(async (destination) => [
      await destination.state({ destination: 'target', stream: 'members', table: 'members' }),
      await destination.describe('members'),
    ]),
  change: () => driver.load({ table: 'members', query: rowsOf('b'), key: ['id'], action: merge, sequence: 2 }),
  reload: () =>
    driver.load({
      table: 'members',
      query: rowsOf('c'),
      key: ['id'],
      action: { type: 'merge', absent: 'delete' },
      sequence: 3,
    }),
  add: () => driver.load({ table: 'others', query: 'SELECT 1 AS n', sequence: 4 }),
};

/** @param isLinked whether the secret is a file of the lake by its own name, too */
async function faults(isLinked = false): Promise<string[]> {
  const wrong: string[] = [];
  for (const [name, work] of Object.entries(works)) {
    // A time of access before that of the content: the next read moves it, also where the file system notes only some.
    await utimes(trap.secret, new Date(0), new Date(1000));
    const said = await work().then(
      () => 'ok',
      (error) => (error instanceof CdsyncError ? `${error.code} ${error.message}` : `not explained: ${error.stack}`),
    );
    if (said.startsWith('not explained') || said.includes(content)) wrong.push(`${name}: ${said}`);
    if (!isLinked && (await stat(trap.secret)).atimeMs !== 0) wrong.push(`${name} reads the secret`);
    if (connections > 0) wrong.push(`${name} opens a connection`);
    connections = 0;
  }
  const outside = await readdir(trap.folder);
  if (outside.length !== 1) wrong.push(`outside is ${outside}`);
  const { ino } = await stat(trap.secret);
  for (const file of await filesHolding(lake(), [content]))
    if ((await stat(join(lake(), file))).ino !== ino) wrong.push(`the secret is in ${file}`);
  return wrong;
}

describe.skipIf(extensions === undefined)(
  'a change of another program in a DuckLake is refused or of no effect',
  () => {
    beforeAll(async () => {
      root = await mkdtemp(join(tmpdir(), 'cdsync-altered-'));
      listener = createServer((socket) => {
        connections += 1;
        socket.destroy();
      });
      await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
      const folder = join(root, 'outside');
      trap = { secret: join(folder, 'secret'), folder, port: (listener.address() as AddressInfo).port };
      // The folder in which DuckDB looks for the extension that opens connections.
      process.env.HOME = root;
      const installed = join(root, '.duckdb', 'extensions', ...(extensions as string).split('/').slice(-2));
      await mkdir(installed, { recursive: true });
      await cp(join(extensions as string, 'httpfs.duckdb_extension'), join(installed, 'httpfs.duckdb_extension'));
      await open();
      await driver.load({
        table: 'members',
        query: rowsOf('a').replace(/.*AS _op,/, 'SELECT'),
        key: ['id'],
        sequence: 1,
      });
    }, 120_000);
    afterAll(async () => {
      process.env.HOME = home;
      listener.close();
      await driver.close();
      await rm(root, { recursive: true, force: true });
    });

    it.each(inLake)('%s, in its catalog', async (_, sql) => {
      await restore();
      await statements(catalog(), sql(trap));
      expect(await faults()).toEqual([]);
    });

    // A link is the user's way to a file.
    const replaced = things.filter(([what]) => what !== 'a link to a secret');
    it.each(replaced)('%s in the place of its catalog', async (what, make) => {
      await restore();
      await make(catalog(), trap);
      expect(await faults(what.includes('hard link'))).toEqual([]);
    });

    it.each(replaced.filter(([what]) => what !== 'a pipe'))('%s in the place of a data file', async (what, make) => {
      await restore();
      const folder = join(lake(), 'data', 'cdp', 'members');
      const [data = ''] = await readdir(folder);
      await make(join(folder, data), trap);
      expect(await faults(what.includes('hard link'))).toEqual([]);
    });

    it('a server in the path of a data file gets no login', async () => {
      const store = await ObjectStore.open();
      await store.createBucket('lake');
      const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test', session_token: 'x' };
      const file = join(root, 'in-bucket.ducklake');
      const place = { catalog: { duckdb: file }, data_url: 's3://lake/data', endpoint: store.url, ...login };
      const inBucket = await LoadDriver.open(ducklake, { extensions, schema: 'cdp', ...place });
      await inBucket.load({ table: 'members', query: rowsOf('a'), key: ['id'], sequence: 1 });
      await statements(file, `UPDATE s.ducklake_data_file SET path = path || '?s3_endpoint=127.0.0.1:${trap.port}'`);
      connections = 0;
      const change = { table: 'members', query: rowsOf('b'), key: ['id'], action: merge, sequence: 2 };
      await expect(inBucket.load(change)).rejects.toMatchObject({ code: 'destination_refused' });
      expect(connections).toBe(0);
      await inBucket.close();
      await store.close();
    });
  },
);

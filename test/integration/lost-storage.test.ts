import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DestinationReport } from '../../src/core/run-report.js';
import { PostgresServer } from '../fixtures/postgres-server.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let postgres: PostgresServer;
beforeAll(async () => {
  [space, postgres] = await Promise.all([Workspace.open({ profiles: 10 }), PostgresServer.start()]);
});
afterAll(async () => {
  await Promise.all([space.close(), postgres.stop()]);
});

const mirror = { name: 'copy', mode: 'mirror' };

/** The keys of a table. The file is closed again: deliveries need it. */
async function keysIn(path: string, table: string): Promise<string[]> {
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  try {
    const rows = await connection.runAndReadAll(`SELECT id FROM ${table} ORDER BY id`);
    return rows.getRowsJson().map(([id]) => String(id));
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** A place for the table `members`, and the keys that are in it. */
const places = {
  duckdb: () => {
    const path = join(space.folder, 'copy.duckdb');
    return { destination: { ...mirror, connector: 'duckdb', path }, keys: () => keysIn(path, 'members') };
  },
  postgres: () => {
    const schema = postgres.name();
    const rows = () => postgres.query(`SELECT id FROM "${schema}".members ORDER BY id`);
    const keys = async () => (await rows()).map(({ id }) => String(id));
    return { destination: { ...mirror, connector: 'postgres', url: postgres.url(), schema }, keys };
  },
  files: () => {
    const path = join(space.folder, 'copies');
    const keys = async () => {
      const { files } = JSON.parse(await readFile(join(path, 'members', 'manifest.json'), 'utf8'));
      const paths = files.map((file: { path: string }) => `'${join(path, 'members', file.path)}'`);
      return keysIn(':memory:', `read_parquet([${paths}])`);
    };
    return { destination: { ...mirror, connector: 'files', path }, keys };
  },
};

async function withPeople(ids: readonly string[]): Promise<void> {
  const records = ids.map((id) => JSON.stringify({ id, index_id: 'made', attributes: { n: 1 } }));
  await space.control('profiles', { index: 'made', records });
}

const members = { name: 'members', source: 'index_profiles', index: 'made' };

async function pushed(name: string, words: readonly string[]): Promise<[number | null, DestinationReport]> {
  const { code, stdout } = await space.cdsync(['push', `${name}.json`, '--json', ...words]);
  return [code, JSON.parse(stdout).jobs[0].destinations[0]];
}

describe.each(Object.entries(places))('a storage folder that is lost, with a table in %s', (name, place) => {
  it('is reported, and the table stays as it is until a person takes it over', async () => {
    const { destination, keys } = place();
    await space.configure(name, [members], { job: { destinations: [destination] } });
    await withPeople(['a', 'b', 'c']);
    await space.runWell(name);
    const folder = space.jobFolder(name);
    await rename(folder, `${folder}-kept`);
    await withPeople(['a']);

    const { code, report, stderr } = await space.run(name);
    const [delivery] = report.jobs[0]?.destinations ?? [];
    expect([code, delivery]).toMatchObject([
      5,
      { status: 'failed', action: 'refused', error: { code: 'storage_new' } },
    ]);
    expect(delivery?.error?.message).toMatch(/storage folder is new.* 3 rows of snapshot 1 .*1 row in snapshot 1/);
    expect(stderr).toContain('storage folder is new');
    expect(stderr).toContain('cdsync push');
    expect(await keys()).toEqual(['a', 'b', 'c']);
    const dry = await space.cdsync(['push', `${name}.json`, '--dry-run', '--json']);
    expect([dry.code, dry.stdout]).toEqual([5, expect.stringContaining('storage_new')]);
    // The next run does not heal it.
    expect((await space.run(name)).report.jobs[0]?.destinations[0]?.error?.code).toBe('storage_new');

    expect(await pushed(name, ['--adopt'])).toMatchObject([0, { action: 'reload', error: null }]);
    expect(await keys()).toEqual(['a']);
    expect(await pushed(name, [])).toMatchObject([0, { action: 'nothing' }]);
    await rm(`${folder}-kept`, { recursive: true });
  });
});

it('a storage folder that is lost is reported and continues with `new_storage: warn`', async () => {
  const path = join(space.folder, 'warned.duckdb');
  const destinations = [{ ...mirror, connector: 'duckdb', path }];
  await space.configure('warned', [members], { job: { destinations, guards: { new_storage: 'warn' } } });
  await withPeople(['a', 'b', 'c']);
  await space.runWell('warned');
  await rm(space.jobFolder('warned'), { recursive: true });
  await withPeople(['a']);
  const { code, stdout, stderr } = await space.cdsync(['run', 'warned.json', '--json']);
  const [delivery] = JSON.parse(stdout).jobs[0].destinations;
  expect([code, delivery]).toMatchObject([0, { status: 'ok', action: 'reload' }]);
  expect(delivery.why).toContain('3 rows of snapshot 1');
  expect(stderr).toContain('warning: destination copy: this storage folder is new');
  expect(await keysIn(path, 'members')).toEqual(['a']);
});

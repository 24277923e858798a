import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../../fixtures/workspace.js';

const streams = 20;

let space: Workspace;
/** Takes connections, and never responds. */
let silent: Server;
const sockets: Socket[] = [];
beforeAll(async () => {
  space = await Workspace.open({ profiles: 20 });
  silent = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  silent.close();
  await space.close();
});

async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const places = {
  postgres: (port: number) => ({ connector: 'postgres', url: `postgres://u:p@127.0.0.1:${port}/d?sslmode=disable` }),
  // It connects with its first statement.
  clickhouse: (port: number) => ({
    connector: 'clickhouse',
    url: `http://127.0.0.1:${port}`,
    username: 'u',
    database: 'd',
  }),
};

/** A job of many small streams, with a destination at this port beside one that works. */
async function runWith(job: string, place: object, count = streams) {
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  const more = Array.from({ length: count - 1 }, (_, at) => ({
    name: `s${at}`,
    source: 'sql',
    key: ['id'],
    query: `select id, ${at} as n from members`,
  }));
  const warehouse = { name: 'warehouse', ...place };
  const near = { name: 'near', connector: 'duckdb', path: `./${job}.duckdb` };
  await space.configure(job, [members, ...more] as never, { job: { destinations: [warehouse, near] } as never });
  return space.run(job);
}

describe('a destination that cannot be reached', () => {
  it.each([
    ['postgres', 'refuses'],
    ['postgres', 'is silent'],
    ['clickhouse', 'refuses'],
    ['clickhouse', 'is silent'],
  ] as const)(
    '%s that %s: it is looked for with the first stream only, and reported once',
    { timeout: 180_000 },
    async (connector, what) => {
      const port = what === 'refuses' ? await closedPort() : (silent.address() as AddressInfo).port;
      const before = sockets.length;
      const job = `${connector}_${what === 'refuses' ? 'refuses' : 'silent'}`;
      const { code, report, stderr } = await runWith(job, places[connector](port));
      const at = (destination: string) => report.jobs[0]?.destinations.filter((one) => one.name === destination) ?? [];
      expect(code).toBe(5);
      expect(at('near').map(({ status }) => status)).toEqual(Array.from({ length: streams }, () => 'ok'));
      expect(at('warehouse').map(({ status }) => status)).toEqual([
        'failed',
        ...Array.from({ length: streams - 1 }, () => 'not_tried'),
      ]);
      expect(new Set(at('warehouse').map(({ error }) => `${error?.code} ${error?.message}`)).size).toBe(1);
      expect(stderr.split('\n').filter((line) => line.includes('next attempt')).length).toBeLessThan(5);
      expect(sockets.length - before).toBeLessThan(4);
    },
  );

  it('that lacks an extension of DuckDB is opened with the first stream only', { timeout: 120_000 }, async () => {
    const { code, report } = await runWith(
      'extension',
      {
        connector: 'ducklake',
        catalog: { duckdb: './lake.ducklake' },
        data_path: './lake',
        extensions: './no-extensions',
      },
      3,
    );
    const lake = report.jobs[0]?.destinations.filter(({ name }) => name === 'warehouse') ?? [];
    expect(code).toBe(5);
    expect(lake.map(({ status }) => status)).toEqual(['failed', 'not_tried', 'not_tried']);
    expect(new Set(lake.map(({ error }) => error?.code))).toEqual(new Set(['duckdb_extension_missing']));
  });

  it('is looked for once by a dry run', { timeout: 120_000 }, async () => {
    const before = sockets.length;
    const { port } = silent.address() as AddressInfo;
    await runWith('planned', { connector: 'duckdb', path: './planned_wh.duckdb' });
    const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
    const more = Array.from({ length: 3 }, (_, at) => ({
      name: `s${at}`,
      source: 'sql',
      key: ['id'],
      query: 'from members',
    }));
    const destinations = [{ name: 'away', ...places.postgres(port) }];
    await space.configure('planned', [members, ...more] as never, { job: { destinations } as never });
    const { code, stdout } = await space.cdsync(['push', 'planned.json', '--dry-run']);
    expect(code).toBe(1);
    expect(stdout.match(/cannot be reached/g)).toHaveLength(4);
    expect(sockets.length - before).toBe(1);
  });
});

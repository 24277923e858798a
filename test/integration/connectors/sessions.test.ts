import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
let server: PostgresServer;
/** A relay before the server that counts connections. */
let door: Server;
let open = 0;
let most = 0;
/** After this number of connections it is closed. */
let left = Number.POSITIVE_INFINITY;
beforeAll(async () => {
  [space, server] = await Promise.all([Workspace.open({ profiles: 20 }), PostgresServer.start()]);
  door = createServer((socket: Socket) => {
    left -= 1;
    if (left < 0) return void socket.destroy();
    open += 1;
    most = Math.max(most, open);
    const inner = connect(server.port, '127.0.0.1');
    socket.on('close', () => {
      open -= 1;
      inner.destroy();
    });
    for (const each of [socket, inner]) each.on('error', () => undefined);
    inner.on('close', () => socket.destroy());
    socket.pipe(inner).pipe(socket);
  });
  await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
}, 120_000);
beforeEach(() => {
  [most, left] = [0, Number.POSITIVE_INFINITY];
});
afterAll(async () => {
  door.close();
  await Promise.all([space.close(), server.stop()]);
});

const streams = 8;

/** One run of a job with many small streams, which go through the door. */
async function run(job: string, user = '') {
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  const more = Array.from({ length: streams - 1 }, (_, at) => ({
    ...{ name: `s${at}`, source: 'sql', key: ['id'] },
    query: `select id, ${at} as n from members`,
  }));
  const url = new URL(server.url());
  url.port = String((door.address() as AddressInfo).port);
  if (user !== '') [url.username, url.password] = [user, 'secret'];
  const warehouse = { name: 'warehouse', connector: 'postgres', url: url.href, schema: job };
  await space.configure(job, [members, ...more] as never, { job: { destinations: [warehouse] } as never });
  const { report } = await space.run(job);
  return report.jobs[0]?.destinations ?? [];
}

const rowsIn = async (schema: string) => {
  const names = ['members', ...Array.from({ length: streams - 1 }, (_, at) => `s${at}`)];
  const counts = names.map((name) => `SELECT '${name}' AS name, count(*) AS n FROM ${schema}.${name}`);
  return (await server.query(counts.join(' UNION ALL '))).map(({ n }) => Number(n));
};

it('streams of one destination are delivered in a few sessions at once, the first one alone', async () => {
  const delivered = await run('several');
  expect(delivered.map(({ stream, status }) => `${stream} ${status}`)).toEqual([
    'members ok',
    ...Array.from({ length: streams - 1 }, (_, at) => `s${at} ok`),
  ]);
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(4);
  expect(await rowsIn('several')).toEqual(Array.from({ length: streams }, () => 20));
});

it('a user who may have one session at a time loads all streams, one after the other', async () => {
  await server.query(`CREATE ROLE one LOGIN CONNECTION LIMIT 1 PASSWORD 'secret'; GRANT CREATE ON DATABASE crm TO one`);
  const delivered = await run('single', 'one');
  expect(delivered.map(({ status, error }) => `${status} ${error?.code}`)).toEqual(
    Array.from({ length: streams }, () => 'ok undefined'),
  );
});

it('a server that goes away between streams is reported once', async () => {
  left = 3;
  const delivered = await run('away');
  const statuses = delivered.map(({ status }) => status);
  expect(statuses.filter((status) => status === 'failed')).toHaveLength(1);
  expect(statuses.filter((status) => status === 'ok').length).toBeGreaterThan(0);
  expect(statuses.filter((status) => status === 'not_tried').length).toBeGreaterThan(2);
});

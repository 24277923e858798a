import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { CuttingProxy } from '../../src/conformance/cutting-proxy.js';
import { bundledSender, type Sender, sendersOf } from '../fixtures/budget-senders.js';
import { PostgresServer } from '../fixtures/postgres-server.js';

let program: string;
let remove: () => Promise<void>;
let server: PostgresServer;
beforeAll(async () => {
  [{ program, remove }, server] = await Promise.all([bundledSender(), PostgresServer.start('cdsync-fleet-')]);
});
afterAll(async () => {
  await server?.stop();
  await remove?.();
});
beforeEach(() => server.query('DROP TABLE IF EXISTS cdsync_budget'));

/** Workers of a fleet: on machines of their own, as far as they know, with one database. */
async function fleet(limit: number, url = server.url()) {
  const { send, ...service } = await sendersOf(program, limit);
  return { ...service, send: (options: object = {}) => send({ shared: { postgres: url }, ...options }) };
}

const all = (senders: readonly Sender[], condition: (counts: Sender['reports'][number]) => boolean) =>
  Promise.all(senders.map((each) => each.until(condition)));

it('three workers use one limit together, and never more', async () => {
  const { send, stats, rate } = await fleet(300);
  const senders = [send(), send(), send()];
  await all(senders, ({ others, part }) => others === 2 && part >= 95);
  const before = Number(
    (await server.query('SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()'))[0]?.xact_commit,
  );
  expect(await rate(5)).toBeGreaterThan(300 * 0.9);
  expect((await stats()).peak).toBeLessThanOrEqual(300);
  expect(await stats()).toMatchObject({ throttled: 0 });
  const after = Number(
    (await server.query('SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()'))[0]?.xact_commit,
  );
  // Both figures are up to a second late, and reading them costs a few more.
  expect((after - before) / 5).toBeLessThan(20);
});

it('kill -9 and suspension of workers give their parts to the others, and the limit holds', async () => {
  const { send, stats, rate } = await fleet(120);
  const senders = [send(), send(), send(), send()];
  await all(senders, ({ others, part }) => others === 3 && part >= 28);
  const [killed, suspended, ...left] = senders as [Sender, Sender, ...Sender[]];
  killed.child.kill('SIGKILL');
  await suspended.suspend();
  await all(left, ({ part }) => part >= 55);
  suspended.resume();
  await all([suspended, ...left], ({ others, part }) => others === 2 && part >= 38);
  expect(await rate(4)).toBeGreaterThan(100);
  expect((await stats()).peak).toBeLessThanOrEqual(120);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('a worker that wants nothing, or has ended, leaves its part', async () => {
  const { send, stats, rate } = await fleet(100);
  const [idle, short] = [send({ requests: 1 }), send({ seconds: 2 })];
  await idle.until(({ requests }) => requests === 1);
  const busy = send();
  await short.ended;
  await busy.until(({ part }) => part === 100);
  expect(await rate(3)).toBeGreaterThan(85);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('while the database is away, workers use their leases, wait, say so once, and continue by themselves', async () => {
  const proxy = await CuttingProxy.open({ host: '127.0.0.1', port: server.port });
  onTestFinished(() => proxy.close());
  const { send, stats, rate, slowed } = await fleet(100, server.url(proxy.port));
  const senders = [send(), send()];
  await all(senders, ({ others, part }) => others === 1 && part >= 45);
  proxy.refuse(true);
  await all(senders, ({ part }) => part === 0);
  await slowed(0);
  expect(await rate(1)).toBe(0);
  proxy.refuse(false);
  await all(senders, ({ others, part }) => others === 1 && part >= 45);
  expect(await rate(3)).toBeGreaterThan(85);
  for (const { errors } of senders)
    expect(errors).toEqual([
      expect.stringMatching(
        /^warning: the database of the budget does not respond \((\w+|connection lost)\); requests wait until it does$/,
      ),
      'the database of the budget responds again',
    ]);
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('the smallest configured limit holds, and both say so', async () => {
  const { send, stats, rate, slowed } = await fleet(100);
  const [large, small] = [send(), send({ limit: 40 })];
  await large.until(({ others, part }) => others === 1 && part <= 20);
  await slowed(42);
  expect(await rate(3)).toBeLessThanOrEqual(42);
  expect([large.errors, small.errors]).toEqual([
    [
      'warning: other processes of this budget have rate_limits of 40 a second, this one 100; the smaller holds for all',
    ],
    [
      'warning: other processes of this budget have rate_limits of 100 a second, this one 40; the smaller holds for all',
    ],
  ]);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it.each([
  ['a wrong password', (url: string) => url.replace('owner-secret', 'wrong'), /password authentication failed/],
  ['a database that does not exist', (url: string) => url.replace('/crm', '/crn'), /database "crn" does not exist/],
])('%s ends the requests with an error that names the option', async (_, changed, reason) => {
  const { send } = await fleet(100, changed(server.url()));
  const sender = send();
  await sender.ended;
  const notices = sender.errors.join('\n');
  expect(notices).toMatch(/budget_unusable/);
  expect(notices).toMatch(/the database of service\.budget\.shared\.postgres cannot be used/);
  expect(notices).toMatch(reason);
  expect(notices).not.toMatch(/owner-secret|wrong@/);
});

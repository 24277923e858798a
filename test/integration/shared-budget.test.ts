import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { readLimitShare } from '../../src/rate-limit/file-leases.js';
import type { LeaseResponse } from '../../src/rate-limit/leases.js';
import { bundledSender, type Sender, sendersOf } from '../fixtures/budget-senders.js';
import { shell } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

let program: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  ({ program, remove } = await bundledSender());
});
afterAll(() => remove());

it('two processes use one limit together, and never more', async () => {
  const { send, stats, rate } = await sendersOf(program, 100);
  const [one, two] = [send(), send()];
  await Promise.all([one, two].map((each) => each.until(({ requests, others }) => requests > 0 && others === 1)));
  await Promise.all([one, two].map((each) => each.until(({ part }) => part > 30)));
  expect(await rate(5)).toBeGreaterThan(88);
  expect(await stats()).toMatchObject({ throttled: 0 });
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(one.last().part + two.last().part).toBeLessThanOrEqual(100);
});

it('another process that only looks sees the part of each process, and takes none', async () => {
  const { folder, service, send } = await sendersOf(program, 100);
  const [one, two] = [send(), send()];
  await Promise.all([one, two].map((each) => each.until(({ part }) => part > 30 && part < 70)));
  const options = {
    baseUrl: service.url,
    tenantId: service.tenantId,
    rateLimits: { profile: 100, management: 1, realtime: 1 },
  };
  for (const { child } of [one, two]) {
    const share = await readLimitShare(options, child.pid as number, async () => join(folder, 'cdsync'));
    expect(share).toMatchObject({ otherProcesses: 1 });
    expect(share?.part).toBeGreaterThan(0.3);
  }
  expect(await readLimitShare(options, process.pid, async () => join(folder, 'cdsync'))).toBeUndefined();
  expect([one.last().others, two.last().others]).toEqual([1, 1]);
});

it('two processes that share nothing exceed the limit', async () => {
  const { send, stats } = await sendersOf(program, 100);
  const senders = [1, 2].map(() => send({ shared: 'none', seconds: 3 }));
  await Promise.all(senders.map(({ ended }) => ended));
  expect((await stats()).throttled).toBeGreaterThan(0);
});

it('a process that wants nothing leaves its part to the one that does', async () => {
  const { send, rate, stats } = await sendersOf(program, 100);
  const idle = send({ requests: 1 });
  await idle.until(({ requests }) => requests === 1);
  const busy = send();
  await busy.until(({ part }) => part > 90);
  expect(await rate(4)).toBeGreaterThan(85);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('kill -9 of processes takes nothing from the others, and the limit holds', async () => {
  const { send, rate, stats } = await sendersOf(program, 120);
  const senders = [send()];
  await senders[0]?.until(({ requests }) => requests > 0);
  for (let n = 0; n < 5; n += 1) senders.push(send());
  await Promise.all(senders.map((each) => each.until(({ others }) => others === 5)));
  const left = [2, 4, 5].map((index) => senders[index] as Sender);
  for (const [killed, index] of [0, 3, 1].entries()) {
    senders[index]?.child.kill('SIGKILL');
    await Promise.all(left.map((each) => each.until(({ others }) => others === 4 - killed)));
  }
  await Promise.all(left.map((each) => each.until(({ others, part }) => others === 2 && part >= 38)));
  expect(await rate(4)).toBeGreaterThan(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
  expect((await stats()).peak).toBeLessThanOrEqual(120);
});

it('a suspended process loses its part to the others, and does not exceed the limit when it continues', async () => {
  const { send, rate, stats } = await sendersOf(program, 100);
  const first = send();
  await first.until(({ requests }) => requests > 0);
  const [one, two] = [send(), send()];
  await Promise.all([one, two].map((each) => each.until(({ part }) => part >= 30)));
  await first.suspend();
  await Promise.all([one, two].map((each) => each.until(({ others, part }) => others === 1 && part >= 45)));
  first.resume();
  await first.until(({ others, part }) => others === 2 && part >= 30);
  expect(await rate(3)).toBeGreaterThan(80);
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('a process that begins while the only other one is suspended gets the whole limit', async () => {
  const { send, stats } = await sendersOf(program, 100);
  const first = send();
  await first.until(({ requests }) => requests > 0);
  await first.suspend();
  const newcomer = send();
  await newcomer.until(({ part }) => part === 100);
  await newcomer.until(({ requests }) => requests > 150);
  first.resume();
  await first.until(({ others, part }) => others === 1 && part >= 45);
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('a process suspended later than the other loses its part, and gets one again when it continues', async () => {
  const { send, stats } = await sendersOf(program, 100);
  const first = send();
  await first.until(({ requests }) => requests > 0);
  const second = send();
  await first.until(({ part }) => part <= 55 && part > 0);
  await second.suspend();
  await first.until(({ part }) => part >= 99);
  second.resume();
  await Promise.all([first, second].map((each) => each.until(({ part }) => part >= 45 && part <= 55)));
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('a limit of one request a second goes round among three processes', async () => {
  const { send, stats } = await sendersOf(program, 1);
  const senders = [1, 2, 3].map(() => send({ chains: 1 }));
  await Promise.all(senders.map((each) => each.until(({ requests }) => requests >= 2)));
  expect(await stats()).toMatchObject({ throttled: 0, peak: 1 });
});

it('the smallest configured limit holds while its process lives', async () => {
  const { send, stats, rate, slowed } = await sendersOf(program, 100);
  const [large, small] = [send(), send({ limit: 40 })];
  await large.until(({ others, part }) => others === 1 && part <= 20);
  await slowed(42);
  expect(await rate(3)).toBeLessThanOrEqual(42);
  small.child.kill('SIGKILL');
  await large.until(({ part }) => part === 100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it('a process that starts right after another one counts the requests that the other one has sent', async () => {
  const { send, stats } = await sendersOf(program, 100);
  for (let n = 0; n < 4; n += 1) {
    const each = send({ requests: 60 });
    await each.until(({ requests }) => requests >= 50);
    each.child.kill('SIGKILL');
    await each.ended;
  }
  expect((await stats()).peak).toBeLessThanOrEqual(100);
  expect(await stats()).toMatchObject({ throttled: 0 });
});

it.each([
  [
    'and its process too',
    (space: Workspace, runtime: string) => shell(space, `XDG_RUNTIME_DIR=${runtime} cdsync run job.json`),
  ],
  [
    'in a process that runs others',
    (space: Workspace, runtime: string) => space.cdsync(['run', 'job.json'], { XDG_RUNTIME_DIR: runtime }),
  ],
])('a command that has ended, %s, holds no part, so that one that follows it at once need not wait', async (_, run) => {
  const space = await Workspace.open({ profiles: 10 });
  onTestFinished(() => space.close());
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
  const runtime = join(space.folder, 'runtime');
  await mkdir(runtime, { mode: 0o700 });
  expect(await run(space, runtime)).toMatchObject({ code: 0 });
  const accounts = await readdir(join(runtime, 'cdsync'));
  expect(accounts.length).toBeGreaterThan(0);
  for (const account of accounts) {
    const folder = join(runtime, 'cdsync', account);
    const [last] = await readdir(folder);
    const { members, answered } = JSON.parse(await readFile(join(folder, last as string), 'utf8')) as LeaseResponse;
    expect(answered).toBeGreaterThan(0);
    // Permits in use count for a second; the rest is free.
    for (const { part, held } of Object.values(members)) expect([part, held < 100]).toEqual([0, true]);
  }
});

it('a folder that is a link is not used: the process says so once, and continues alone', async () => {
  const { folder, send } = await sendersOf(program, 100);
  await symlink(tmpdir(), join(folder, 'cdsync'));
  const alone = send({ seconds: 1 });
  await alone.ended;
  expect(alone.errors).toEqual([
    expect.stringMatching(/^warning: the rate limits are not shared with other processes/),
  ]);
  expect(alone.last().requests).toBeGreaterThan(50);
});

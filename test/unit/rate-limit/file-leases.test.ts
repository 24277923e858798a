import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FileLeases } from '../../../src/rate-limit/file-leases.js';
import type { LeaseRequest, LeaseResponse } from '../../../src/rate-limit/leases.js';

async function privateFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-leases-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The folder of the only account. */
const accountIn = (folder: string) => join(folder, readdirSync(folder).join());

const storeIn = (folder: string) =>
  new FileLeases(
    () => undefined,
    async () => folder,
  );

/** A process that wants `target` of 100 permits. */
function request(
  member: string,
  number: number,
  change: Partial<LeaseRequest> & { target?: number } = {},
): LeaseRequest {
  const { target = 100, ...rest } = change;
  const demand = { limit: 100, part: 0, held: 0, used: 0, waiting: true };
  const counts = { answered: 1, refused: 0, pauseMs: 0, leaseMs: 1_500 };
  return { account: 'one', member, number, ...demand, ...counts, wanted: () => ({ target, total: 100 }), ...rest };
}

it('stores in one folder see the leases of each other, by account', async () => {
  const folder = await privateFolder();
  const [one, two] = [storeIn(folder), storeIn(folder)];
  await one.report(request('a', 1, { target: 60 }));
  const { members, answered } = await two.report(request('b', 1));
  expect([members.a?.part, members.b?.part, answered]).toEqual([60, 40, 2]);
  expect(Object.keys((await two.report(request('b', 1, { account: 'two' }))).members)).toEqual(['b']);
});

it('few generations stay, for the user alone, and no name or text of the account', async () => {
  const folder = await privateFolder();
  const store = storeIn(folder);
  for (let number = 1; number <= 30; number += 1) await store.report(request('a', number, { account: 'acme' }));
  const names = await readdir(accountIn(folder));
  expect(names.length).toBeLessThan(12);
  expect([accountIn(folder), ...names].join()).not.toContain('acme');
  expect((await stat(accountIn(folder))).mode & 0o777).toBe(0o700);
  for (const name of names) expect((await stat(join(accountIn(folder), name))).mode & 0o777).toBe(0o600);
  await store.report(request('a', 31, { account: 'acme', leaseMs: 0 }));
  expect(await readdir(accountIn(folder))).toEqual(['31']);
});

it.each([
  ['the next generation', 1],
  ['so many that the one after the last is there no more, as after a suspension', 20],
])('a report begins again if others write %s while it decides', async (_, written) => {
  const folder = await privateFolder();
  await storeIn(folder).report(request('b', 1, { target: 0 }));
  let hasOvertaken = false;
  const overtake = () => {
    if (hasOvertaken) return;
    hasOvertaken = true;
    const own = accountIn(folder);
    const leases = JSON.parse(readFileSync(join(own, '1'), 'utf8')) as LeaseResponse;
    const members = { b: { ...leases.members.b, number: 2, part: 80, held: 80 } };
    if (written > 1) rmSync(join(own, '1'));
    writeFileSync(join(own, String(1 + written)), JSON.stringify({ ...leases, answered: 2, members }));
  };
  const wanted = () => {
    overtake();
    return { target: 100, total: 100 };
  };
  const { members, answered } = await storeIn(folder).report({ ...request('a', 1), wanted });
  expect([members.a?.part, members.b?.part, answered]).toEqual([20, 80, 3]);
  // The others see it too.
  expect((await storeIn(folder).report(request('c', 1))).members).toMatchObject({ a: { part: 20 }, c: { part: 0 } });
});

it('a file that a loss of power has emptied counts as no leases, as does one from before a restart of the machine', async () => {
  const folder = await privateFolder();
  await storeIn(folder).report(request('a', 1, { target: 70 }));
  const last = async () => join(accountIn(folder), (await readdir(accountIn(folder))).sort().at(-1) as string);
  await truncate(await last(), 0);
  const { members, now } = await storeIn(folder).report(request('b', 1));
  expect([members.a, members.b?.part]).toEqual([undefined, 100]);
  const later = { now: now + 1e9, answered: 9, refused: 9, pause_until: now + 1e9, members };
  await writeFile(await last(), JSON.stringify(later));
  expect((await storeIn(folder).report(request('c', 1))).members).toEqual({
    c: expect.objectContaining({ part: 100 }),
  });
});

it('many stores at once: together they never have more than the limit, and every response is counted', async () => {
  const folder = await privateFolder();
  const reports = 40;
  const members = await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const store = storeIn(folder);
      let part = 0;
      for (let number = 1; number <= reports; number += 1) {
        const target = (index * 7 + number * 13) % 30;
        const response = await store.report(request(`m${index}`, number, { target, part, held: part }));
        part = response.members[`m${index}`]?.part ?? 0;
        const held = Object.values(response.members).reduce((sum, each) => sum + each.part, 0);
        expect(held).toBeLessThanOrEqual(100);
      }
      return store;
    }),
  );
  const { answered } = await (members[0] as FileLeases).report(request('last', 1));
  expect(answered).toBe(12 * reports + 1);
});

it('folders of accounts that no process has used for a day are removed', async () => {
  const folder = await privateFolder();
  const now = Date.now();
  await storeIn(folder).report(request('a', 1, { account: 'one' }));
  const spy = vi.spyOn(Date, 'now').mockReturnValue(now + 2 * 86_400_000);
  onTestFinished(() => spy.mockRestore());
  const [old] = await readdir(folder);
  // Each process looks at some of them only.
  for (let n = 0; n < 20 && (await readdir(folder)).includes(old as string); n += 1)
    await storeIn(folder).report(request('a', 1, { account: 'two' }));
  expect(await readdir(folder)).not.toContain(old);
});

it('without a folder the reason is thrown, and nothing is written', async () => {
  const store = new FileLeases(
    () => undefined,
    () => Promise.reject(new Error('no folder for this user')),
  );
  await expect(store.report(request('a', 1))).rejects.toThrow('no folder for this user');
});

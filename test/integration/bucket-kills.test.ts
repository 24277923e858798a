import { rm } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
import { randomFrom } from '../fault/random.js';
import { bucketName, Machines } from '../fixtures/machines.js';
import { ObjectStore } from '../fixtures/object-store.js';
import { seed } from '../fixtures/seed.js';
import { Versitygw } from '../fixtures/versitygw.js';
import { ended, Workspace } from '../fixtures/workspace.js';

/** `CDSYNC_TEST_BUCKET_PROFILES=300000` is the measure of the documents. */
const profiles = Number(process.env.CDSYNC_TEST_BUCKET_PROFILES ?? 30_000);
const kills = Number(process.env.CDSYNC_TEST_KILLS ?? 10);

const job = {
  streams: [{ name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 100 }],
  guards: { max_deleted: '100%', max_changed: '1000%' },
};

let space: Workspace;
let server: Versitygw | undefined;
let store: ObjectStore | undefined;
let machines: Machines;

beforeAll(async () => {
  // About ten seconds for a reading, so that kills strike on the way.
  space = await Workspace.open({ profiles, latencyMs: Math.round(4_000_000 / profiles) });
  server = await Versitygw.open(bucketName);
  if (server === undefined) {
    console.warn(
      'NOT TRIED on a real S3 server: versitygw is not installed; a proxy adds conditional writes to fauxqs',
    );
    store = await ObjectStore.open();
    await store.createBucket(bucketName);
  }
  const at = server?.login ?? Machines.login(store as ObjectStore);
  machines = new Machines(space, { ...at, takeover_after: '5s' }, job);
  for (const machine of ['a', 'b']) await machines.add(machine);
  await space.configure('calm', job.streams, { job: { guards: job.guards }, service: { concurrency: 4 } });
});
afterAll(async () => {
  await server?.close();
  await store?.close();
  await space.close();
});

/** Kills runs at random instants, on one machine and the other by turns, until one gets through. */
async function killUntilDone(
  random: () => number,
  most: number,
): Promise<{ killed: number; resumed: number; report: JobReport }> {
  let [killed, resumed] = [0, 0];
  for (let turn = 0; ; turn += 1) {
    const machine = turn % 2 === 0 ? 'a' : 'b';
    // Half of the machines come back without their cache, as containers do.
    if (random() < 0.5) await rm(machines.cache(machine), { recursive: true, force: true });
    const child = machines.spawn(machine);
    const result = ended(child);
    const stop = new AbortController();
    if (killed < most)
      wait(3_000 + random() * 9_000, undefined, { signal: stop.signal }).then(
        () => child.kill('SIGKILL'),
        () => undefined,
      );
    const { code, stdout, stderr } = await result;
    stop.abort();
    if (code === null) killed += 1;
    else if (code === 0) {
      const [report] = (JSON.parse(stdout) as { jobs: [JobReport] }).jobs;
      if (report.resumed) resumed += 1;
      return { killed, resumed, report };
    } else throw new Error(`after ${killed} kills the run on ${machine} ended with ${code}: ${stderr}`);
  }
}

describe('a job that moves between two machines', () => {
  it(`ends as an undisturbed one, killed ${kills} times on the way (${profiles} profiles, seed ${seed})`, async () => {
    const random = randomFrom(seed);
    const tally = { runs: 0, kills: 0, resumed: 0 };
    while (tally.kills < kills) {
      await space.runWell('calm');
      const { killed, resumed, report } = await killUntilDone(random, Math.min(kills - tally.kills, 6));
      tally.runs += 1;
      tally.kills += killed;
      tally.resumed += resumed;
      expect(report.status).toBe('ok');
      for (const sql of [
        'select count(*)::int as n, bit_xor(hash(id, tier, points, country, email))::varchar as h from members',
        'select _op, count(*)::int as n, bit_xor(hash(id, tier, points))::varchar as h from members__changes group by 1 order by 1',
      ])
        expect(await machines.query(tally.runs % 2 === 0 ? 'a' : 'b', sql)).toEqual(await space.query('calm', sql));
      await space.control('change', { days: 1 });
    }
    for (const machine of ['a', 'b']) {
      const { code, stdout } = await machines.cdsync(machine, 'verify', '--json');
      expect([code, stdout]).toEqual([0, expect.any(String)]);
    }
    console.info(`${tally.kills} kills in ${tally.runs} runs survived, ${tally.resumed} runs resumed, seed ${seed}`);
  }, 3_600_000);
});

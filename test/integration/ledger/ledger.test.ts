import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../../src/core/run-report.js';
import { bucketName, Machines } from '../../fixtures/machines.js';
import { ObjectStore } from '../../fixtures/object-store.js';
import { ended, streamOf, Workspace } from '../../fixtures/workspace.js';
import { type DayEvent, ExpectedLedger, events, ledgerStreams, type People, Population } from './days.js';

let space: Workspace;
let store: ObjectStore;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  store = await ObjectStore.open();
  await store.createBucket(bucketName);
});
afterAll(async () => {
  await store.close();
  await space.close();
});

const names = ledgerStreams.map(({ name }) => name);
const people = {
  name: 'people',
  source: 'index_profiles',
  index: 'people',
  guards: { max_deleted: 'off', max_changed: 'off' },
};
const impossible = { min_rows: 1_000_000 };

const serve = (rows: People) =>
  space.control('profiles', {
    index: 'people',
    records: [...rows.values()].map(({ id, ...attributes }) => JSON.stringify({ id, index_id: 'people', attributes })),
  });

/** A job, and whether its storage is in a bucket. */
interface Series {
  readonly job: string;
  readonly bucket: boolean;
  /** Whether the ledger that was committed last was approved: no limit that it breaks holds a larger one. */
  isApproved?: boolean;
}

/** @param held the streams that a guard holds */
function configure({ job, bucket }: Series, held: readonly string[] = []): Promise<string> {
  const guarded = [people, ...ledgerStreams].map((stream) => {
    const guards = {
      max_deleted: 'off',
      max_changed: 'off',
      min_rows: 0,
      ...(held.includes(stream.name) ? impossible : {}),
    };
    return { ...stream, guards };
  });
  const destinations = [
    {
      name: 'copy',
      connector: 'duckdb',
      path: join(space.folder, `${job}.copy.duckdb`),
      mode: 'upsert',
      streams: names,
    },
  ];
  const at = { url: `s3://${bucketName}/${job}`, ...Machines.login(store), cache: './data' };
  return space.configure(job, guarded, { job: { destinations }, ...(bucket ? { storage: at } : {}) });
}

/** The rows of the ledger's streams, in the published file. */
async function published({ job, bucket }: Series) {
  // The cache may be new.
  if (bucket) expect((await space.cdsync(['query', `${job}.json`, 'from cdsync.runs'])).code).toBe(0);
  const rows = (query: string) => space.query(job, query);
  return {
    became: new Map((await rows('from became')).map((row) => [`${row.old_id}>${row.new_id}`, String(row.email)])),
    vips: new Set((await rows('from new_vips')).map(({ id }) => String(id))),
    left: new Map((await rows('from departed')).map(({ id, tier, ltv }) => [String(id), `${tier} ${ltv}`])),
  };
}

const shown = ({ became, vips, left }: Pick<ExpectedLedger, 'became' | 'vips' | 'left'>) => ({
  became: new Map([...became].sort()),
  vips: [...vips].sort(),
  left: new Map([...left].sort()),
});

/** One run. @returns whether the ledger's streams were committed */
async function runWith(series: Series, event: DayEvent, seed: number): Promise<boolean> {
  const { job } = series;
  const holds = event.startsWith('held');
  await configure(series, holds ? names : event === 'people held' ? ['people'] : []);
  if (event === 'killed') {
    const child = space.spawn(['run', `${job}.json`, '--no-push']);
    // Some time between the start of the program and the end of the run.
    const timer = setTimeout(
      () => child.kill('SIGKILL'),
      400 + (createHash('sha256').update(`${seed}`).digest()[0] ?? 0) * 6,
    );
    await ended(child);
    clearTimeout(timer);
    await space.runWell(job);
    return true;
  }
  if (event === 'fails')
    await space.control('faults', { kind: 'status', status: 403, match: '/profiles', count: 1000 });
  const chosen = event === 'only people' ? ['people'] : event === 'only ledger' ? names : [];
  const words = [...chosen.flatMap((name) => ['--stream', name]), ...(event === 'full' ? ['--full'] : [])];
  const { report, code, stderr } = await space.run(job, words);
  await space.clearFaults();
  const [ran] = report.jobs as [JobReport];
  if (!holds) {
    const isWell = event !== 'fails' && event !== 'people held';
    expect(code === 0, `${event}: ${code} ${stderr}`).toBe(isWell);
    return isWell && event !== 'only people';
  }
  expect(code, stderr).toBe(series.isApproved ? 0 : 3);
  if (series.isApproved) return true;
  for (const name of names) expect(streamOf(ran, name).status).toBe('held');
  if (event === 'held') return false;
  const decision = await space.cdsync([event === 'held, approved' ? 'approve' : 'discard', `${job}.json`, ran.run_id]);
  expect(decision.code, decision.stderr).toBe(0);
  series.isApproved = event === 'held, approved';
  return series.isApproved;
}

const count = Number(process.env.CDSYNC_TEST_LEDGERS ?? 1);
const seeds = Array.from({ length: count }, (_, index) => index + 1);

async function compare(seed: number, series: Series): Promise<void> {
  const population = new Population(seed, 60);
  const ledger = new ExpectedLedger();
  // The rows that the last committed run of `people` has read.
  let stored: People | undefined;
  for (let number = 0; number < 30; number += 1) {
    const event = number === 0 ? 'run' : population.dice.pick(events);
    if (number > 0) population.change();
    await serve(population.people);
    // Every third run is one of a machine without a disk.
    if (series.bucket && number % 3 === 2) await rm(space.jobFolder(series.job), { recursive: true, force: true });
    const isCommitted = await runWith(series, event, seed * 100 + number);
    if (event !== 'fails' && event !== 'people held' && event !== 'only ledger') stored = population.people;
    if (isCommitted && stored !== undefined) ledger.commit(stored);
    if (isCommitted && !event.startsWith('held')) series.isApproved = false;
    expect(shown(await published(series)), `run ${number}: ${event}`).toEqual(shown(ledger));
  }
  expect(ledger.became.size).toBeGreaterThan(10);
  await configure(series);
  const push = await space.cdsync(['push', `${series.job}.json`]);
  expect(push.code, push.stderr).toBe(0);
  const delivered = await space.cdsync(['verify', `${series.job}.json`, '--json']);
  expect(delivered.code, delivered.stdout).toBe(0);
}

describe('a ledger of 30 runs', () => {
  it.each(seeds)(
    'has each merge, split, new VIP and departure once, whatever happened in between (seed %i)',
    (seed) => compare(seed, { job: `series${seed}`, bucket: false }),
    900_000,
  );

  it.each(seeds)(
    'has them in a bucket too, on machines that come and go (seed %i)',
    (seed) => compare(seed, { job: `bucket${seed}`, bucket: true }),
    900_000,
  );
});

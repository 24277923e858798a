import { chmod, cp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { Workspace } from '../fixtures/workspace.js';
import { randomFrom } from './random.js';
import { listed } from './residue.js';

const places = Number(process.env.CDSYNC_TEST_PLACES ?? (process.env.CDSYNC_TEST_FAULTS === undefined ? 1 : 40));
const random = randomFrom(seed);
const storage = (name = 'data') => join(space.folder, name);
let space: Workspace;

const copied = { recursive: true, verbatimSymlinks: true, preserveTimestamps: true };
const destinations = [
  { name: 'there', connector: 'duckdb', path: './data/there.duckdb', mode: 'mirror', streams: ['members'] },
  {
    name: 'out',
    connector: 'export',
    path: './data/out',
    streams: ['members'],
    file: '{{ stream }}_{{ sequence }}.csv',
  },
];
const streams = [
  { name: 'members', source: 'index_profiles', index: 'made' },
  {
    ...{ name: 'dated', source: 'index_profiles', index: 'made', columns: { day: { type: 'date' } } },
    ...{ contract: { types: 'discard_row' }, guards: { min_rows: 1000 } },
  },
];
const record = (at: number) => ({
  id: `p${at}`,
  index_id: 'made',
  attributes: { day: at > 36 ? `not ${at}` : '2026-01-02' },
});

const ids = async () =>
  (await space.cdsync(['query', 'job.json', 'select id from members order by id', '--json'])).stdout;
const held = async () => space.cdsync(['diff', 'job.json', 'dated', '--held', runId, '--json']);
let runId: string;
let truths: Readonly<Record<string, string>>;

async function runAndShow() {
  const { code, stdout } = await space.cdsync(['run', 'job.json', '--json', '--full']);
  // The stream with rejects is held each time.
  return code === 3 ? { code: 0, stdout: await ids() } : { code: code === 0 ? 1 : code, stdout };
}

/** Files that were handed over are not handed over again, whatever else. */
async function pushAndList() {
  const { code, stdout } = await space.cdsync(['push', 'job.json', '--destination', 'out', '--json']);
  return { code, stdout: code === 0 ? (await listed(storage())).filter((path) => /^out\//.test(path)).join() : stdout };
}

const readings: Readonly<
  Record<string, { file: RegExp; read: () => Promise<{ code: number | null; stdout: string }> }>
> = {
  'the rejects of a held stream, by diff --held': { file: /held\.rejects\.jsonl$/, read: held },
  'the log of decisions, by a run': { file: /\.cdsync\/decisions\.jsonl$/, read: runAndShow },
  'the key of the log of decisions, by a run': { file: /\.cdsync\/decisions\.json$/, read: runAndShow },
  'the state of an export, by a push': { file: /\.cdsync\/deliveries\/out\/.*export\.json$/, read: pushAndList },
  'the erasures, by a run': { file: /\.cdsync\/erasures\/members\/\d+\.json$/, read: runAndShow },
};

async function restore(): Promise<void> {
  await rm(storage(), { recursive: true, force: true });
  await cp(storage('whole'), storage(), copied);
}

beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  await space.control('profiles', {
    index: 'made',
    records: Array.from({ length: 40 }, (_, at) => JSON.stringify(record(at))),
  });
  await space.configure('job', streams, { job: { guards: { max_changed: 'off' }, destinations } });
  const { code, stdout } = await space.cdsync(['run', 'job.json', '--json']);
  expect([code, stdout]).toEqual([3, stdout]);
  runId = JSON.parse(stdout).jobs[0].run_id;
  const forgotten = await space.cdsync(['forget', 'job.json', 'members', 'p7', '--yes']);
  expect([forgotten.code, forgotten.stderr]).toEqual([0, forgotten.stderr]);
  await cp(storage(), storage('whole'), copied);
  truths = {};
  for (const [name, { read }] of Object.entries(readings)) {
    await restore();
    const whole = await read();
    expect([name, whole.code]).toEqual([name, 0]);
    truths = { ...truths, [name]: whole.stdout };
  }
  expect(truths['the log of decisions, by a run']).not.toContain('"p7"');
  expect(truths['the rejects of a held stream, by diff --held']).toContain('"p39"');
}, 300_000);
afterAll(() => space.close());

it.each(Object.entries(readings))(
  `%s: a flipped bit and a cut are reported, or change nothing (${places} places)`,
  async (name, { file, read }) => {
    let noticed = 0;
    for (let place = 0; place < 2 * places; place += 1) {
      await restore();
      const [found = ''] = (await listed(storage())).filter((path) => file.test(path));
      const path = join(storage(), found);
      await chmod(path, 0o600);
      const bytes = await readFile(path);
      const at = Math.floor((bytes.length * ((place >> 1) + random())) / places);
      if (place % 2 === 0) {
        bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(random() * 7));
        await writeFile(path, bytes);
      } else await truncate(path, at);
      const { code, stdout } = await read();
      if (code === 0) expect(stdout, `${path} at ${at}, place ${place}`).toBe(truths[name]);
      else noticed += 1;
    }
    console.info(`${name}: ${noticed} of ${2 * places} noticed`);
  },
  600_000,
);

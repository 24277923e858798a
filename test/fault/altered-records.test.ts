import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';
import { copyFolder, expectNoticed, places, type Reading, truthsOf } from './alterations.js';
import { listed } from './residue.js';

const storage = (name = 'data') => join(space.folder, name);
let space: Workspace;

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

const readings: Readonly<Record<string, Reading>> = {
  'the rejects of a held stream, by diff --held': { file: /held\.rejects\.jsonl$/, read: held },
  'the log of decisions, by a run': { file: /\.cdsync\/decisions\.jsonl$/, read: runAndShow },
  'the key of the log of decisions, by a run': { file: /\.cdsync\/decisions\.json$/, read: runAndShow },
  'the state of an export, by a push': { file: /\.cdsync\/deliveries\/out\/.*export\.json$/, read: pushAndList },
  'the erasures, by a run': { file: /\.cdsync\/erasures\/members\/\d+\.json$/, read: runAndShow },
};

const restore = () => copyFolder(storage('whole'), storage());

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
  await copyFolder(storage(), storage('whole'));
  truths = await truthsOf(readings, restore);
  expect(truths['the log of decisions, by a run']).not.toContain('"p7"');
  expect(truths['the rejects of a held stream, by diff --held']).toContain('"p39"');
}, 300_000);
afterAll(() => space.close());

it.each(Object.entries(readings))(
  `%s: a flipped bit and a cut are reported, or change nothing (${places} places)`,
  (name, reading) => expectNoticed(reading, { folder: storage(), restore, truth: truths[name] }),
  600_000,
);

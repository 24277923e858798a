import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfFile } from '../fixtures/duckdb-rows.js';
import { filesHolding } from '../fixtures/files-holding.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let receiver: Receiver;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  receiver = await Receiver.open();
});
afterAll(async () => {
  await receiver.close();
  await space.close();
});

const key = 'canary-id';
/** The key as it is, and as texts of URLs, Base64 and hexadecimal digits have it. */
const forms = [key, Buffer.from(key).toString('base64').replace(/=+$/, ''), Buffer.from(key).toString('hex')];
const made = { name: 'made', source: 'index_profiles', index: 'made' };

async function serve(ids: readonly string[]): Promise<void> {
  const records = ids.map((id) => JSON.stringify({ id, index_id: 'made', attributes: { email: `${id}@x.org` } }));
  await space.control('profiles', { index: 'made', records });
}
const others = Array.from({ length: 30 }, (_, n) => `person-${n}x`);

const hook = () => ({
  ...{ name: 'hook', connector: 'http', url: `http://127.0.0.1:${receiver.port}/x`, mode: 'mirror' },
  ...{ body: { id: '{{ id }}' }, delete: { method: 'delete', url: `http://127.0.0.1:${receiver.port}/x/{{ id }}` } },
});

async function change(name: string, edit: (job: Record<string, unknown>) => void): Promise<void> {
  const path = join(space.folder, `${name}.json`);
  const config = JSON.parse(await readFile(path, 'utf8')) as { jobs: Record<string, Record<string, unknown>> };
  edit(config.jobs[name] as Record<string, unknown>);
  await writeFile(path, JSON.stringify(config));
}

async function status(name: string) {
  const { code, stdout } = await space.cdsync(['forget', `${name}.json`, '--status', '--json']);
  return { code, job: (JSON.parse(stdout) as { jobs: { erasures: { destinations: object[] }[] }[] }).jobs[0] };
}

describe('the key of an erased person', () => {
  it('is in no file, log, response, metric, page or record of deliveries once every place is done', async () => {
    const name = 'everyplace';
    const places = [
      { name: 'wh', connector: 'duckdb', path: './every-wh.duckdb', verify_every: '1d' },
      { name: 'lake', connector: 'files', path: './every-files', format: 'jsonl' },
      {
        name: 'out',
        connector: 'export',
        path: './every-export',
        content: 'changes',
        file: '{{ stream }}_{{ sequence }}.csv',
      },
      hook(),
    ];
    await space.configure(name, [made], {
      job: { destinations: places, metrics: { textfile: './every.prom' }, keep: { snapshots: 3, changes: '90d' } },
    });
    await serve([...others, key]);
    await space.runWell(name);
    const said = [await space.cdsync(['forget', `${name}.json`, key, '--everywhere', '--json', '--verbose'])];
    // Until then it waits, with a name.
    expect(await filesHolding(space.jobFolder(name), forms)).toEqual([
      expect.stringMatching(/^\.cdsync\/erasures\/made\/\d+\.json$/),
    ]);
    for (const words of [['push'], ['status'], ['report'], ['forget', '--status']])
      said.push(await space.cdsync([words[0] as string, `${name}.json`, ...words.slice(1), '--verbose']));
    await serve(others);
    said.push(await space.cdsync(['run', `${name}.json`, '--verbose']));
    expect(said.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    expect((await status(name)).job).toMatchObject({ status: 'ok', erasures: [{ done: true }] });
    expect(receiver.received.filter(({ method, path }) => method === 'DELETE' && path === `/x/${key}`)).toHaveLength(1);
    for (const { stdout, stderr } of said.slice(1))
      for (const form of forms) expect(stdout + stderr).not.toContain(form);
    // The export hands the receiver one file that says which row is gone; free blocks of DuckDB's file are the database's.
    const holding = (await filesHolding(space.folder, forms)).filter((file) => file !== 'every-wh.duckdb');
    expect(holding).toEqual(['every-export/made_2.csv']);
    expect(
      await rowsOfFile(
        join(space.folder, 'every-wh.duckdb'),
        `select count(*)::int as n from (select to_json(s)::varchar as t from _cdsync_state s union all
         select to_json(l)::varchar from _cdsync_loads l union all select to_json(m)::varchar from made m) where contains(t, '${key}')`,
      ),
    ).toEqual([{ n: 0 }]);
  });

  it.each(['run', 'state remove'])('goes when the last destination that needed it has left: %s', async (how) => {
    const name = how === 'run' ? 'leaves' : 'removed';
    await space.configure(name, [made], {
      job: { destinations: [{ name: 'wh', connector: 'duckdb', path: `./${name}.duckdb` }] },
    });
    await serve([...others, key]);
    await space.runWell(name);
    expect((await space.cdsync(['forget', `${name}.json`, key, '--everywhere', '--yes'])).code).toBe(0);
    await change(name, (job) => {
      delete job.destinations;
    });
    if (how === 'run') {
      await serve(others);
      await space.runWell(name);
      expect((await status(name)).job).toMatchObject({ status: 'pending' });
    } else {
      expect((await space.cdsync(['state', 'remove', `${name}.json`, '--destination', 'wh'])).code).toBe(0);
      expect((await status(name)).job).toMatchObject({ status: 'ok' });
    }
    expect(await filesHolding(space.jobFolder(name), forms)).toEqual([]);
  });

  it.each([
    ['hook', hook],
    [
      'out',
      () => ({
        name: 'out',
        connector: 'export',
        path: './again',
        content: 'changes',
        file: '{{ stream }}_{{ sequence }}.csv',
      }),
    ],
  ])('is gone when a receiver returns (%s): that one is never said to be done', async (place, made_for) => {
    const name = `returns_${place}`;
    const configured = async (destinations: object[]) =>
      change(name, (job) => {
        if (destinations.length > 0) job.destinations = destinations;
        else delete job.destinations;
      });
    await space.configure(name, [made], { job: { destinations: [made_for()] } });
    await serve([...others, key]);
    await space.runWell(name);
    await configured([]);
    expect((await space.cdsync(['forget', `${name}.json`, key, '--everywhere', '--yes'])).code).toBe(0);
    await configured([made_for()]);
    await serve(others);
    const { code, report } = await space.run(name);
    expect([code, report.jobs[0]?.destinations[0]]).toMatchObject([
      5,
      { status: 'failed', action: 'refused', error: { code: 'erasures_gone' } },
    ]);
    expect((await space.cdsync(['push', `${name}.json`, '--dry-run'])).code).toBe(5);
    expect((await status(name)).job).toMatchObject({ status: 'pending' });
    expect((await space.cdsync(['push', `${name}.json`, '--adopt'])).code).toBe(0);
    expect((await status(name)).job).toMatchObject({ status: 'ok', decisions: [{ action: 'adopt' }] });
    await serve([...others, 'new']);
    expect(await space.runWell(name)).toMatchObject({ destinations: [{ status: 'ok', rows: 1 }] });
  });
});

it.each([
  ['its mode sends none', { mode: 'upsert', delete: undefined }],
  ['its form says so', { delete: 'skip' }],
])('a receiver that gets no deletes because %s is never said to be done', async (_, options) => {
  const name = `untold_${'mode' in options ? 'mode' : 'form'}`;
  await serve([key, ...others]);
  await space.configure(name, [made], { job: { destinations: [{ ...hook(), ...options }] } });
  await space.runWell(name);
  const { stdout } = await space.cdsync(['forget', `${name}.json`, 'made', key, '--yes']);
  expect(stdout).toContain('hook may have the rows for good, because no deletes are sent there');
  await serve(others);
  await space.runWell(name);
  const { code, job } = await status(name);
  expect([code, job?.erasures[0]?.destinations]).toEqual([
    0,
    [{ destination: 'hook', stream: 'made', configured: true, untold: true, done_at: null, removed: false }],
  ]);
  expect((await space.cdsync(['forget', `${name}.json`, '--status'])).stdout).toContain(
    'destination hook, made: gets no deletes: erase the person there yourself',
  );
});

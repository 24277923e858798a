import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfFile } from '../fixtures/duckdb-rows.js';
import { filesHolding } from '../fixtures/files-holding.js';
import { folderContents } from '../fixtures/folder-contents.js';
import { ended, streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

async function serve(records: Record<string, object>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const emails = { name: 'emails', source: 'sql', key: ['id'], query: 'select id, email from made' };
const pairs = {
  name: 'pairs',
  source: 'sql',
  key: ['who', 'kind'],
  query: "select id as who, 'k1' as kind, n from made",
};
const many = Object.fromEntries(
  Array.from({ length: 30 }, (_, n) => [`person-${n}x`, { email: `someone-${n}x@x.org`, n }]),
);
const canary = { email: 'canary-mail@example.com', street: 'Canary Row 1', n: 77 };
const everybody = { ...many, 'canary-id': canary };

/** Two jobs in one file, with a destination for one stream of the first. */
async function twoJobs(name: string): Promise<string> {
  const destinations = [{ name: 'wh', connector: 'duckdb', path: `./${name}-wh.duckdb`, streams: ['made'] }];
  const path = await space.configure(name, [made, emails, pairs] as never, { job: { destinations } });
  const config = JSON.parse(await readFile(path, 'utf8')) as { jobs: Record<string, object> };
  config.jobs[`${name}_b`] = { streams: [{ ...made, name: 'other' }] };
  await writeFile(path, JSON.stringify(config));
  await serve(everybody);
  expect((await space.cdsync(['run', `${name}.json`, '--all', '--quiet'])).code).toBe(0);
  return path;
}

async function forget(name: string, words: readonly string[]) {
  const { code, stdout, stderr } = await space.cdsync(['forget', `${name}.json`, ...words, '--json']);
  return { code, stderr, document: JSON.parse(stdout) as Record<string, never> & { jobs: Record<string, never>[] } };
}

const idsAt = (file: string) =>
  rowsOfFile(
    join(space.folder, file),
    'select count(*) filter (id = \'canary-id\')::int as canary, count(*)::int as "all" from made',
  );

describe('forget --everywhere', () => {
  it('shows where a person is, erases them from all streams of all jobs, and waits for destinations with their names', async () => {
    await twoJobs('all');
    const folders = ['all', 'all_b'].map((job) => space.jobFolder(job));
    const contents = async () =>
      (await Promise.all(folders.map((folder) => folderContents(folder))))
        .flat()
        .filter((line) => !/^(\.cdsync\/locks|\.cdsync|\.) /.test(line));
    const before = await contents();
    const look = await forget('all', ['canary-id', '--everywhere', '--dry-run']);
    expect([look.code, await contents()]).toEqual([0, before]);
    expect(look.document).toMatchObject({
      dry_run: true,
      jobs: [
        {
          job: 'all',
          streams: expect.arrayContaining([
            expect.objectContaining({ name: 'made', rows: 1, published: 1, parquet: 1, cache: 1 }),
            expect.objectContaining({ name: 'pairs', rows: 1, published: 1 }),
          ]) as unknown,
          destinations: [
            { name: 'wh', stream: 'made', status: 'waiting', delivered_at: expect.any(String) as unknown },
          ],
        },
        { job: 'all_b', streams: [{ name: 'other', rows: 1 }] },
      ],
    });
    const erased = await forget('all', ['canary-id', '--everywhere', '--reason', 'ticket 4711']);
    expect([erased.code, erased.document]).toMatchObject([
      0,
      {
        status: 'ok',
        jobs: [
          { rows: 3, remains: [], in_clear: [expect.stringContaining('.cdsync/erasures/made/')], also_in: [] },
          { rows: 1, remains: [], in_clear: [], destinations: [] },
        ],
      },
    ]);
    const left = (await Promise.all(folders.map((folder) => filesHolding(folder, ['canary', 'Canary'])))).flat();
    expect(left).toEqual([expect.stringMatching(/^\.cdsync\/erasures\/made\/\d+\.json$/)]);
    expect(await space.query('all', 'select count(*)::int as n from pairs')).toEqual([{ n: 30 }]);
    const pending = await forget('all', ['--status']);
    expect([pending.code, pending.document]).toMatchObject([
      1,
      {
        status: 'pending',
        jobs: [
          {
            erasures: [
              {
                reason: 'ticket 4711',
                keys: 1,
                everywhere: true,
                done: false,
                destinations: [{ destination: 'wh', done_at: null }],
              },
            ],
          },
          { erasures: [{ done: true }] },
        ],
      },
    ]);
    const status = await space.cdsync(['status', 'all.json', '--job', 'all', '--json']);
    expect(JSON.parse(status.stdout)).toMatchObject({
      destinations: [{ erasures_pending: 1, erasures_since: expect.stringMatching(/^20\d\d-/) as unknown }],
    });
    expect((await space.cdsync(['push', 'all.json', '--job', 'all'])).code).toBe(0);
    const done = await forget('all', ['--status']);
    expect([done.code, done.document]).toMatchObject([0, { jobs: [{ erasures: [{ done: true }] }, {}] }]);
    expect(await filesHolding(folders[0] as string, ['canary', 'Canary'])).toEqual([]);
    expect((await space.cdsync(['verify', 'all.json', '--all'])).code).toBe(0);
  });

  it('takes keys from a file and from standard input, and refuses a list with a key that is nowhere, with nothing changed', async () => {
    await twoJobs('fromfile');
    await writeFile(join(space.folder, 'keys.txt'), '\uFEFFperson-1x\r\nperson-2x\n\n');
    const absent = await forget('fromfile', ['stranger-at-all', '--everywhere', '--keys-file', 'keys.txt']);
    expect([absent.code, absent.document]).toMatchObject([1, { error: { code: 'key_not_found' } }]);
    expect(absent.stderr).toContain('compare with the keys of a stream: cdsync query');
    expect(await space.query('fromfile', 'select count(*)::int as n from made')).toEqual([{ n: 31 }]);
    const child = space.spawn(
      ['forget', 'fromfile.json', '--everywhere', '--keys-file', '-', '--json'],
      {},
      { stdin: 'pipe' },
    );
    child.stdin?.end(await readFile(join(space.folder, 'keys.txt')));
    const { code, stdout } = await ended(child);
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      {
        jobs: [
          { keys: 2, rows: 6 },
          { keys: 2, rows: 2 },
        ],
      },
    ]);
    expect(await space.query('fromfile', 'select count(*)::int as n from made')).toEqual([{ n: 29 }]);
  });

  it('leaves out and reports a person who returns, in the store, changes and destinations, until the key is allowed', async () => {
    await twoJobs('returns');
    expect((await forget('returns', ['canary-id', '--everywhere'])).code).toBe(0);
    await serve({ ...everybody, 'new-one': { email: 'new@x.org' } });
    const again = await space.cdsync(['run', 'returns.json', '--all', '--json', '--quiet']);
    const report = JSON.parse(again.stdout) as { jobs: Parameters<typeof streamOf>[0][] };
    expect(again.code).toBe(0);
    expect(streamOf(report.jobs[0] as never, 'made')).toMatchObject({
      inserted: 1,
      forgotten_returned: 1,
      warnings: [{ code: 'forgotten_returned', message: expect.stringContaining('1 record') as unknown }],
    });
    for (const job of ['returns', 'returns_b'])
      expect(await filesHolding(space.jobFolder(job), ['canary', 'Canary'])).toEqual([]);
    expect(await idsAt('returns-wh.duckdb')).toEqual([{ canary: 0, all: 31 }]);
    expect((await forget('returns', ['--allow', 'stranger'])).code).toBe(1);
    const allowed = await forget('returns', ['--allow', 'canary-id']);
    expect([allowed.code, allowed.document]).toMatchObject([
      0,
      { allowed: [{ job: 'returns' }, { job: 'returns_b' }] },
    ]);
    const back = await space.cdsync(['run', 'returns.json', '--job', 'returns', '--json', '--quiet']);
    expect(streamOf((JSON.parse(back.stdout) as { jobs: never[] }).jobs[0] as never, 'made')).toMatchObject({
      inserted: 1,
    });
  });

  it('reports a log that was altered, cut or lost, and never takes it for an empty one', async () => {
    await twoJobs('altered');
    expect((await forget('altered', ['canary-id', '--everywhere'])).code).toBe(0);
    const folder = join(space.jobFolder('altered'), '.cdsync');
    const [log, head] = [join(folder, 'decisions.jsonl'), join(folder, 'decisions.json')];
    const erasures = join(folder, 'erasures');
    expect((await stat(head)).mode & 0o777).toBe(0o600);
    const [lines, key] = [await readFile(log, 'utf8'), await readFile(head, 'utf8')];
    const first = `${lines.split('\n')[0]}\n`;
    const alterations: [string, () => Promise<unknown>][] = [
      ['a line less', () => writeFile(log, first)],
      ['another user', () => writeFile(log, lines.replace(/"user":"[^"]*"/, '"user":"stranger"'))],
      ['a line twice', () => writeFile(log, first + lines)],
      ['no log', () => rm(log)],
      ['no key', () => rm(head)],
      ['neither', () => Promise.all([rm(log), rm(head)])],
      ['nothing of erasures', () => Promise.all([rm(log), rm(head), rename(erasures, `${folder}-kept`)])],
    ];
    for (const [what, alter] of alterations) {
      await alter();
      const shown = await forget('altered', ['--job', 'altered', '--status']);
      expect([what, shown.code, shown.stderr]).toEqual([what, 1, expect.stringContaining('[state_unreadable]')]);
      const { report } = await space.run('altered', ['--job', 'altered']);
      const failed = report.jobs[0]?.streams[0];
      expect([what, failed?.status, failed?.error?.code]).toEqual([what, 'failed', 'state_unreadable']);
      await writeFile(log, lines);
      await writeFile(head, key, { mode: 0o600 });
    }
    await rename(`${folder}-kept`, erasures);
    expect((await space.run('altered', ['--job', 'altered'])).report.jobs[0]?.streams[0]?.error).toBe(null);
  });

  it('begins no new log in the place of one that is lost, unless --even-if-absent wants it', async () => {
    await twoJobs('lost');
    const one = ['--job', 'lost'];
    expect((await forget('lost', ['canary-id', '--everywhere', ...one])).code).toBe(0);
    const folder = join(space.jobFolder('lost'), '.cdsync');
    for (const name of ['decisions.jsonl', 'decisions.json']) await rm(join(folder, name));
    for (const words of [
      ['person-1x', '--everywhere'],
      ['made', 'person-1x'],
      ['person-1x', '--everywhere', '--dry-run'],
    ]) {
      const { code, document } = await forget('lost', [...words, ...one]);
      expect([words, code, document]).toMatchObject([words, 1, { error: { code: 'state_unreadable' } }]);
    }
    expect((await readdir(folder)).filter((name) => name.startsWith('decisions'))).toEqual([]);
    expect(
      await rowsOfFile(join(space.jobFolder('lost'), 'lost.duckdb'), 'select count(*)::int as n from made'),
    ).toEqual([{ n: 30 }]);
    // The next step that the error names: each person once more.
    for (const key of ['canary-id', 'person-1x'])
      expect((await forget('lost', [key, '--everywhere', '--even-if-absent', ...one])).code).toBe(0);
    await space.cdsync(['push', 'lost.json', ...one]);
    expect((await forget('lost', ['--status', ...one])).code).toBe(0);
    expect((await space.run('lost', one)).report.jobs[0]?.streams[0]).toMatchObject({
      error: null,
      forgotten_returned: 2,
    });
  });

  it('finishes with the same command an erasure that a kill has cut short, at each step', async () => {
    const steps = ['decisions.json', '/erasures/', '/known/', 'store.duckdb', 'manifest.json'];
    for (const [index, step] of steps.entries()) {
      const name = `kill${index}`;
      await twoJobs(name);
      const strike = join(space.folder, `strike${index}.mjs`);
      await writeFile(
        strike,
        `import fsp from 'node:fs/promises';
         import { syncBuiltinESMExports } from 'node:module';
         const { rename } = fsp;
         fsp.rename = async (from, to) => {
           const done = await rename(from, to);
           if (String(to).includes(${JSON.stringify(step)}) && !String(to).includes('locks')) process.kill(process.pid, 'SIGKILL');
           return done;
         };
         syncBuiltinESMExports();`,
      );
      const words = ['forget', `${name}.json`, 'canary-id', '--everywhere', '--yes'];
      await ended(space.spawn(words, { NODE_OPTIONS: `--import=${strike}` }));
      // A run in between does no harm.
      if (index % 3 === 0) await space.cdsync(['run', `${name}.json`, '--all', '--quiet', '--accept']);
      const { code } = await space.cdsync(words);
      expect([step, code === 0 || code === 1]).toEqual([step, true]);
      expect((await space.cdsync(['push', `${name}.json`, '--job', name])).code).toBe(0);
      const left = await Promise.all(
        [name, `${name}_b`].map((job) => filesHolding(space.jobFolder(job), ['canary', 'Canary'])),
      );
      expect([step, left.flat()]).toEqual([step, []]);
      expect([step, (await forget(name, ['--status'])).code]).toEqual([step, 0]);
    }
  }, 240_000);

  it('reaches streams that left the configuration, and names destinations that did', async () => {
    const path = await twoJobs('left');
    const config = JSON.parse(await readFile(path, 'utf8')) as {
      jobs: Record<string, { streams: object[]; destinations?: object[] }>;
    };
    const job = config.jobs.left as { streams: object[]; destinations?: object[] };
    job.streams = [made];
    delete job.destinations;
    delete config.jobs.left_b;
    await writeFile(path, JSON.stringify(config));
    const { code, document } = await forget('left', ['canary-id', '--everywhere']);
    expect([code, document]).toMatchObject([
      0,
      {
        not_searched: expect.arrayContaining(['left_b']) as unknown,
        jobs: [
          {
            rows: 3,
            streams: expect.arrayContaining([expect.objectContaining({ name: 'pairs', configured: false })]) as unknown,
            destinations: [{ name: 'wh', stream: 'made', status: 'not_configured' }],
          },
        ],
      },
    ]);
    expect(await filesHolding(space.jobFolder('left'), ['canary', 'Canary'])).toEqual([]);
    const status = await forget('left', ['--status']);
    expect([status.code, status.stderr]).toEqual([1, expect.stringContaining('next: delete the rows where the lines')]);
  });

  it('state remove takes a stream out of every file, names its destinations, and refuses a configured one', async () => {
    const path = await twoJobs('gone');
    const config = JSON.parse(await readFile(path, 'utf8')) as { jobs: Record<string, { streams: object[] }> };
    const job = config.jobs.gone as { streams: object[]; destinations?: object[] };
    // The sql streams read the other; a list of another index takes its place.
    job.streams = [{ name: 'rest', source: 'index_profiles', index: 'rest' }];
    delete job.destinations;
    delete config.jobs.gone_b;
    await writeFile(path, JSON.stringify(config));
    await space.control('profiles', { index: 'rest', records: ['{"id":"r1","index_id":"rest","attributes":{"n":1}}'] });
    const ran = (await space.run('gone')).report.jobs[0];
    expect([ran?.status, ran?.warnings?.map(({ code }) => code)]).toEqual(['ok', Array(3).fill('stream_unconfigured')]);
    const status = JSON.parse((await space.cdsync(['status', 'gone.json', '--json'])).stdout) as object;
    expect(status).toMatchObject({ unconfigured: { streams: ['emails', 'made', 'pairs'], destinations: ['wh'] } });
    const shown = JSON.parse((await space.cdsync(['state', 'show', 'gone.json', '--json'])).stdout) as object;
    expect(shown).toMatchObject({ streams: [{ name: 'rest', configured: true }, {}, {}, { configured: false }] });
    expect((await space.cdsync(['state', 'reset', 'gone.json', '--stream', 'made'])).code).toBe(0);
    expect((await space.cdsync(['state', 'remove', 'gone.json', '--stream', 'rest'])).code).toBe(2);
    expect((await space.cdsync(['state', 'remove', 'gone.json', '--stream', 'mde'])).stderr).toContain(
      'did you mean "made"?',
    );
    for (const stream of ['emails', 'made', 'pairs']) {
      const removed = await space.cdsync(['state', 'remove', 'gone.json', '--stream', stream, '--json']);
      expect([removed.code, JSON.parse(removed.stdout)]).toMatchObject([
        0,
        {
          stream,
          rows: 31,
          destinations: stream === 'made' ? [{ destination: 'wh', stream: 'made', table: 'made' }] : [],
        },
      ]);
    }
    expect(await filesHolding(space.jobFolder('gone'), ['canary', 'someone-3x'])).toEqual([]);
    const tables = "select table_name from information_schema.tables where table_schema = 'main' order by 1";
    expect((await space.query('gone', tables)).map(({ table_name: name }) => String(name).split('__')[0])).toEqual([
      'rest',
      'rest',
      'rest',
      'rest',
    ]);
    expect((await space.cdsync(['verify', 'gone.json'])).code).toBe(0);
    expect((await space.run('gone')).report.jobs[0]).toMatchObject({ status: 'ok', warnings: [] });
  });

  it('notes who approved and discarded what, without a key', async () => {
    await space.configure('decided', [made] as never);
    await serve(everybody);
    await space.runWell('decided');
    await serve({ 'canary-id': canary });
    const held = (await space.run('decided')).report.jobs[0]?.run_id as string;
    expect((await space.cdsync(['discard', 'decided.json', held])).code).toBe(0);
    const second = (await space.run('decided')).report.jobs[0]?.run_id as string;
    expect((await space.cdsync(['approve', 'decided.json', second])).code).toBe(0);
    const { code, document } = await forget('decided', ['--status']);
    expect([code, document.jobs[0]]).toMatchObject([
      0,
      {
        decisions: [
          { action: 'discard', run_id: held },
          { action: 'approve', run_id: second, user: expect.any(String) as unknown },
        ],
      },
    ]);
    const names = await readdir(join(space.jobFolder('decided'), '.cdsync'));
    expect(names).toEqual(expect.arrayContaining(['decisions.json', 'decisions.jsonl']));
  });
});

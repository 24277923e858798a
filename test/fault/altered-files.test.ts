import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { Workspace } from '../fixtures/workspace.js';
import { copyFolder, places } from './alterations.js';
import { randomFrom } from './random.js';
import { listed } from './residue.js';
import { strikePreload, strikeVariables } from './strike.js';

const random = randomFrom(seed);

let space: Workspace;
/** The published rows after an undisturbed run, and those of the destination. */
let truth: string;
let deliveredTruth: string;
/** The changes of the last run, as `diff` shows them. */
let diffTruth: string;
const storage = (name = 'data') => join(space.folder, name);

const restore = (from: string) => copyFolder(storage(from), storage());
const keep = (as: string) => copyFolder(storage(), storage(as));

const query = 'SELECT * EXCLUDE (_run_id, _synced_at, _first_seen_at) FROM members ORDER BY id';
const shown = (words: readonly string[] = []) =>
  space.cdsync(['query', 'job.json', query, '--format', 'csv', ...words]);
/** The rows of the destination, by a program of the same kind: its file is a DuckDB file, too. */
const delivered = () =>
  space.cdsync([
    ...['query', 'job.json', '--allow-files', '--format', 'csv'],
    `ATTACH '${join(storage(), 'there.duckdb')}' AS there (READ_ONLY); SELECT * EXCLUDE (_synced_at) FROM there.main.members ORDER BY id`,
  ]);

const streams = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 100 }];
const destinations = [{ name: 'there', connector: 'duckdb', path: './data/there.duckdb', mode: 'mirror' }];

beforeAll(async () => {
  space = await Workspace.open({ profiles: 600 });
  await space.configure('job', streams, { job: { guards: { max_changed: '1000%' }, destinations } });
  await space.runWell('job');
  await space.control('change', { days: 1 });
  await space.runWell('job');
  await space.control('change', { days: 1 });
  await keep('before');
  // A reading that was killed when all pages were read.
  const strike = { at: 'datasync job/.cdsync/runs/RUN/streams/members/journal.jsonl #2', when: 'after' } as const;
  const variables = strikeVariables(storage(), join(space.folder, 'steps.txt'), { ...strike, action: 'kill' });
  const child = space.spawn(['run', 'job.json'], { NODE_OPTIONS: strikePreload.join(' '), ...variables });
  expect(await once(child, 'close')).toEqual([null, 'SIGKILL']);
  await keep('reading');
  await space.runWell('job');
  await keep('after');
  truth = (await shown()).stdout;
  expect(truth.split('\n').length).toBeGreaterThan(600);
  deliveredTruth = (await delivered()).stdout;
  expect(deliveredTruth.split('\n').length).toBe(truth.split('\n').length);
  diffTruth = (await difference()).stdout;
  expect(JSON.parse(diffTruth)).not.toMatchObject({ inserted: 0, updated: 0, deleted: 0 });
}, 300_000);
afterAll(() => space.close());

type Alter = (path: string, share: number) => Promise<void>;

const alterations: readonly (readonly [string, Alter])[] = [
  [
    'a flipped bit',
    async (path, share) => {
      const bytes = await readFile(path);
      const at = Math.min(bytes.length - 1, Math.floor(bytes.length * share));
      bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(random() * 8));
      await writeFile(path, bytes);
    },
  ],
  ['a cut', async (path, share) => truncate(path, Math.floor((await readFile(path)).length * share))],
  // To open and read it is an error of the file system, as from a disk that fails.
  [
    'a folder in its place',
    async (path) => {
      await rm(path);
      await mkdir(path);
    },
  ],
];

/** The effect of an altered file on a command: it reports a fault, or the rows are right. */
interface Reading {
  readonly from: 'before' | 'reading' | 'after';
  readonly file: RegExp;
  /** Of several files like it, only the newest is read. */
  readonly isNewest?: boolean;
  readonly read: () => Promise<{ code: number | null; stdout: string }>;
}

/** Whether these are the rows of the published file, or those of the destination. */
const isRight = (stdout: string) => stdout === truth || stdout === deliveredTruth;

async function runAndShow(words: readonly string[] = []) {
  const { code, stdout } = await space.cdsync(['run', 'job.json', '--json', ...words]);
  return code === 0 ? shown() : { code, stdout };
}

async function pushAndShow() {
  const { code, stdout } = await space.cdsync(['push', 'job.json', '--json', '--full']);
  return code === 0 ? delivered() : { code, stdout };
}

const difference = () => space.cdsync(['diff', 'job.json', 'members', '--json']);

async function diffAndShow() {
  const { code, stdout } = await difference();
  return code === 0 && stdout === diffTruth ? shown() : { code, stdout };
}

/** What `verify` accepts must be readable, and right. */
async function verifyAndShow() {
  const { code, stdout } = await space.cdsync(['verify', 'job.json', '--json']);
  return code === 0 ? shown() : { code, stdout };
}

const members = String.raw`job/\.cdsync/runs/[^/]+/streams/members`;
const readings: Readonly<Record<string, Reading>> = {
  'the published file, by a query': {
    from: 'after',
    file: /^job\/published\/\d+\/job\.duckdb$/,
    isNewest: true,
    read: shown,
  },
  'the published file, by a diff': {
    from: 'after',
    file: /^job\/published\/\d+\/job\.duckdb$/,
    isNewest: true,
    read: diffAndShow,
  },
  'the published file, by a verification': {
    from: 'after',
    file: /^job\/published\/\d+\/job\.duckdb$/,
    isNewest: true,
    read: verifyAndShow,
  },
  'the store, by a run': { from: 'before', file: /^job\/\.cdsync\/store\.duckdb$/, read: runAndShow },
  'the store, by a full run': {
    from: 'before',
    file: /^job\/\.cdsync\/store\.duckdb$/,
    read: () => runAndShow(['--full']),
  },
  'a snapshot, by a push': { from: 'after', file: /^job\/parquet\/members\/snapshot\/.*\.parquet$/, read: pushAndShow },
  'changes, by a push': { from: 'after', file: /^job\/parquet\/members\/changes\/.*\.parquet$/, read: pushAndShow },
  'the list for deliveries, by a push': {
    from: 'after',
    file: /^job\/\.cdsync\/feeds\/members\.json$/,
    read: pushAndShow,
  },
  'a part, by a resumed run': {
    from: 'reading',
    file: new RegExp(`^${members}/parts/\\d+\\.parquet$`),
    read: runAndShow,
  },
  'keys, by a resumed run': { from: 'reading', file: new RegExp(`^${members}/parts/\\d+\\.keys$`), read: runAndShow },
  'a journal, by a resumed run': {
    from: 'reading',
    file: new RegExp(`^${members}/journal\\.jsonl$`),
    read: runAndShow,
  },
  'cache hits, by a resumed run': {
    from: 'reading',
    file: new RegExp(`^${members}/(?!journal|parts|staging|held)[^/]*$`),
    read: runAndShow,
  },
  'the state of an unfinished run, by a resumed run': {
    from: 'reading',
    file: /^job\/\.cdsync\/runs\/[^/]+\/run\.json$/,
    read: runAndShow,
  },
  'the state of the job, by a run': {
    from: 'before',
    file: /^job\/\.cdsync\/(?:(?:format|told|metrics|workflows)\.json|figures\/[^/]+\.json)$/,
    read: runAndShow,
  },
  'the record of a delivery, by a push': {
    from: 'after',
    file: /^job\/\.cdsync\/deliveries\/there\/[^/]+\.json$/,
    read: pushAndShow,
  },
  'the destination, by a push that compares it': {
    from: 'after',
    file: /^there\.duckdb$/,
    read: async () => {
      const { code, stdout } = await space.cdsync(['push', 'job.json', '--json', '--verify']);
      return code === 0 ? delivered() : { code, stdout };
    },
  },
  'manifests, by a run': { from: 'before', file: /^job\/parquet\/members\/manifest\.json$/, read: runAndShow },
  'reports, by a run': { from: 'before', file: /^job\/reports\/[^/]+\.json$/, read: runAndShow },
  'the record cache, by a run': { from: 'before', file: /^job\/\.cdsync\/known\/members\//, read: runAndShow },
};

describe.each(Object.entries(readings))('of %s', (_, { from, file, isNewest, read }) => {
  // Otherwise a command that always fails would count as one that reports each fault.
  it('as it is the rows are right', async () => {
    await restore(from);
    const { code, stdout } = await read();
    expect([code, isRight(stdout)]).toEqual([0, true]);
  });

  it.each(alterations)(
    `%s is reported, or the rows are right (${places} places)`,
    async (_name, alter) => {
      await restore(from);
      const names = (await listed(storage())).filter((name) => file.test(name)).slice(isNewest ? -1 : 0);
      expect(names, `files like ${file}`).not.toEqual([]);
      let noticed = 0;
      for (let place = 0; place < places; place += 1) {
        await restore(from);
        const share = (place + random()) / places;
        const path = join(storage(), names[place % names.length] as string);
        await chmod(path, 0o600);
        await alter(path, share);
        const { code, stdout } = await read();
        if (code === 0) expect(isRight(stdout), `${path} at ${share}`).toBe(true);
        else noticed += 1;
      }
      console.info(`${file.source}: ${noticed} of ${places} noticed`);
    },
    600_000,
  );
});

function lacksStrace(): boolean {
  try {
    execFileSync('strace', ['-qq', '-o', '/dev/null', 'true']);
    return false;
  } catch {
    return true;
  }
}

it.skipIf(lacksStrace())(
  'an error of the disk while a query reads the published file is reported, or the rows are right',
  async () => {
    await restore('after');
    const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
    const log = join(space.folder, 'strace.txt');
    let injected = 0;
    for (let number = 1; number <= Math.max(4, 2 * places); number += 1) {
      const path = (await listed(storage())).filter((name) => /published\/\d+\/job\.duckdb$/.test(name)).at(-1);
      const words = [
        ...['-f', '-qq', '-o', log, '-P', join(storage(), path as string), '-e', 'trace=pread64'],
        ...['-e', `inject=pread64:error=EIO:when=${number}`, process.execPath, program],
        ...['query', 'job.json', query, '--format', 'csv'],
      ];
      const { code, stdout } = await new Promise<{ code: number; stdout: string }>((resolve) => {
        const env = { PATH: process.env.PATH ?? '', HOME: space.folder, ...space.env };
        execFile('strace', words, { cwd: space.folder, env, maxBuffer: 1 << 28 }, (error, out) =>
          resolve({ code: error === null ? 0 : Number(error.code), stdout: out }),
        );
      });
      if (/INJECTED/.test(await readFile(log, 'utf8'))) injected += 1;
      if (code === 0) expect(stdout === truth, `read ${number}`).toBe(true);
    }
    expect(injected).toBeGreaterThan(0);
  },
  600_000,
);

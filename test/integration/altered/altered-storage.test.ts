import { cp, lstat, mkdir, readdir, readlink, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesHolding } from '../../fixtures/files-holding.js';
import { Workspace } from '../../fixtures/workspace.js';
import { type Alteration, alterations, atDestination, statements, type Trap } from './alterations.js';

const content = 'the-secret-of-another';
let space: Workspace;
let trap: Trap;
let kept: string;
let changed: readonly Alteration[];
const data = () => join(space.folder, 'data');
const warehouse = () => join(space.folder, 'wh.duckdb');

beforeAll(async () => {
  space = await Workspace.open({ profiles: 20 });
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  const vip = { name: 'vip', source: 'sql', key: ['id'], query: 'select id from members' };
  const destinations = [{ name: 'wh', connector: 'duckdb', path: './wh.duckdb', streams: ['members'] }];
  await space.configure('nightly', [members, vip], { job: { destinations } });
  await space.runWell('nightly');
  await space.control('change', { days: 1 });
  const { run_id: runId } = await space.runWell('nightly');
  const folder = join(space.folder, 'trap');
  trap = { secret: join(folder, 'secret'), folder };
  await mkdir(folder);
  await writeFile(trap.secret, content, { mode: 0o600 });
  kept = `${space.folder}-kept`;
  await cp(data(), join(kept, 'data'), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  await cp(warehouse(), join(kept, 'wh.duckdb'));
  const version = basename(dirname(await readlink(join(space.jobFolder('nightly'), 'nightly.duckdb'))));
  changed = alterations(version, runId);
}, 120_000);
afterAll(async () => {
  await space.close();
  await rm(kept, { recursive: true, force: true });
});

async function restore(): Promise<void> {
  await rm(data(), { recursive: true, force: true });
  await cp(join(kept, 'data'), data(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  await cp(join(kept, 'wh.duckdb'), warehouse());
  // A time of access before that of the content: the next read moves it, also where the file system notes only some.
  await utimes(trap.secret, new Date(0), new Date(1000));
}

const line = ['nightly.json', '--destination', 'wh'];
const commands: Record<string, string[]> = {
  status: ['status', 'nightly.json'],
  plan: ['plan', 'nightly.json'],
  query: ['query', 'nightly.json', 'select * from members limit 3'],
  'query of history': ['query', 'nightly.json', '--allow-files', 'select count(*) from members__history'],
  diff: ['diff', 'nightly.json', 'members', '--show-values'],
  report: ['report', 'nightly.json'],
  verify: ['verify', 'nightly.json'],
  'forget --dry-run': ['forget', 'nightly.json', 'absent', '--everywhere', '--dry-run'],
  push: ['push', 'nightly.json', '--full'],
  forget: ['forget', 'nightly.json', 'members', 'absent', '--even-if-absent'],
  run: ['run', 'nightly.json', '--full'],
  check: ['check', 'nightly.json'],
  'push --verify': ['push', ...line, '--verify'],
  'push --dry-run': ['push', ...line, '--dry-run'],
};

/** Commands that read the place. */
function readersOf(place: string): string[] {
  const ofStore = ['status', 'verify', 'forget --dry-run', 'push', 'forget', 'run'];
  const ofPublished = ['status', 'plan', 'query', 'query of history', 'diff', 'report', 'verify', 'run'];
  return place.startsWith('published')
    ? ofPublished
    : place.startsWith('.cdsync/store')
      ? ofStore
      : [...new Set([...ofStore, 'diff', 'report'])];
}

/** Runs the commands one after the other over the same folder. @returns their faults */
async function faults(names: readonly string[], place?: string): Promise<string[]> {
  const found: string[] = [];
  // A hard link to another file looks like a copy of it.
  const nodes = place === undefined ? undefined : await lstat(place);
  const isLinked = nodes?.isFile() === true && nodes.nlink > 1;
  for (const name of names) {
    const { code, stdout, stderr } = await space.cdsync(commands[name] ?? []);
    const said = `${stdout}${stderr}`;
    if (said.includes(content)) found.push(`${name} shows the secret`);
    if (said.includes('[unexpected]')) found.push(`${name}: ${stderr}`);
    if (![0, 1, 3, 5].includes(code ?? -1)) found.push(`${name} ends with ${code}: ${stderr}`);
    if (!isLinked && (await stat(trap.secret)).atimeMs !== 0) found.push(`${name} reads the secret: ${stderr}`);
    await utimes(trap.secret, new Date(0), new Date(1000));
  }
  if ((await readdir(trap.folder)).length !== 1) found.push('something is written outside');
  if (place !== undefined && (isLinked || nodes?.isFIFO())) await rm(place, { force: true });
  const { ino } = await stat(trap.secret);
  const holding: string[] = [];
  // A link to the secret is no copy of it.
  for (const file of await filesHolding(space.folder, [content]))
    if ((await stat(join(space.folder, file))).ino !== ino) holding.push(file);
  if (holding.length > 0) found.push(`the secret is in ${holding}`);
  return found;
}

describe('a change of another program in the folder of a job', () => {
  it('is refused or of no effect, in each command, and reaches nothing outside', { timeout: 1_800_000 }, async () => {
    expect(changed.length).toBeGreaterThan(60);
    const wrong: string[] = [];
    for (const { what, place, make } of changed) {
      await restore();
      await make(join(space.jobFolder('nightly'), place), trap);
      await utimes(trap.secret, new Date(0), new Date(1000));
      const path = join(space.jobFolder('nightly'), place);
      for (const fault of await faults(readersOf(place), path)) wrong.push(`${what} (${place}): ${fault}`);
    }
    expect(wrong).toEqual([]);
  });

  it('is said of a store with a view, by each command that reads it', async () => {
    const [view] = changed;
    for (const name of ['verify', 'push', 'forget', 'run']) {
      await restore();
      await view?.make(join(space.jobFolder('nightly'), view.place), trap);
      const { code, stderr } = await space.cdsync(commands[name] as string[]);
      // A push reads the feed and the files, not the store.
      expect([name, code, stderr]).toEqual([
        name,
        name === 'push' ? 0 : 1,
        name === 'push' ? expect.anything() : expect.stringContaining('storage_altered'),
      ]);
    }
  });
});

describe('a change of another program in the DuckDB file of a destination', () => {
  it('is refused or of no effect', { timeout: 900_000 }, async () => {
    const wrong: string[] = [];
    for (const [what, sql] of atDestination) {
      await restore();
      await statements(warehouse(), sql(trap));
      await utimes(trap.secret, new Date(0), new Date(1000));
      for (const fault of await faults(['push', 'push --verify', 'push --dry-run', 'check']))
        wrong.push(`${what}: ${fault}`);
    }
    expect(wrong).toEqual([]);
  });
});

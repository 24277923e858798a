import { spawn } from 'node:child_process';
import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import type { JobReport } from '../../src/index.js';
import { blocksOf, writeFiles } from '../fixtures/recipes.js';
import { Workspace } from '../fixtures/workspace.js';

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const limit = 40;

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000, rateLimits: { profile: limit } });
  await mkdir(join(space.folder, 'node_modules'));
  await symlink(resolve('.'), join(space.folder, 'node_modules', 'cdsync'));
});
afterAll(() => space.close());

/** Runs a program of the workspace's folder, under a umask that hides nothing from others. */
async function node(program: string, env: Record<string, string> = {}) {
  const child = spawn('sh', ['-c', `umask 000; exec "${process.execPath}" "${program}"`], {
    cwd: space.folder,
    env: { PATH: process.env.PATH ?? '', ...space.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const code = new Promise<number | null>((ended) => child.once('exit', ended));
  return { stdout: await text(child.stdout), stderr: await text(child.stderr), code: await code };
}

/** Runs the body of a program that imports cdsync, and returns its result. */
async function program<T>(name: string, body: string): Promise<T> {
  const source = `import { CdsyncError, loadConfig, run } from 'cdsync';
const load = (needs) => loadConfig('${name}.json', { env: process.env, needs });
const result = await (async () => { ${body} })();
console.log(JSON.stringify(result));
`;
  await writeFile(join(space.folder, `${name}.mjs`), source);
  const { stdout, stderr, code } = await node(`${name}.mjs`);
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
  return JSON.parse(stdout) as T;
}

/** Files below a folder that the group (`g`) or everybody (`o`) can reach and read. */
async function readableBy(who: 'g' | 'o', folder: string): Promise<string[]> {
  const shift = who === 'g' ? 3 : 0;
  const may = async (path: string, right: number) => (((await stat(path)).mode >> shift) & right) !== 0;
  if (!(await may(folder, 1))) return [];
  const found: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...(await readableBy(who, path)));
    else if (entry.isFile() && (await may(path, 4))) found.push(path);
  }
  return found.sort();
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await entriesBelow(folder);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

describe('run', () => {
  it('gives the report of --json, prints nothing, and leaves the process as it is', async () => {
    await space.configure('plain', [members]);
    const { first, second, before, after } = await program<{
      first: JobReport;
      second: JobReport;
      before: unknown;
      after: unknown;
    }>(
      'plain',
      `const state = () => ({ umask: process.umask(), exitCode: process.exitCode ?? null, cwd: process.cwd(), env: process.env,
         signals: ['SIGINT', 'SIGTERM', 'uncaughtException'].map((name) => process.listenerCount(name)) });
       const before = JSON.parse(JSON.stringify(state()));
       const config = await load();
       const first = await run(config);
       const second = await run(config, { job: 'plain' });
       return { first, second, before, after: state() };`,
    );
    expect(before).toMatchObject({ umask: 0 });
    expect(after).toEqual(before);
    expect(first).toMatchObject({ job: 'plain', status: 'ok', sequence: 1, resumed: false, destinations: [] });
    expect(first.streams).toMatchObject([{ name: 'members', status: 'ok', rows: 1000, inserted: 1000, error: null }]);
    expect(second).toMatchObject({ status: 'ok', sequence: 1 });
    expect(second.streams).toMatchObject([{ rows: 1000, inserted: 0, updated: 0, deleted: 0, unchanged: 1000 }]);
    const modes = await Promise.all(
      (await filesIn(join(space.folder, 'data', 'plain'))).map(async (path) => [path, (await stat(path)).mode & 0o077]),
    );
    expect(modes.filter(([, mode]) => mode !== 0)).toEqual([]);
    const { report } = await space.run('plain');
    expect(Object.keys(report.jobs[0] ?? {})).toEqual(Object.keys(second));
  });

  it('reports its progress until its signal interrupts it, and is resumed by the next run', async () => {
    // A page every 25 ms: two seconds and a half.
    await space.configure('slow', [{ ...members, page_size: 10 }], { service: { rate_limits: { profile: limit } } });
    const { phases, stopped, resumed, early } = await program<Record<string, JobReport> & { phases: string[] }>(
      'slow',
      `const config = await load();
       const early = await run(config, { signal: AbortSignal.abort() });
       const stop = new AbortController();
       const phases = [];
       const onProgress = ({ phase, streams: [{ live }] }) => { phases.push(phase); if (live?.requests > 0) stop.abort(); };
       const stopped = await run(config, { signal: stop.signal, onProgress });
       return { phases, early, stopped, resumed: await run(config) };`,
    );
    expect(phases).toContain('reading');
    expect(stopped).toMatchObject({ status: 'interrupted', sequence: null });
    expect(early).toMatchObject({ status: 'interrupted', sequence: null });
    expect(resumed).toMatchObject({ status: 'ok', resumed: true, run_id: stopped?.run_id, sequence: 1 });
    expect(resumed?.streams).toMatchObject([{ rows: 1000 }]);
  });

  it('is not ended by functions of the program that throw', async () => {
    await space.configure('throwing', [{ ...members, page_size: 10 }], {
      service: { rate_limits: { profile: limit } },
    });
    const { ended, warnings } = await program<{ ended: JobReport; warnings: string[] }>(
      'throwing',
      `const warnings = [];
       process.removeAllListeners('warning').on('warning', ({ message }) => warnings.push(message));
       const fail = () => { throw new Error('mine'); };
       const ended = await run(await load(), { onProgress: fail, onNotice: fail });
       await new Promise(setImmediate);
       return { ended, warnings: warnings.filter((text) => text.includes('onProgress')) };`,
    );
    expect(ended).toMatchObject({ status: 'ok', streams: [{ rows: 1000 }] });
    expect(warnings).toEqual(['onProgress threw an error, and is not called again in this run: Error: mine']);
  });

  it('is refused if the same program already runs its job', async () => {
    await space.configure('twice', [members]);
    const ended = await program<unknown[]>(
      'twice',
      `const config = await load();
       const ended = await Promise.allSettled([run(config), run(config)]);
       return ended.map(({ value, reason }) => value?.status ?? [reason instanceof CdsyncError, reason.kind]).sort();`,
    );
    expect(ended).toEqual(['ok', [true, 'locked']]);
  });

  it('loads the destinations, and refuses a configuration that was loaded without them', async () => {
    await space.configure('delivered', [members], {
      job: { destinations: [{ name: 'crm', connector: 'duckdb', path: './crm/crm.duckdb', streams: ['members'] }] },
    });
    const { without, alone, delivered, unknown } = await program<Record<string, JobReport>>(
      'delivered',
      `const code = ({ code }) => code;
       const without = await run(await load()).catch(code);
       const unknown = await run(await load(), { job: 'daily' }).catch(code);
       const alone = await run(await load(), { deliver: false });
       return { without, unknown, alone, delivered: await run(await load({ destinations: true })) };`,
    );
    expect([without, unknown]).toEqual(['usage', 'job_not_found']);
    expect(alone).toMatchObject({ status: 'ok', destinations: [] });
    expect(delivered).toMatchObject({ status: 'ok', destinations: [{ name: 'crm', status: 'ok', rows: 1000 }] });
    expect((await stat(join(space.folder, 'crm', 'crm.duckdb'))).mode & 0o777).toBe(0o600);
  });

  it.each([
    ['0600', { g: false, o: false }],
    ['0640', { g: true, o: false }],
    ['0644', { g: true, o: true }],
  ] as const)('shows others what publish.mode %s says, and nothing else', async (mode, may) => {
    const job = `mode_${mode}`;
    await space.configure(job, [members], { job: { publish: { mode } } });
    await program(job, 'return run(await load());');
    const folder = space.jobFolder(job);
    const published = (await Promise.all(['published', 'parquet'].map((name) => filesIn(join(folder, name))))).flat();
    expect(published.length).toBeGreaterThan(2);
    for (const who of ['g', 'o'] as const)
      expect(await readableBy(who, folder)).toEqual(may[who] ? published.toSorted() : []);
  });
});

it('the program of docs/library.md runs unchanged, with two jobs side by side', async () => {
  const blocks = await blocksOf('library.md');
  await writeFiles(space, blocks, new Map());
  const { CDS_TOKEN } = space.env;
  const env = { CDS_BASE_URL: space.service.url, CDS_TENANT_ID: space.service.tenantId, CDS_TOKEN: CDS_TOKEN ?? '' };
  const { stdout, stderr, code } = await node('nightly.mjs', env);
  expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
  expect(stdout).toMatch(
    /^members: ok, members has 1000 rows, 1000 new\naudience: ok, segments has (\d+) rows, \1 new\n$/,
  );
});

import { execFile, execFileSync } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { canEncrypt, Runner } from '../fixtures/github-actions.js';
import { blocksOf } from '../fixtures/recipes.js';
import { Workspace } from '../fixtures/workspace.js';

const root = join(import.meta.dirname, '..', '..');
const timeout = 600_000;

let space: Workspace;
let env: Record<string, string>;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 500 });
  const { url, tenantId, clientId, clientSecret } = space.service;
  env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
});
afterAll(() => space.close());

describe('the GitHub Action', () => {
  it(
    'runs a job, says how it ended, and writes a summary of the build',
    async () => {
      await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
      const runner = new Runner(space, env);
      const { code, outputs } = await runner.action({ config: 'job.json', args: '--stream\nmembers' });
      expect([code, outputs]).toEqual([
        0,
        { status: 'ok', 'run-id': expect.stringMatching(/^\d{8}T\d{6}Z-[0-9a-f]{6}$/) },
      ]);
      expect(runner.summary).toMatch(/^### cdsync: job: ok\n/);
      expect(runner.summary).toContain('| members | ok | 500 | 500 | 0 | 0 | 0 |');
      expect(runner.used).toEqual([]);
    },
    timeout,
  );

  it(
    'passes the exit code on, and says so where no run began',
    async () => {
      const notBegun = new Runner(space, env);
      const none = await notBegun.action({ config: 'none.yaml' });
      expect(none).toEqual({ code: 2, outputs: { status: 'failed', 'run-id': '' } });
      expect(notBegun.summary).toMatch(/^### cdsync: nothing was run\n[\s\S]*there is no configuration file none.yaml/);
      await space.configure('held', [
        { name: 'members', source: 'index_profiles', index: 'loyalty_members', guards: { min_rows: 9999 } },
      ]);
      const runner = new Runner(space, env);
      const { code, outputs } = await runner.action({ config: 'held.json', job: 'held' });
      expect([code, outputs.status]).toEqual([3, 'held']);
      expect(runner.summary).toMatch(/guard_min_rows/);
    },
    timeout,
  );

  it.skipIf(!canEncrypt)(
    'keeps the storage only encrypted, whether the run succeeds or fails (not tried without gpg)',
    async () => {
      await space.configure('kept', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
      const inputs = { config: 'kept.json', storage: 'data', 'storage-passphrase': 'a passphrase of the build' };
      expect((await new Runner(space, env).action(inputs)).code).toBe(0);
      await space.control('change', { days: 1, updated: 0.05 });
      await rm(join(space.folder, 'data'), { recursive: true });
      await space.control('faults', { kind: 'status', match: '/profiles', status: 400 });
      expect((await new Runner(space, env).action(inputs)).code).toBe(1);
      await space.clearFaults();
      await rm(join(space.folder, 'data'), { recursive: true });
      expect((await new Runner(space, env).action(inputs)).code).toBe(0);
      const [row] = await space.query(
        'kept',
        "select count(*) filter (_op = 'update')::int as n from members__changes",
      );
      expect(row?.n).toBeGreaterThan(0);
      const kept = await readFile(join(space.folder, 'ci-cache', 'cdsync-storage.tar.gpg'));
      expect(kept.includes('kept.duckdb')).toBe(false);
    },
    timeout,
  );

  it.skipIf(!canEncrypt).each([
    ['another passphrase', (archive: Buffer) => archive, 'another one'],
    ['an archive that is cut', (archive: Buffer) => archive.subarray(0, archive.length - 100), 'the right one'],
    [
      'an archive that is cut in the middle',
      (archive: Buffer) => archive.subarray(0, archive.length / 2),
      'the right one',
    ],
  ])(
    'runs nothing with %s, and keeps the archive (not tried without gpg)',
    async (_, damage, passphrase) => {
      await space.configure('closed', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
      const archive = join(space.folder, 'ci-cache', 'cdsync-storage.tar.gpg');
      const data = join(space.folder, 'data');
      await Promise.all([data, archive].map((path) => rm(path, { recursive: true, force: true })));
      const inputs = { config: 'closed.json', 'storage-passphrase': 'the right one' };
      expect((await new Runner(space, env).action(inputs)).code).toBe(0);
      await rm(data, { recursive: true });
      const whole = await readFile(archive);
      await writeFile(archive, damage(whole));
      const before = await readFile(archive);
      const runner = new Runner(space, env);
      const ended = await runner.action({ ...inputs, 'storage-passphrase': passphrase });
      expect(ended).toEqual({ code: 1, outputs: { status: '', 'run-id': '' } });
      expect(runner.summary).toContain('cannot be decrypted');
      expect(runner.used).toEqual(['actions/cache/restore']);
      expect((await readFile(archive)).equals(before)).toBe(true);
      expect((await readdir(space.folder)).filter((name) => /^(data|\.cdsync-)/.test(name))).toEqual([]);
      await writeFile(archive, whole);
      const next = new Runner(space, env);
      expect((await next.action(inputs)).code).toBe(0);
      // It continues from the archive: no row is new.
      expect(next.summary).toMatch(/\| members \| ok \| [\d,]+ \| 0 \|/);
    },
    timeout,
  );

  it(
    'approves the streams that a guard holds',
    async () => {
      const stream = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
      await space.configure('decided', [{ ...stream, guards: { min_rows: 9999 } }]);
      const { outputs } = await new Runner(space, env).action({ config: 'decided.json' });
      expect(outputs.status).toBe('held');
      const inputs = { config: 'decided.json', approve: String(outputs['run-id']) };
      const approved = await new Runner(space, env).action(inputs);
      expect(approved).toMatchObject({ code: 0, outputs: { status: 'ok', 'run-id': outputs['run-id'] } });
      expect((await space.query('decided', 'select count(*)::int as n from members'))[0]?.n).toBeGreaterThan(400);
    },
    timeout,
  );

  it.skipIf(!canEncrypt)('has a key of the cache for each configuration, storage and job', async () => {
    const choices = [
      { config: 'none.yaml' },
      { config: 'other.yaml' },
      { config: 'none.yaml', job: 'a' },
      { config: 'none.yaml', job: 'a-b' },
      { config: 'none.yaml', storage: 'a' },
    ];
    const keys: string[] = [];
    for (const choice of choices) {
      const runner = new Runner(space, env);
      await runner.action({ ...choice, 'storage-passphrase': 'x' });
      keys.push(String(runner.keys[0]));
    }
    for (const key of keys) expect(keys.filter((other) => other.startsWith(key.replace(/-*$/, '-')))).toEqual([key]);
  });

  it('uses no input in a script but by its environment', async () => {
    const action = parse(await readFile(join(root, 'action.yml'), 'utf8'));
    const steps = action.runs.steps as { run?: string; if?: string; uses?: string }[];
    expect(steps.filter(({ run }) => run?.includes('${{'))).toEqual([]);
    expect(steps.flatMap(({ uses = [] }) => uses).filter((uses) => !/@[0-9a-f]{40}$/.test(uses))).toEqual([]);
    expect(
      steps.filter(({ uses }) => uses !== undefined).every(({ if: condition }) => condition?.includes('passphrase')),
    ).toBe(true);
  });
});

describe('the Dockerfile', () => {
  it(
    'has the versions of the lock file, and runs as any user, with the mounts of docs/deployment.md (not tried: docker build)',
    async () => {
      const lines = (await readFile(join(root, 'Dockerfile'), 'utf8')).replaceAll('\\\n', ' ').split('\n');
      const steps = lines.map((line) => /^([A-Z]+) (.*)$/.exec(line)?.slice(1) ?? []) as [string, string][];
      const lastStage = steps.map(([word]) => word).lastIndexOf('FROM');
      const [build, last] = [steps.slice(0, lastStage), steps.slice(lastStage)];
      const installs = build.filter(([word, text]) => word === 'RUN' && text.startsWith('npm'));
      expect(installs.map(([, text]) => text.split(' ').slice(1, 3).join(' '))).toEqual([
        'ci --no-audit',
        'run build',
        'prune --omit=dev',
      ]);
      expect(last.filter(([, text = '']) => text.includes('npm '))).toEqual([]);
      const value = (name: string) => last.find(([word]) => word === name)?.[1] ?? '';
      expect([value('USER'), value('WORKDIR'), value('VOLUME')]).toEqual(['1000:1000', '/work', '/work']);
      const [entry, words] = [JSON.parse(value('ENTRYPOINT')), JSON.parse(value('CMD'))] as [string[], string[]];

      // Its COPY and RUN steps, in a folder instead of the file system.
      const disk = await mkdtemp(join(tmpdir(), 'cdsync-image-'));
      for (const [word, text] of last) {
        if (word === 'RUN') execFileSync('sh', ['-ec', text.replaceAll(/(?<= )\/(?=\w)/g, `${disk}/`)]);
        if (word !== 'COPY') continue;
        const [from, ...paths] = text.split(' ');
        expect(from).toBe('--from=build');
        const target = join(disk, paths.pop() ?? '');
        for (const path of paths) {
          const source = join(root, relative('/build', path));
          if (path.endsWith('node_modules')) await symlink(source, target);
          else await cp(source, target.endsWith('/') ? join(target, basename(path)) : target, { recursive: true });
        }
      }
      expect((await stat(join(disk, 'work'))).mode & 0o7777).toBe(0o1777);

      const [config] = (await blocksOf('deployment.md')).filter(({ file }) => file === 'cdsync.yaml');
      const onDisk = (path: string) => path.replace(/^\/(etc|work)/, `${disk}/$1`);
      await writeFile(onDisk('/etc/cdsync/cdsync.yaml'), config?.text.replace('/work', onDisk('/work')) ?? '');
      const path = `${join(disk, 'usr', 'local', 'bin')}:${process.env.PATH}`;
      // Not at once: the service is in this process.
      await promisify(execFile)(entry[0] as string, [...entry.slice(1), ...words].map(onDisk), {
        cwd: onDisk('/work'),
        env: { ...env, PATH: path, HOME: disk },
      });
      expect(await readdir(onDisk('/work/data/nightly'))).toEqual(
        expect.arrayContaining(['nightly.duckdb', 'reports']),
      );
      await rm(disk, { recursive: true });
    },
    timeout,
  );
});

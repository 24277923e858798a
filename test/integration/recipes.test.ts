import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { RunReport } from '../../src/core/run-report.js';
import { canEncrypt, Runner } from '../fixtures/github-actions.js';
import { type Block, blocksOf, type Substitutes, substituted, writeFiles } from '../fixtures/recipes.js';
import { shell } from '../fixtures/shell.js';
import { type Ended, Workspace } from '../fixtures/workspace.js';

/** A generous limit: documents are long. */
const timeout = 600_000;
const exampleRun = '20261103T021500Z-9f3a1c';
const configs = join(import.meta.dirname, '..', '..', 'configs');

let space: Workspace;
let env: Record<string, string>;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
  const { url, tenantId, clientId, clientSecret } = space.service;
  env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
  env.PII_SALT = 'salt of the recipes';
  env.STORAGE_PASSPHRASE = 'passphrase of the recipes';
  await cp(configs, join(space.folder, 'configs'), { recursive: true });
});
afterAll(() => space.close());

const aDay = () => space.control('change', { days: 1 });

/** The values that a reader puts in place of the examples: a folder, and dates of the last days. */
function own(more: readonly (readonly [string, string])[] = []): Substitutes {
  const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
  return new Map([['/srv/jobs', space.folder], ['2026-11-01', ago(10)], ['2026-11-08', ago(3)], ...more]);
}

/** Pastes a block; it must end with this code. */
async function paste({ heading, text }: Block, code = 0, substitutes = own()): Promise<Ended> {
  const ended = await shell(space, `set -e\n${substituted(text, substitutes)}`, env);
  expect([heading, ended.code, ended.code === code ? '' : ended.stdout + ended.stderr]).toEqual([heading, code, '']);
  return ended;
}

async function lastReport(job: string): Promise<RunReport> {
  const folder = join(space.jobFolder(job), 'reports');
  const [name = ''] = (await readdir(folder))
    .filter((file) => file.endsWith('.json'))
    .sort()
    .reverse();
  return JSON.parse(await readFile(join(folder, name), 'utf8')) as RunReport;
}

/** The blocks of docs/recovery.md that hold a stream, apart from those that repair a storage folder. */
const isGuarded = ({ file, text }: Block) => file === 'guarded.yaml' || text.includes('guarded.yaml');

const scripts = (blocks: readonly Block[]) =>
  blocks.filter(({ language, file }) => language === 'sh' && file === undefined);

describe('docs/snapshots.md', () => {
  it(
    'shows what its commands then show',
    async () => {
      const blocks = scripts(await blocksOf('snapshots.md'));
      expect(blocks.length).toBe(6);
      const changes = 'What has changed';
      for (const block of blocks) {
        if (block.heading === changes) await aDay();
        const { stdout } = await paste(block);
        if (block.heading === 'What was') expect(stdout).toMatch(/_valid_from/);
        if (block.heading === changes) expect(stdout).toMatch(/insert {2}/);
      }
    },
    timeout,
  );
});

describe('docs/recovery.md', () => {
  it(
    'has commands that repair the damage that it describes',
    async () => {
      const blocks = scripts(await blocksOf('recovery.md')).filter((block) => !isGuarded(block));
      expect(blocks.length).toBeGreaterThan(10);
      for (const block of blocks) {
        const { stdout } = await paste(block);
        if (block.heading === 'Backup, another machine, another disk') expect(stdout).toMatch(/nothing changed/);
      }
      const audit = (await lastReport('every_source')).jobs[0]?.streams;
      expect(audit).toMatchObject([{ name: 'audit', inserted: 0, deleted: 0 }]);
    },
    timeout,
  );
});

describe('docs/recovery.md, guards', () => {
  it(
    'has commands that approve, discard and accept held changes',
    async () => {
      const all = (await blocksOf('recovery.md')).filter(isGuarded);
      await writeFiles(space, all, own());
      const blocks = scripts(all);
      const holding = new Map([
        ['The next one is held', 3],
        ['It is wrong: discard', 3],
      ]);
      for (const block of blocks) {
        const isRun = block.text.includes('run guarded.yaml');
        const code = isRun ? (holding.get(block.heading) ?? 0) : 0;
        if (code === 3) await aDay();
        const held = existsSync(join(space.jobFolder('guarded'), 'reports')) ? await lastReport('guarded') : undefined;
        const ended = await paste(block, code, own([[exampleRun, held?.jobs[0]?.run_id ?? '']]));
        if (code === 3) expect(ended.stderr).toMatch(/cdsync approve .+, or: cdsync discard/);
        if (block.heading.startsWith('Look at it')) expect(ended.stdout).toContain('members is held');
        if (block.heading.startsWith('It is right')) expect(ended.stdout).toContain('update');
      }
      expect(await lastReport('guarded')).toMatchObject({ status: 'ok', jobs: [{ streams: [{ status: 'ok' }, {}] }] });
      expect((await shell(space, 'cdsync verify guarded.yaml', env)).code).toBe(0);
    },
    timeout,
  );
});

describe('docs/deployment.md, cron and systemd', () => {
  let blocks: Block[];
  const commands = () =>
    blocks
      .filter(({ language }) => language === 'crontab')
      .flatMap(({ text }) => text.split('\n'))
      .flatMap((line) => /^(?:\S+ +){4}\S+ +(.*)$/.exec(line)?.[1] ?? []);
  const sh = (command: string, more: Record<string, string> = {}) =>
    shell(space, `exec /bin/sh -c '${substituted(command, own()).replaceAll("'", `'\\''`)}'`, { ...bare, ...more });
  /** The environment that cron gives a job: almost nothing. The login is read from the file `.env`. */
  const bare = { CDS_TOKEN: '' };

  beforeAll(async () => {
    blocks = await blocksOf('deployment.md');
    await writeFiles(space, blocks, own());
    const login = Object.entries(env).map(([name, value]) => `${name}=${value}\n`);
    await writeFile(join(space.folder, '.env'), login.join(''), { mode: 0o600 });
  });

  it('begins with commands that can be tried by hand', async () => {
    for (const block of scripts(blocks).filter(({ heading }) => heading === 'Try it by hand')) await paste(block);
  });

  it(
    'has lines of crontab that log a good run, and mail an error',
    async () => {
      const [line = '', , watch = ''] = commands();
      expect(await sh(line)).toEqual({ code: 0, stdout: '', stderr: '' });
      expect(await readFile(join(space.folder, 'nightly.log'), 'utf8')).toContain('job nightly: ok');
      expect(await sh(watch)).toEqual({ code: 0, stdout: '', stderr: '' });
      const refused = await sh(line.replace('nightly.yaml', 'absent.yaml'));
      expect([refused.code, refused.stdout, refused.stderr]).toMatchObject([2, '', expect.stringMatching(/^error: /)]);
    },
    timeout,
  );

  it(
    'has a script that mails what needs a person, and nothing else',
    async () => {
      const [, script = ''] = commands();
      expect(await sh(script)).toEqual({ code: 0, stdout: '', stderr: '' });
      await space.control('faults', { kind: 'empty', match: '/profiles' });
      const held = await sh(script);
      await space.clearFaults();
      expect([held.code, held.stdout]).toMatchObject([3, expect.stringMatching(/^A guard holds[\s\S]*cdsync approve/)]);
      await space.control('faults', { kind: 'status', match: '/api/', status: 401 });
      const refused = await sh(script);
      await space.clearFaults();
      expect([refused.code, refused.stdout]).toMatchObject([100, expect.stringMatching(/^It will fail every night/)]);
      await space.control('faults', { kind: 'status', match: '/segments', status: 400 });
      const partly = await sh(script);
      await space.clearFaults();
      expect([partly.code, partly.stdout]).toMatchObject([100, expect.stringMatching(/^It will fail every night/)]);
      const both = await shell(
        space,
        `/bin/sh nightly.sh & while [ ! -f data/nightly/.cdsync/locks/job.json ]; do sleep 0.02; done; /bin/sh nightly.sh; echo $?; wait $!; echo $?`,
        bare,
      );
      expect(both.stdout).toMatch(/^(75|0)\n0\n$/);
      expect(
        (await readFile(join(space.folder, 'nightly.log'), 'utf8')).match(/"status":"ok","retry":false/g)?.length,
      ).toBe(both.stdout.startsWith('75') ? 2 : 3);
    },
    timeout,
  );

  it(
    'has a service whose command runs, and a timer that systemd takes',
    async () => {
      const service = await readFile(join(space.folder, 'cdsync-nightly.service'), 'utf8');
      const command = /^ExecStart=(.*)$/m.exec(service)?.[1] ?? '';
      expect(/^WorkingDirectory=(.*)$/m.exec(service)?.[1]).toBe(space.folder);
      const { code, stderr } = await shell(space, command, bare);
      expect([code, stderr]).toEqual([0, '']);
      const verify = ['verify', '--man=no', './cdsync-nightly.service', './cdsync-nightly.timer'];
      const said = await promisify(execFile)('systemd-analyze', verify, { cwd: space.folder }).then(
        ({ stderr: complaints }) => complaints,
        (error: { code?: string; stderr?: string }) => (error.code === 'ENOENT' ? '' : String(error.stderr)),
      );
      expect(said.split('\n').filter((line) => line.includes('cdsync-nightly'))).toEqual([]);
    },
    timeout,
  );

  it('has a way to remove old reports that keeps new ones', async () => {
    const before = await readdir(join(space.jobFolder('nightly'), 'reports'));
    for (const block of scripts(blocks).filter(({ text }) => text.startsWith('find'))) await paste(block);
    expect(await readdir(join(space.jobFolder('nightly'), 'reports'))).toEqual(before);
  });
});

describe('docs/deployment.md, CI', () => {
  let blocks: Block[];
  const section = (heading: string) => scripts(blocks).filter((block) => block.heading === heading);
  const inserted = async (job: string) => (await lastReport(job)).jobs[0]?.streams[0]?.inserted;
  const artifact = async () => (await shell(space, 'tar -tzf snapshot.tar.gz')).stdout.split('\n');
  const emptyWorkspace = () => rm(join(space.folder, 'data'), { recursive: true, force: true });

  beforeAll(async () => {
    blocks = await blocksOf('deployment.md');
    await writeFiles(space, blocks, own());
  });

  it(
    'makes a snapshot out of an empty workspace',
    async () => {
      await emptyWorkspace();
      for (const block of section('An empty workspace')) await paste(block);
      expect(await artifact()).toEqual(expect.arrayContaining(['pipeline.duckdb', 'parquet/members/manifest.json']));
      expect(await inserted('pipeline')).toBeGreaterThan(900);
    },
    timeout,
  );

  it.skipIf(!canEncrypt)(
    'resumes from the encrypted archive of the last run, even if that failed (not tried without gpg)',
    async () => {
      await emptyWorkspace();
      await rm(join(space.folder, 'snapshot.tar.gz'), { force: true });
      const [block] = blocks.filter(({ file }) => file === 'build.sh') as [Block];
      await paste(block);
      expect(await inserted('pipeline')).toBeGreaterThan(900);
      expect((await readFile(join(space.folder, 'cache', 'storage.tar.gpg'))).includes('pipeline.duckdb')).toBe(false);
      await emptyWorkspace();
      await space.control('faults', { kind: 'status', match: '/profiles', status: 400 });
      await paste(block, 1);
      await space.clearFaults();
      await emptyWorkspace();
      await aDay();
      await paste(block);
      expect(await inserted('pipeline')).toBeLessThan(100);
      expect((await lastReport('pipeline')).jobs[0]?.sequence).toBe(2);
      // A wrong passphrase, or an archive that is cut, runs nothing and changes nothing.
      const archive = join(space.folder, 'cache', 'storage.tar.gpg');
      const whole = await readFile(archive);
      const reports = async () => (await readdir(join(space.jobFolder('pipeline'), 'reports'))).length;
      const before = await reports();
      for (const content of [whole.subarray(0, whole.length / 2), Buffer.from('another'), Buffer.alloc(0)]) {
        await writeFile(archive, content);
        await paste(block, 2);
        expect([await reports(), (await readFile(archive)).equals(content)]).toEqual([before, true]);
      }
      await writeFile(archive, whole);
      for (const line of (await readFile(join(space.folder, 'run.log'), 'utf8')).split('\n').slice(0, -1))
        JSON.parse(line);
    },
    timeout,
  );

  it.skipIf(!canEncrypt)(
    'has a workflow that checks a change without secrets, and continues from an encrypted cache (not tried without gpg)',
    async () => {
      const workflow = parse(await readFile(join(space.folder, '.github', 'workflows', 'sync.yml'), 'utf8'), {
        merge: true,
      });
      const { check, plan, sync } = workflow.jobs;
      for (const block of section('A pull request')) await paste(block);
      expect(await new Runner(space, { CDS_TOKEN: '' }).steps(check.steps, {})).toBe(0);
      await writeFile(join(space.folder, 'node_modules', '.bin', 'gh'), '#!/bin/sh\necho "$@" > gh.log\n', {
        mode: 0o755,
      });
      expect(await new Runner(space, env).steps(plan.steps, { 'github.event.number': '7' })).toBe(0);
      expect(await readFile(join(space.folder, 'plan.md'), 'utf8')).toContain('members');
      expect(await readFile(join(space.folder, 'gh.log'), 'utf8')).toMatch(/^pr comment 7 /);
      const secrets = () => ({ 'secrets.STORAGE_PASSPHRASE': 'of the workflow' });
      /** One build: a workspace without storage. */
      const build = async () => {
        await emptyWorkspace();
        await rm(join(space.folder, 'snapshot.tar.gz'), { force: true });
        const runner = new Runner(space, env);
        return [await runner.steps(sync.steps, secrets()), runner.used.includes('actions/upload-artifact')];
      };
      expect(await build()).toEqual([0, true]);
      const first = await inserted('pipeline');
      await space.control('faults', { kind: 'status', match: '/profiles', status: 400 });
      expect(await build()).toEqual([1, false]);
      await space.clearFaults();
      await aDay();
      expect(await build()).toEqual([0, true]);
      expect(first).toBeGreaterThan(900);
      expect(await inserted('pipeline')).toBeLessThan(100);
      expect(await artifact()).toContain('pipeline.duckdb');
    },
    timeout,
  );

  it('has a pipeline of GitLab whose commands are those of the others', async () => {
    const pipeline = parse(await readFile(join(space.folder, '.gitlab-ci.yml'), 'utf8'));
    for (const line of [...pipeline.check.script, ...pipeline.sync.script] as string[])
      if (line !== 'npm ci') expect((await shell(space, line, env)).code).toBe(0);
  });
});

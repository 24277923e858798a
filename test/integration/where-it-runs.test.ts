import { execFile, execFileSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { blocksOf } from '../fixtures/recipes.js';
import { shell } from '../fixtures/shell.js';
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
  interface Step {
    readonly name: string;
    readonly id?: string;
    readonly if?: string;
    readonly run?: string;
    readonly uses?: string;
    readonly env?: Readonly<Record<string, string>>;
  }

  /** Runs its shell steps as the runner would. */
  async function act(inputs: Readonly<Record<string, string>>) {
    const action = parse(await readFile(join(root, 'action.yml'), 'utf8'));
    const files = {
      GITHUB_OUTPUT: join(space.folder, 'output'),
      GITHUB_STEP_SUMMARY: join(space.folder, 'summary.md'),
    };
    for (const file of Object.values(files)) await writeFile(file, '');
    const given: Record<string, string> = {};
    for (const [name, { default: preset }] of Object.entries(action.inputs as Record<string, { default: string }>))
      given[name] = inputs[name] ?? preset;
    const value = (text: string) => text.replaceAll(/\$\{\{ inputs\.([\w-]+) \}\}/g, (_, name) => given[name] ?? '');
    let code = 0;
    for (const { run, env: names = {}, if: condition } of action.runs.steps as Step[]) {
      // Installing is install.test.ts's; the cache is the runner's.
      if (run === undefined || (condition?.includes('inputs.version') && given.version === '')) continue;
      const own = Object.fromEntries(Object.entries(names).map(([name, text]) => [name, value(text)]));
      code ||=
        (await shell(space, `set -eo pipefail\n${run}`, { ...env, ...own, ...files, RUNNER_TEMP: space.folder }))
          .code ?? 1;
    }
    const [output, summary] = await Promise.all(Object.values(files).map((file) => readFile(file, 'utf8')));
    return { code, output: output ?? '', summary: summary ?? '', action };
  }

  it(
    'runs a job, says how it ended, and writes a summary of the build',
    async () => {
      await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
      const { code, output, summary } = await act({ config: 'job.json', args: '--stream\nmembers' });
      expect([code, output]).toEqual([0, expect.stringMatching(/^status=ok\nrun-id=\d{8}T\d{6}Z-[0-9a-f]{6}\n$/)]);
      expect(summary).toMatch(/^### cdsync: job: ok\n/);
      expect(summary).toContain('| members | ok | 500 | 500 | 0 | 0 | 0 |');
    },
    timeout,
  );

  it(
    'passes the exit code on, and says so where no run began',
    async () => {
      expect(await act({ config: 'none.yaml' })).toMatchObject({ code: 2, output: 'status=failed\nrun-id=\n' });
      await space.configure('held', [
        { name: 'members', source: 'index_profiles', index: 'loyalty_members', guards: { min_rows: 9999 } },
      ]);
      const { code, output, summary } = await act({ config: 'held.json', job: 'held' });
      expect([code, output.split('\n')[0]]).toEqual([3, 'status=held']);
      expect(summary).toMatch(/guard_min_rows/);
    },
    timeout,
  );

  it('keeps the storage whatever came of the run, and uses no input in a script but by its environment', async () => {
    const { action } = await act({ config: 'none.yaml' });
    const steps = action.runs.steps as Step[];
    expect(steps.at(-1)).toMatchObject({ if: 'always()', uses: expect.stringMatching(/^actions\/cache\/save@/) });
    expect(steps.filter(({ run }) => run?.includes('${{'))).toEqual([]);
    expect(Object.keys(action.outputs)).toEqual(['status', 'run-id']);
  });
});

describe('the Dockerfile', () => {
  it(
    'installs a package that runs as its own user, and what docs/docker.md mounts is what it reads (not tried: docker build)',
    async () => {
      const lines = (await readFile(join(root, 'Dockerfile'), 'utf8')).replaceAll('\\\n', ' ').split('\n');
      const steps = lines.map((line) => /^([A-Z]+) (.*)$/.exec(line)?.slice(1) ?? []) as [string, string][];
      const last = steps.slice(steps.map(([word]) => word).lastIndexOf('FROM'));
      const value = (name: string) => last.find(([word]) => word === name)?.[1] ?? '';
      expect([value('USER'), value('WORKDIR'), value('VOLUME')]).toEqual(['node', '/work', '/work']);
      const [entry, words] = [JSON.parse(value('ENTRYPOINT')), JSON.parse(value('CMD'))] as [string[], string[]];

      // Its COPY and RUN steps, in a folder instead of the file system; npm ci and the download of packages are left out.
      const disk = await mkdtemp(join(tmpdir(), 'cdsync-image-'));
      await mkdir(join(disk, 'tmp'));
      execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', join(disk, 'tmp')], {
        cwd: root,
        stdio: 'ignore',
      });
      for (const [word, text] of last) {
        if (word !== 'RUN' || text.startsWith('npm install')) continue;
        execFileSync('sh', ['-ec', text.replaceAll(/(?<= )\/(?=\w)/g, `${disk}/`).replace(/&& chown \S+ \S+ /, '')]);
      }
      const [install = ''] = last
        .filter(([word, text]) => word === 'RUN' && text.startsWith('npm install'))
        .map(([, text]) => text);
      expect(install).toMatch(/--prefix \/opt\/cdsync --omit=dev .* \/tmp\/cdsync-\*\.tgz/);
      const [tarball = ''] = await readdir(join(disk, 'tmp'));
      const installed = join(disk, 'opt', 'cdsync', 'node_modules');
      await mkdir(join(installed, '.bin'), { recursive: true });
      execFileSync('tar', ['-xzf', join(disk, 'tmp', tarball), '-C', join(disk, 'tmp')]);
      await cp(join(disk, 'tmp', 'package'), join(installed, 'cdsync'), { recursive: true });
      execFileSync('ln', ['-s', join(root, 'node_modules'), join(installed, 'cdsync', 'node_modules')]);
      execFileSync('ln', ['-s', '../cdsync/dist/src/cli/main.js', join(installed, '.bin', 'cdsync')]);
      await chmod(join(installed, 'cdsync', 'dist', 'src', 'cli', 'main.js'), 0o755);

      const [config] = (await blocksOf('docker.md')).filter(({ file }) => file === 'cdsync.yaml');
      const onDisk = (path: string) => path.replace(/^\/(etc|work)/, `${disk}/$1`);
      await writeFile(onDisk('/etc/cdsync/cdsync.yaml'), config?.text.replace('/work', onDisk('/work')) ?? '');
      const path = `${join(installed, '.bin')}:${process.env.PATH}`;
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

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended } from '../fixtures/workspace.js';

const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
const timeout = 600_000;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-quickstart-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function start(words: readonly string[], cwd = folder): ChildProcess {
  // As npx starts it, without any variable of the service.
  const env = { PATH: process.env.PATH, HOME: folder, npm_command: 'exec' };
  return spawn(process.execPath, [program, ...words], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

const cdsync = (...words: string[]) => ended(start(words));

/** The figures of a stream in the summary of a run: rows, inserted, updated, deleted. */
function figures(stdout: string, stream: string): number[] {
  const line = new RegExp(`^ {2}${stream} +ok +([\\d,]+) +([\\d,]+) +([\\d,]+) +([\\d,]+)`, 'm').exec(stdout) ?? [];
  return line.slice(1).map((text) => Number(text.replaceAll(',', '')));
}

describe('cdsync quickstart', () => {
  it(
    'runs a job for two days in an empty folder, and says what to do next; again, for one more day',
    async () => {
      const { code, stdout, stderr } = await cdsync('quickstart', '--profiles', '500');
      expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
      const [, first = '', second = ''] = stdout.split('$ npx --no-install cdsync run\n');
      expect(figures(first, 'members')).toEqual([500, 500, 0, 0]);
      expect(stdout).not.toContain('warning');
      const [rows = 0, ...changes] = figures(second, 'members');
      expect([rows > 480, changes.reduce((sum, each) => sum + each, 0) > 0]).toEqual([true, true]);
      for (const path of ['quickstart.duckdb', 'parquet', 'reports']) {
        expect(stdout).toContain(`data/quickstart/${path}`);
        await stat(join(folder, 'data', 'quickstart', path));
      }
      expect((await readdir(folder)).sort()).toEqual(['cdsync.yaml', 'data']);
      const config = await readFile(join(folder, 'cdsync.yaml'), 'utf8');

      const again = await cdsync('quickstart');
      expect([again.code, again.stdout.match(/\$ npx --no-install cdsync run\n/g)?.length]).toEqual([0, 1]);
      expect(await readFile(join(folder, 'cdsync.yaml'), 'utf8')).toBe(config);
      expect((await readdir(join(folder, 'data', 'quickstart', 'reports'))).length).toBeGreaterThanOrEqual(3);
    },
    timeout,
  );

  it(
    'names commands that work as they are, and a service to run them against',
    async () => {
      const { stdout } = await cdsync('quickstart', '--json');
      const { status, jobs, next } = JSON.parse(stdout) as { status: string; jobs: unknown[]; next: string[] };
      expect([status, jobs.length]).toEqual(['ok', 1]);
      const paste = (command: string) =>
        spawn('bash', ['-c', command.replace(/^npx --no-install cdsync/, `exec '${process.execPath}' '${program}'`)], {
          cwd: folder,
          stdio: ['ignore', 'pipe', 'pipe'],
        });
      for (const command of next.filter((each) => /^npx --no-install cdsync (query|diff|status)/.test(each))) {
        const { code } = await ended(paste(command));
        expect([command, code]).toEqual([command, 0]);
      }
      const [serve = ''] = next.filter((each) => each.startsWith('npx --no-install cdsync serve'));
      const service = paste(`${serve} --port 0 --json`);
      const [line] = (await once(service.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
      const env = { PATH: process.env.PATH, CDS_BASE_URL: JSON.parse(line.toString()).url as string };
      const run = await ended(
        spawn(process.execPath, [program, 'run', '--json'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }),
      );
      service.kill('SIGTERM');
      await ended(service);
      // The same data as a moment ago: it is the same service.
      expect([run.code, JSON.parse(run.stdout).jobs[0].streams[0]]).toMatchObject([
        0,
        { inserted: 0, updated: 0, deleted: 0 },
      ]);
    },
    timeout,
  );

  it('writes over nothing', async () => {
    const other = await mkdtemp(join(tmpdir(), 'cdsync-quickstart-'));
    await writeFile(join(other, 'cdsync.yaml'), 'version: 1\n');
    const { code, stderr } = await ended(start(['quickstart'], other));
    expect([code, /cdsync\.yaml exists already.*\[usage\]/.test(stderr)]).toEqual([2, true]);
    expect(stderr).toMatch(/Name another folder/);
    expect([await readdir(other), await readFile(join(other, 'cdsync.yaml'), 'utf8')]).toEqual([
      ['cdsync.yaml'],
      'version: 1\n',
    ]);
    await rm(other, { recursive: true });
  });

  it('says why its service does not start', async () => {
    await mkdir(join(folder, 'broken', 'data', 'local-service.json'), { recursive: true });
    const { code, stderr } = await cdsync('quickstart', 'broken', '--profiles', '300');
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/error: the local service did not start \[service_not_started\]/),
    ]);
    expect(stderr).not.toContain('[unexpected]');
  });

  it(
    'names itself as the next step if its run fails, because its service has stopped',
    async () => {
      await cdsync('quickstart', 'failing', '--profiles', '300');
      const file = join(folder, 'failing', 'cdsync.yaml');
      const stream = '      - { name: none, source: index_profiles, index: none }\n';
      const text = await readFile(file, 'utf8');
      await writeFile(
        file,
        text.replace(/^( +)streams:\n/m, (line) => line + stream),
      );
      const { code, stderr } = await cdsync('quickstart', 'failing');
      expect([code, stderr.trim().split('\n').at(-1)]).toEqual([5, 'next: npx --no-install cdsync quickstart failing']);
    },
    timeout,
  );

  it(
    'stops with its service when it is asked to',
    async () => {
      const child = start(['quickstart', 'stopped', '--profiles', '300']);
      const end = ended(child);
      child.stdout?.on('data', (text) => {
        if (String(text).includes('$ npx --no-install cdsync run stopped/cdsync.yaml')) child.kill('SIGTERM');
      });
      const { code, stderr } = await end;
      // Its pipes are closed, so the service, which has the same, is gone too.
      expect([code, stderr.trim().split('\n').at(-1)]).toEqual([130, 'next: cdsync quickstart stopped']);
    },
    timeout,
  );

  it(
    'leaves no service if it is killed',
    async () => {
      const child = start(['quickstart', 'killed', '--profiles', '300']);
      const end = ended(child);
      child.stdout?.on('data', (text) => {
        if (String(text).includes('$ npx --no-install cdsync run killed/cdsync.yaml')) child.kill('SIGKILL');
      });
      // The service has the same pipes: they close when it is gone, too.
      expect((await end).stdout).toContain('The first run reads everything.');
      await expect(readFile(join(folder, 'killed', 'cdsync.yaml'), 'utf8')).resolves.toContain('jobs:');
    },
    timeout,
  );
});

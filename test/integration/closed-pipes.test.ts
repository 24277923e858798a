import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, Workspace } from '../fixtures/workspace.js';

const cdsync = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
  await space.runWell('job');
});
afterAll(() => space.close());

/** Starts a command, and closes some of its pipes before it can write to them. */
async function withClosed(words: readonly string[], closed: readonly ('stdout' | 'stderr')[]) {
  const child = space.spawn(words);
  for (const name of closed) child[name]?.destroy();
  return ended(child);
}

/** Closes standard output after the first line, as `head -1` does. */
async function head(child: ChildProcess): Promise<string> {
  const [chunk] = (await once(child.stdout as NonNullable<ChildProcess['stdout']>, 'data')) as [Buffer];
  child.stdout?.destroy();
  return chunk.toString('utf8').split('\n')[0] ?? '';
}

describe.skipIf(!existsSync('/dev/full'))('output that cannot be written', () => {
  /** With standard output on a disk that is full. */
  const toFullDisk = (words: readonly string[]) => {
    const stdout = openSync('/dev/full', 'w');
    const child = space.spawn(words, {}, { stdout });
    closeSync(stdout);
    return ended(child);
  };

  it.each([
    ['query', ['query', 'job.json', 'from members']],
    ['status', ['status', 'job.json', '--json']],
  ])('is a failure of %s, and not of its storage', async (_, words) => {
    const { code, stderr } = await toFullDisk(words);
    const lines = stderr.trimEnd().split('\n');
    expect([code, lines[0], lines.at(-1)]).toEqual([
      1,
      'error: standard output cannot be written [output_failed]',
      'free space for the output; what was done: cdsync status job.json',
    ]);
  });

  it.each(['table', 'csv', 'json', 'markdown', 'arrow'])(
    'is a failure of a query as %s whose last bytes do not fit into the file',
    async (format) => {
      const path = join(space.folder, 'rows');
      const words = ['query', 'job.json', "select 'some words' as words from range(2000)", '--format', format];
      const whole = openSync(path, 'w');
      expect((await ended(space.spawn(words, {}, { stdout: whole }))).code).toBe(0);
      closeSync(whole);
      // Node ignores the signal of this limit, so a write ends as on a full disk: in part, then not at all.
      const most = Math.floor((statSync(path).size - 1) / 1024);
      const line = `ulimit -f ${most}; exec "$@" > rows`;
      const child = spawn('bash', ['-c', line, 'bash', process.execPath, cdsync, ...words], {
        cwd: space.folder,
        env: { PATH: process.env.PATH, ...space.env },
      });
      const { code, stderr } = await ended(child);
      expect([code, stderr]).toEqual([1, expect.stringContaining('[output_failed]')]);
      expect(statSync(path).size).toBe(most * 1024);
    },
  );

  it('does not stop a run, which does all of its work', async () => {
    const sequence = async () => (await space.query('job', 'SELECT max(sequence)::INT AS n FROM cdsync.runs'))[0]?.n;
    const before = Number(await sequence());
    await space.control('change', { days: 1 });
    expect((await toFullDisk(['run', 'job.json', '--json'])).code).toBe(1);
    expect(await sequence()).toBe(before + 1);
  });
});

describe('a reader that has gone', () => {
  it.each([
    ['run', ['run', 'job.json', '--json']],
    ['run for people', ['run', 'job.json']],
    ['status', ['status', 'job.json']],
    ['verify', ['verify', 'job.json']],
    ['query', ['query', 'job.json', 'from members']],
    ['--help', ['--help']],
  ])('is no failure of %s', async (_, words) => {
    const { code, stderr } = await withClosed(words, ['stdout']);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('is no failure of a run whose progress no one reads', async () => {
    const [last] = await space.query('job', 'SELECT max(sequence)::INT AS n FROM cdsync.runs');
    const before = Number(last?.n);
    await space.control('change', { days: 1 });
    const { code, stdout } = await withClosed(
      ['run', 'job.json', '--json', '--verbose', '--log-format', 'json'],
      ['stderr'],
    );
    expect([code, JSON.parse(stdout).status]).toEqual([0, 'ok']);
    await space.control('change', { days: 1 });
    expect((await withClosed(['run', 'job.json'], ['stdout', 'stderr'])).code).toBe(0);
    expect(await space.query('job', 'SELECT max(sequence)::INT AS n FROM cdsync.runs')).toEqual([{ n: before + 2 }]);
  });

  it('does not hide how a command ended', async () => {
    const { code, stderr } = await withClosed(['query', 'job.json', 'from nothing'], ['stdout']);
    expect([code, stderr.includes('[sql_failed]')]).toEqual([2, true]);
  });

  it.each(['csv', 'json'])('ends a long query in %s at once, and quietly', async (format) => {
    const child = space.spawn(['query', 'job.json', 'from range(100000000)', '--format', format]);
    const end = ended(child);
    expect(await head(child)).toMatch(/range|\[/);
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([0, '']);
  });
});

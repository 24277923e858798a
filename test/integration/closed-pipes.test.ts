import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, Workspace } from '../fixtures/workspace.js';

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

  it('is no failure of a run whose progress nobody reads', async () => {
    const before = await space.query('job', 'SELECT count(*)::INT AS n FROM members');
    await space.control('change', { days: 1 });
    const { code, stdout } = await withClosed(
      ['run', 'job.json', '--json', '--verbose', '--log-format', 'json'],
      ['stderr'],
    );
    expect([code, JSON.parse(stdout).status]).toEqual([0, 'ok']);
    await space.control('change', { days: 1 });
    expect((await withClosed(['run', 'job.json'], ['stdout', 'stderr'])).code).toBe(0);
    expect(await space.query('job', 'SELECT max(sequence)::INT AS n FROM cdsync.runs')).toEqual([{ n: 3 }]);
    expect(before).toHaveLength(1);
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

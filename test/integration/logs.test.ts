import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 2000 });
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
});
afterAll(() => space.close());

interface Entry {
  readonly time: string;
  readonly level: string;
  readonly event: string;
  readonly [fact: string]: unknown;
}

/** The lines of standard error; each must be an entry. */
function entries(stderr: string): Entry[] {
  expect(stderr.endsWith('\n') || stderr === '').toBe(true);
  const lines = stderr.split('\n').slice(0, -1);
  return lines.map((line) => {
    const entry = JSON.parse(line) as Entry;
    expect([Number.isNaN(Date.parse(entry.time)), typeof entry.event]).toEqual([false, 'string']);
    expect(['debug', 'info', 'warning', 'error']).toContain(entry.level);
    return entry;
  });
}

async function logged(words: readonly string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await space.cdsync([...words, '--log-format', 'json'], env);
  return { code, stdout, log: entries(stderr) };
}

const events = (log: readonly Entry[]) => log.map(({ event }) => event);

describe('a log for machines', () => {
  it('reports a run from its beginning to its end, and names job and run throughout', async () => {
    const { code, stdout, log } = await logged(['run', 'job.json']);
    expect(code).toBe(0);
    expect(stdout).toContain('job job: ok');
    expect(events(log)[0]).toBe('run_started');
    expect(new Set(events(log))).toEqual(new Set(['run_started', 'step', 'stream_finished', 'run_finished']));
    expect(log.every(({ job, run_id }) => job === 'job' && run_id === log[0]?.run_id)).toBe(true);
    expect(log.find(({ event }) => event === 'stream_finished')).toMatchObject({ stream: 'members', inserted: 2000 });
    expect(log.at(-1)).toMatchObject({ event: 'run_finished', status: 'ok', sequence: 1, exit_code: 0, level: 'info' });
  });

  it('has errors with their codes, and the next step, in every failure', async () => {
    await space.control('faults', { kind: 'status', match: '/profiles', status: 400, message: 'no "such"\nthing' });
    const failed = await logged(['run', 'job.json']);
    await space.clearFaults();
    expect([failed.code, events(failed.log).slice(-3)]).toEqual([1, ['stream_finished', 'run_finished', 'next_step']]);
    expect(failed.log.at(-3)).toMatchObject({ level: 'error', error: { code: 'bad_request' } });
    const refused = await logged(['run', 'job.json'], { CDS_TOKEN: 'none' });
    expect([refused.code, refused.log.at(-2)]).toMatchObject([4, { event: 'run_finished', exit_code: 4 }]);
    await space.configure('broken', [{ name: 'UPPER', source: 'nothing' }, {}]);
    for (const [words, code, exit] of [
      [['run', 'absent.json'], 'config_not_found', 2],
      [['run', 'broken.json'], 'config_invalid', 2],
      [['run', 'job.json', '--stream', 'memberz'], 'stream_not_found', 2],
      [['frobnicate'], 'usage', 2],
      [['run', '--frobnicate'], 'usage', 2],
      [['query', 'job.json', 'select wrong from members', '--verbose'], 'sql_failed', 2],
      [['serve', '--port', '99999'], 'usage', 2],
    ] as const) {
      const { code: ended, log } = await logged(words);
      expect([words, ended, log.at(-2)?.code, log.at(-1)?.event]).toEqual([words, exit, code, 'next_step']);
    }
  });

  it('has the cause of a failed stream for who asks for causes, and may see the values that it quotes', async () => {
    await space.configure('causes', [
      { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
      { name: 'sums', source: 'sql', key: ['id'], query: 'select error(id) as id from members' },
    ]);
    for (const [asked, shown] of [
      [[], []],
      [['--verbose'], []],
      [['--verbose', '--show-values'], [{ stream: 'sums', code: 'sql_failed', level: 'debug' }]],
    ] as const) {
      const { code, log } = await logged(['run', 'causes.json', ...asked]);
      expect(code).toBe(5);
      expect(log.filter(({ event }) => event === 'cause')).toMatchObject(shown);
    }
  });

  it('is asked for by a variable too, and nothing but text or json may be', async () => {
    const { stderr } = await space.cdsync(['frobnicate'], { CDSYNC_LOG_FORMAT: 'json' });
    expect(events(entries(stderr))).toEqual(['error', 'next_step']);
    for (const wrong of [['--log-format', 'xml'], ['--log-format=']]) {
      const result = await space.cdsync(['status', 'job.json', ...wrong]);
      expect([result.code, result.stderr]).toMatchObject([2, expect.stringMatching(/^error: /)]);
    }
    const { code, stderr: said } = await space.cdsync(['status', 'job.json'], { CDSYNC_LOG_FORMAT: 'xml' });
    expect([code, said]).toMatchObject([2, expect.stringContaining('$CDSYNC_LOG_FORMAT')]);
  });

  it('takes in what Node itself warns of', async () => {
    const warner = join(space.folder, 'warner.mjs');
    // Begins with the first line of the log: before it there is nothing to check.
    const script = `const write = process.stderr.write;
process.stderr.write = function (...args) {
  process.stderr.write = write;
  process.emitWarning('this is old');
  return write.apply(this, args);
};
`;
    await writeFile(warner, script);
    const child = space.spawn(['run', 'job.json', '--log-format', 'json'], { NODE_OPTIONS: `--import ${warner}` });
    const log = entries((await ended(child)).stderr);
    expect(log.find(({ level }) => level === 'warning')).toMatchObject({ message: 'Warning: this is old' });
  });

  it('is whole when a run is interrupted, and when another one has the lock', async () => {
    await space.configure('slow', [
      { name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 20 },
    ]);
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 100, share: 1 });
    const child = space.spawn(['run', 'slow.json', '--log-format', 'json']);
    const end = ended(child);
    try {
      while (!existsSync(join(space.jobFolder('slow'), '.cdsync', 'locks', 'job.json'))) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const locked = await logged(['run', 'slow.json']);
      expect([locked.code, locked.log[0]]).toMatchObject([75, { event: 'error', code: 'locked', job: 'slow' }]);
    } finally {
      // Like npx, which passes on a signal that the terminal has sent to both.
      child.kill('SIGINT');
      child.kill('SIGINT');
      await space.clearFaults();
    }
    const { code, stderr } = await end;
    const log = entries(stderr);
    expect([code, events(log).slice(-2)]).toEqual([130, ['run_finished', 'next_step']]);
    expect(log.some(({ event, message }) => event === 'notice' && /^stopping/.test(String(message)))).toBe(true);
  });

  it('has only errors and the next step with --quiet', async () => {
    const quiet = await logged(['run', 'job.json', '--quiet']);
    expect([quiet.code, quiet.log]).toEqual([0, []]);
    const { log } = await logged(['run', 'absent.json', '--quiet']);
    expect(events(log)).toEqual(['error', 'next_step']);
  });
});

describe('a log for people', () => {
  it('is plain lines by default, without a terminal', async () => {
    await space.control('faults', { kind: 'status', match: '/profiles', status: 400 });
    const { stderr } = await space.cdsync(['run', 'job.json']);
    await space.clearFaults();
    expect(stderr).toMatch(
      /^correct the stream in the configuration, then: cdsync check job.json \(the last good snapshot of members is .* old\)\n$/,
    );
  });
});

import { chmod, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runAfter } from '../../../src/notify/after-commands.js';
import { runEnd } from '../../fixtures/run-ends.js';

let folder: string;
let notices: string[];
let stop: AbortController;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'cdsync-after-')));
  notices = [];
  stop = new AbortController();
});
afterEach(() => rm(folder, { recursive: true }));

const minutes = 300_000;

/** Runs commands after a run; each is a list of words, or a script of the shell. */
async function commands(input: readonly (readonly string[] | string)[], deadline = minutes, env = {}) {
  const surroundings = {
    folder,
    env: { PATH: process.env.PATH, ...env },
    secretVariables: ['CDS_TOKEN', 'SLACK_URL'],
    signal: stop.signal,
    notice: (line: string) => void notices.push(line),
  };
  const words = input.map((each) => ({ run: typeof each === 'string' ? ['sh', '-c', each] : [...each], deadline }));
  await runAfter(words, runEnd({ status: 'held' }), surroundings);
}

/** Waits until a process is gone. */
async function goneOf(pidFile: string): Promise<void> {
  const pid = Number(await readFile(join(folder, pidFile), 'utf8'));
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    // A process that has ended is a zombie until its new parent waits for it.
    const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ' Z ');
    if (/\) Z /.test(state)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('a command after the run', () => {
  it.each([25, 300])('may have a deadline of %i days', async (days) => {
    await commands(['sleep 0.2; echo done'], days * 86_400_000);
    expect(notices).toEqual([expect.stringContaining('done')]);
  });

  it('runs in the folder of the configuration, with the values of the run in its arguments and environment', async () => {
    await writeFile(join(folder, 'show.sh'), '#!/bin/sh\npwd\nprintf "%s\\n" "$@"\nenv | grep CDSYNC_ | sort\n');
    await chmod(join(folder, 'show.sh'), 0o755);
    await commands([['./show.sh', '{status}', 'job {job}; $(id) {run_id} {report} {other}', 'a b']]);
    const report = '/data/nightly/reports/20261103T021500Z-9f3a1c.json';
    expect(notices).toEqual(
      [
        folder,
        'held',
        `job nightly; $(id) 20261103T021500Z-9f3a1c ${report} {other}`,
        'a b',
        'CDSYNC_JOB=nightly',
        `CDSYNC_REPORT=${report}`,
        'CDSYNC_RETRY=false',
        'CDSYNC_RUN_ID=20261103T021500Z-9f3a1c',
        'CDSYNC_STATUS=held',
      ].map((line) => `show.sh: ${line}`),
    );
  });

  it('gets the environment without the variables that the configuration keeps secret', async () => {
    await commands(['echo "$CDS_TOKEN|$SLACK_URL|$REGION"'], minutes, { CDS_TOKEN: 'a', SLACK_URL: 'b', REGION: 'eu' });
    expect(notices).toEqual(['sh: ||eu']);
  });

  it('that fails, is missing or may not be executed is a notice, and the next one runs', async () => {
    await writeFile(join(folder, 'plain.sh'), 'echo never');
    await commands(['echo what >&2; exit 3', ['./missing.sh'], ['./plain.sh'], 'kill -9 $$', 'echo last']);
    expect(notices).toEqual([
      'sh: what',
      'warning: after: sh ended with code 3',
      'warning: after: missing.sh could not be started: there is no such program (a path is relative to the folder of the configuration)',
      'warning: after: plain.sh could not be started: it may not be executed (chmod +x)',
      'warning: after: sh was ended by SIGKILL',
      'sh: last',
    ]);
  });

  it('that runs too long is stopped with all that it has started', async () => {
    await commands(['sleep 1000 & echo $! > child; trap "" TERM; sleep 1000'], 300);
    expect(notices).toEqual(['warning: after: sh had not ended after 0.3 s, and was stopped']);
    await goneOf('child');
  });

  it('that leaves something in the background does not keep cdsync waiting', async () => {
    const began = performance.now();
    await commands(['sleep 30 & echo $! > child; echo done']);
    expect(notices).toEqual(['sh: done']);
    expect(performance.now() - began).toBeLessThan(20_000);
    process.kill(Number(await readFile(join(folder, 'child'), 'utf8')));
  });

  it('is stopped by a signal, and the ones after it are left out', async () => {
    const running = commands(['sleep 1000', 'echo never']);
    setTimeout(() => stop.abort(), 200);
    await running;
    expect(notices).toEqual([
      'warning: after: sh was stopped, because cdsync was asked to stop',
      'warning: commands of `after` were left out, because cdsync was asked to stop',
    ]);
  });

  it('runs also if the run itself was interrupted', async () => {
    stop.abort();
    await commands(['echo one', 'echo too']);
    expect(notices).toEqual(['sh: one', 'sh: too']);
  });

  it('shows 4,000 characters of a line, however long it is', async () => {
    await commands(['head -c 3000000 /dev/zero | tr "\\0" x; echo; printf "a\\r\\nb"']);
    expect(notices).toEqual([`sh: ${'x'.repeat(4_000)}…`, 'sh: a', 'sh: b']);
  });

  it('shows no more than 500 lines', async () => {
    await commands(['seq 1 700']);
    expect(notices).toHaveLength(501);
    expect(notices.at(-1)).toBe('sh: (more than 500 lines: the rest is not shown)');
  });
});

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { Database } from '../../src/storage/duckdb.js';
import { JobLock } from '../../src/storage/job-lock.js';
import { JobLayout } from '../../src/storage/layout.js';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 30 });
});
afterAll(() => space.close());

const stream = (name: string, index = 'loyalty_members') => ({ name, source: 'index_profiles', index });
const csv = { name: 'out', connector: 'files', path: './out', format: 'csv' };

/** Writes `<file>.json` with these jobs, stored below `data-<file>/`. */
async function configure(file: string, jobs: Record<string, unknown>): Promise<void> {
  const service = {
    base_url: space.service.url,
    tenant_id: space.service.tenantId,
    auth: { token: '${CDS_TOKEN}' },
    retry: { patience: '1s', max_delay_ms: 100 },
  };
  const config = { version: 1, service, storage: `./data-${file}`, jobs };
  await writeFile(join(space.folder, `${file}.json`), JSON.stringify(config));
}

interface Document extends Omit<RunReport, 'jobs'> {
  jobs: { job: string; status?: string; run_id?: string | null; streams: { name: string }[]; error?: unknown }[];
}

async function documentOf(words: readonly string[]) {
  const { code, stdout, stderr } = await space.cdsync([...words, '--json', '--quiet']);
  return { code, stderr, document: JSON.parse(stdout) as Document };
}

describe('several jobs', () => {
  it('run one after the other; one that fails and one that is locked stop no other', async () => {
    await configure('mixed', {
      a: { streams: [stream('members')] },
      b: { streams: [stream('members', 'no such index')] },
      c: { streams: [stream('members')] },
      d: { streams: [stream('members')] },
    });
    const layout = new JobLayout(join(space.folder, 'data-mixed'), 'c');
    await space.cdsync(['run', 'mixed.json', '--job', 'c']);
    const database = await Database.open({ memoryMb: 128, threads: 1 });
    const lock = await JobLock.acquire(database, layout, new Date().toISOString());
    const { code, document, stderr } = await documentOf(['run', 'mixed.json', '--all']);
    expect(document.jobs.map(({ job, status }) => [job, status])).toEqual([
      ['a', 'ok'],
      ['b', 'failed'],
      ['c', 'locked'],
      ['d', 'ok'],
    ]);
    expect(document.jobs[2]).toMatchObject({ run_id: null, streams: [], destinations: [], error: { code: 'locked' } });
    expect([code, document.status, document.error]).toEqual([5, 'partial', null]);
    expect(stderr).toMatch(
      /correct the stream in the configuration, then: cdsync check mixed\.json --job b \(there is no good snapshot of b(?:, \w+)? yet\)\n$/,
    );
    const two = await documentOf(['run', 'mixed.json', '--job', 'd', '--job', 'c', '--job', 'd']);
    expect([two.code, two.document]).toMatchObject([75, { status: 'locked', jobs: [], error: { code: 'locked' } }]);
    await lock.release();
    database.close();
  });

  it('are all checked, planned, shown and verified, each in one document', async () => {
    await configure('two', { a: { streams: [stream('members')] }, b: { streams: [stream('people')] } });
    for (const command of ['run', 'check', 'plan', 'status', 'verify']) {
      const { code, document } = await documentOf([command, 'two.json', '--all']);
      expect([command, code, document.status, document.error]).toEqual([command, 0, 'ok', null]);
      expect(document.jobs.map(({ job, streams }) => [job, streams.map(({ name }) => name)])).toEqual([
        ['a', ['members']],
        ['b', ['people']],
      ]);
    }
    const alone = await space.cdsync(['check', 'two.json', '--job', 'b', '--json']);
    expect(JSON.parse(alone.stdout)).toMatchObject({ job: 'b', streams: [{ name: 'people' }] });
    const text = await space.cdsync(['status', 'two.json', '--all']);
    expect(text.stdout).toMatch(/^job a: .*^job b: .*^2 jobs: 2 ok$/ms);
  });

  it('take only the streams and destinations that they have, and know which names none of them has', async () => {
    await configure('narrow', {
      a: { streams: [stream('members')], destinations: [csv] },
      b: { streams: [stream('people')] },
    });
    const run = await documentOf(['run', 'narrow.json', '--all', '--stream', 'people']);
    expect([run.code, run.document.jobs.map(({ job }) => job)]).toEqual([0, ['b']]);
    await space.cdsync(['run', 'narrow.json', '--all', '--no-push']);
    const push = await documentOf(['push', 'narrow.json', '--all']);
    expect([push.code, push.document.jobs.map(({ job }) => job)]).toEqual([0, ['a']]);
    const unknown = await documentOf(['run', 'narrow.json', '--all', '--stream', 'peple']);
    expect([unknown.code, unknown.document.jobs, unknown.document.error]).toMatchObject([
      2,
      [],
      { code: 'stream_not_found', hint: 'did you mean "people"?' },
    ]);
  });

  it('are refused if it is not clear which, with the ways to say it', async () => {
    await configure('unclear', { alpha: { streams: [stream('members')] }, beta: { streams: [stream('people')] } });
    const none = await space.cdsync(['run', 'unclear.json']);
    expect([none.code, none.stderr]).toEqual([
      2,
      expect.stringMatching(/several jobs: alpha, beta .*\n {2}choose one: --job alpha, or take all of them: --all\n/),
    ]);
    expect(none.stderr).toMatch(/\nsee: cdsync run --help\n$/);
    const both = await space.cdsync(['run', 'unclear.json', '--all', '--job', 'beta']);
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('--job and --all were both given')]);
    const unknown = await space.cdsync(['run', 'unclear.json', '--job', 'beta', '--job', 'bta']);
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringMatching(/no job is called "bta"; did you mean "beta".*\n {2}the jobs of this file: alpha, beta/),
    ]);
  });

  it('a signal ends the present one with its checkpoint, and no further one is begun', async () => {
    await configure('stopped', {
      a: { streams: [stream('members')] },
      b: { streams: [stream('members')] },
      c: { streams: [stream('members')] },
    });
    await space.cdsync(['run', 'stopped.json', '--job', 'a']);
    await space.control('faults', { kind: 'hang', match: '/profiles' });
    const child = space.spawn(['run', 'stopped.json', '--job', 'b', '--job', 'c', '--json', '--log-format', 'json']);
    const end = ended(child);
    child.stderr?.on('data', (chunk) => {
      if (String(chunk).includes('run_started')) child.kill('SIGTERM');
    });
    const { code, stdout, stderr } = await end;
    await space.clearFaults();
    const { jobs, status } = JSON.parse(stdout) as Document;
    expect([code, status]).toEqual([130, 'interrupted']);
    expect(jobs).toMatchObject([
      { job: 'b', status: 'interrupted' },
      { job: 'c', status: 'interrupted', run_id: null, error: { code: 'not_begun' } },
    ]);
    expect(stderr).toContain('not begun: c');
    expect(stderr).toContain('next: cdsync run stopped.json --job b --job c');
  });
});

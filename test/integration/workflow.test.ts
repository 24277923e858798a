import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WorkflowService } from '../fixtures/workflow-service.js';
import { type Ended, ended, streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let workflows: WorkflowService;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
});
afterAll(() => space.close());
beforeEach(async () => {
  workflows = await WorkflowService.open(space.service.url);
  workflows.plans.set('cg-good', { states: ['started', 'succeeded'] });
  workflows.plans.set('cg-long', { states: ['started', 'in progress'] });
  workflows.plans.set('cg-bad', {
    states: ['started', 'failed'],
    error: { type: 'IngestError', message: 'the feed has no key', attribution: 'customer' },
  });
});
afterEach(() => workflows.close());
afterEach(() => space.clearFaults());

const members = { page_size: 100, name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const indexes = { name: 'indexes', source: 'indexes' };

async function configure(name: string, ...steps: object[]): Promise<string> {
  const before = steps.map((step) => ({ start_workflow: step }));
  return space.configure(name, [members, indexes], { service: { base_url: workflows.url }, job: { before } });
}

/** Waits until a process has said something. */
function said(child: ReturnType<Workspace['spawn']>, words: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stderr?.on('data', (chunk) => {
      text += chunk;
      if (text.includes(words)) resolve();
    });
    child.once('close', () => reject(new Error(`it never said "${words}": ${text}`)));
  });
}

describe('a job that starts workflows', () => {
  it('reads once they have succeeded, one after the other', async () => {
    workflows.plans.set('cg-first', { states: ['started', 'succeeded'] });
    await configure(
      'good',
      { config_id: 'cg-first' },
      { config_id: 'cg-good', run_mode: 'refresh', range_from: '2026-01-01', range_to: '2026-02-01' },
    );
    const { code, report, stderr } = await space.run('good');
    expect([code, stderr]).toEqual([0, '']);
    expect(streamOf(report.jobs[0] as never, 'members')).toMatchObject({ status: 'ok', rows: 1000 });
    expect(workflows.runs.map(({ request }) => request)).toEqual([
      { config_id: 'cg-first' },
      {
        config_id: 'cg-good',
        run_mode: 'refresh',
        range_from: '2026-01-01T00:00:00.000Z',
        range_to: '2026-02-01T00:00:00.000Z',
      },
    ]);
  });

  it('shows how they progress', async () => {
    workflows.plans.set('cg-good', { states: ['started', 'in progress', 'succeeded'] });
    const file = await configure('progress', { config_id: 'cg-good' });
    const { stderr, stdout } = await space.cdsync(['run', file]);
    for (const state of ['started', 'in progress', 'succeeded']) {
      expect(stderr).toMatch(new RegExp(`workflow cg-good: run wr-1 ${state}, \\d`));
    }
    expect(stdout + stderr).not.toContain('eve@');
  });

  it('reads nothing if one fails, and says why and whose fault it is', async () => {
    await configure('bad', { config_id: 'cg-bad' }, { config_id: 'cg-good' });
    const { code, report } = await space.run('bad');
    expect(code).toBe(1);
    expect(report.jobs[0]).toMatchObject({ status: 'failed', sequence: null });
    for (const stream of ['members', 'indexes']) {
      expect(streamOf(report.jobs[0] as never, stream)).toMatchObject({
        status: 'skipped',
        rows: 0,
        requests: 0,
        error: {
          code: 'workflow_failed',
          message: 'workflow cg-bad failed (run wr-1): IngestError: the feed has no key (attribution: customer)',
        },
      });
    }
    expect(workflows.runsOf('cg-good')).toEqual([]);
    const { stdout, stderr } = await space.cdsync(['run', 'bad.json', '--quiet']);
    expect(stdout.match(/the feed has no key/g)).toHaveLength(1);
    expect(stderr).toMatch(/there is no good snapshot of members yet/);
  });

  it('leaves the last snapshot as it is, and the next run starts it again', async () => {
    await configure('later', { config_id: 'cg-good' });
    expect((await space.runWell('later')).sequence).toBe(1);
    workflows.plans.set('cg-good', { states: ['canceled'] });
    const { code, report } = await space.run('later');
    expect([code, report.jobs[0]]).toMatchObject([1, { status: 'failed', sequence: 1 }]);
    expect(await space.query('later', 'select count(*)::int as rows from members')).toEqual([{ rows: 1000 }]);
    workflows.plans.set('cg-good', { states: ['succeeded'] });
    expect((await space.runWell('later')).status).toBe('ok');
    expect(workflows.runsOf('cg-good')).toHaveLength(3);
  });

  it('stops one that takes too long', async () => {
    await configure('long', { config_id: 'cg-long', deadline_ms: 1200 });
    const { code, report } = await space.run('long');
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([1, 'workflow_deadline']);
    expect(workflows.runs.map(({ stopped }) => stopped)).toEqual([true]);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('stops one at %s', async (signal) => {
    const file = await configure(`at_${signal.toLowerCase()}`, { config_id: 'cg-long' });
    const child = space.spawn(['run', file, '--json']);
    const end = ended(child);
    await said(child, 'in progress');
    child.kill(signal);
    const { code, stdout } = await end;
    expect([code, JSON.parse(stdout).status]).toEqual([130, 'interrupted']);
    expect(workflows.runs.map(({ stopped }) => stopped)).toEqual([true]);
  });

  it('takes over the run whose response was lost, once it knows the runs of the workflow', async () => {
    workflows.plans.set('cg-lost', { states: ['started', 'succeeded'], lostAnswer: 2 });
    await configure('lost', { config_id: 'cg-lost' });
    await space.runWell('lost');
    const again = await space.cdsync(['run', 'lost.json']);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('run wr-2 started')]);
    expect(workflows.runsOf('cg-lost')).toHaveLength(2);
  });

  it('starts nothing more if the response to the first start was lost, until that run has ended', async () => {
    workflows.plans.set('cg-first', { states: ['started', 'in progress', 'in progress', 'succeeded'], lostAnswer: 1 });
    await configure('unclear', { config_id: 'cg-first' });
    for (const again of [false, true]) {
      const { code, report } = await space.run('unclear');
      const error = report.jobs[0]?.streams[0]?.error;
      expect([again, code, error?.code, error?.hint]).toEqual([
        again,
        1,
        'workflow_unclear',
        expect.stringMatching(/cdsync workflow status (unclear\.json )?wr-1 (unclear\.json )?--view verbose/),
      ]);
    }
    expect(workflows.runs).toHaveLength(1);
    expect((await space.cdsync(['run', 'unclear.json', '--full'])).code).toBe(0);
    expect(workflows.runs).toHaveLength(2);
  });

  it('does not start one again if it resumes a run that was cut short, unless asked to', async () => {
    await configure('cut', { config_id: 'cg-good' });
    await space.control('faults', { kind: 'hang', match: '/profiles', after: 5 });
    const child = space.spawn(['run', 'cut.json', '--verbose']);
    const end = ended(child);
    await said(child, 'succeeded');
    const hasCheckpoint = async () => (await space.files('cut')).some((path) => path.endsWith('.parquet'));
    while (!(await hasCheckpoint())) await setTimeout(20);
    child.kill('SIGTERM');
    expect((await end).code).toBe(130);
    await space.clearFaults();
    const again = await space.cdsync(['run', 'cut.json']);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('its workflows are not started again')]);
    expect(workflows.runsOf('cg-good')).toHaveLength(1);
    expect((await space.cdsync(['run', 'cut.json', '--full'])).code).toBe(0);
    expect(workflows.runsOf('cg-good')).toHaveLength(2);
  });
});

describe('a job that was killed while it waited', () => {
  async function killWhen(job: string, words: string): Promise<void> {
    const child = space.spawn(['run', `${job}.json`, '--verbose']);
    const end = ended(child);
    await said(child, words);
    child.kill('SIGKILL');
    await end;
  }

  /** Changes the time at which the killed run started its workflow. */
  async function began(job: string, at: string): Promise<void> {
    const file = join(space.jobFolder(job), '.cdsync', 'workflows.json');
    // A file that a person has changed has no checksum.
    const { crc: _, ...started } = JSON.parse(await readFile(file, 'utf8')) as {
      crc?: unknown;
      runs: { started_at: string }[];
    };
    for (const run of started.runs) run.started_at = at;
    await writeFile(file, JSON.stringify(started));
  }

  it('follows its started workflows in the next run, and starts new ones in the run after that', async () => {
    workflows.plans.set('cg-slow', { states: ['started', 'in progress', 'in progress', 'in progress', 'succeeded'] });
    await configure('killed', { config_id: 'cg-good' }, { config_id: 'cg-slow' });
    await killWhen('killed', 'cg-slow: run');
    const plan = JSON.parse((await space.cdsync(['plan', 'killed.json', '--json'])).stdout);
    expect(plan.workflows).toMatchObject([{ would_start: false }, { would_start: false }]);
    const again = await space.cdsync(['run', 'killed.json']);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('which an interrupted run has started')]);
    expect(workflows.runs).toHaveLength(2);
    await space.runWell('killed');
    expect(workflows.runs).toHaveLength(4);
  });

  it('starts it again if it has failed in between, if the service no longer knows it, and with --full', async () => {
    workflows.plans.set('cg-sunk', { states: ['started', 'in progress', 'failed'] });
    await configure('sunk', { config_id: 'cg-sunk' });
    await killWhen('sunk', 'in progress');
    workflows.plans.set('cg-sunk', { states: ['started', 'in progress', 'succeeded'] });
    await killWhen('sunk', 'in progress');
    expect(workflows.runs).toHaveLength(2);
    workflows.runs.splice(0);
    await killWhen('sunk', 'in progress');
    expect(workflows.runs).toHaveLength(1);
    expect((await space.cdsync(['run', 'sunk.json', '--full'])).code).toBe(0);
    expect(workflows.runs).toHaveLength(2);
  });

  it('stops it if it has run past its deadline in between', async () => {
    await configure('late', { config_id: 'cg-long', deadline_ms: 60_000 });
    await killWhen('late', 'in progress');
    await began('late', new Date(Date.now() - 120_000).toISOString());
    const { code, report } = await space.run('late');
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([1, 'workflow_deadline']);
    expect(workflows.runs).toHaveLength(1);
  });
});

describe('configs/nightly-workflow.yaml', () => {
  it('runs unchanged against the local service', async () => {
    const { url, clientId, clientSecret } = space.service;
    const { code, stdout } = await space.cdsync(
      ['run', `${import.meta.dirname}/../../configs/nightly-workflow.yaml`, '--json'],
      {
        CDS_BASE_URL: url,
        CDS_CLIENT_ID: clientId,
        CDS_CLIENT_SECRET: clientSecret,
        CDSYNC_STORAGE: `${space.folder}/data`,
      },
    );
    expect(code).toBe(0);
    const [report] = JSON.parse(stdout).jobs;
    expect(streamOf(report, 'members').rows).toBe(1000);
    const mine =
      "select state, type from workflow_runs where name = 'Nightly unification' and principal_name = 'default'";
    expect(await space.query('nightly_workflow', mine)).toEqual([{ state: 'succeeded', type: 'refresh' }]);
  });
});

describe('a workflow of the local service', () => {
  const workflow = (...words: string[]) =>
    space.cdsync(['workflow', ...words, '--base-url', space.service.url, '--tenant-id', space.service.tenantId]);

  it.each([
    ['cg-fail', 'customer', 'settings of the tenant'],
    ['cg-platform-fail', 'platform', 'lies in the service'],
  ])('%s fails, by the fault of the %s', async (config, attribution, hint) => {
    const { code, stderr } = await workflow('start', config, '--wait');
    expect([code, stderr]).toEqual([1, expect.stringContaining(`(attribution: ${attribution}) [workflow_failed]`)]);
    expect(stderr).toContain(hint);
  });

  it('is stopped at SIGINT, and shows its tasks', async () => {
    const { url, tenantId } = space.service;
    const child = space.spawn([
      'workflow',
      'start',
      'cg-slow',
      '--wait',
      '--json',
      '--base-url',
      url,
      '--tenant-id',
      tenantId,
    ]);
    const end = ended(child);
    await said(child, 'in progress');
    child.kill('SIGINT');
    const { code, stderr } = await end;
    expect(code).toBe(130);
    const [, run = ''] = /run (\S+) is being stopped, stopping/.exec(stderr) ?? [];
    const { stdout } = await workflow('status', run, '--view', 'verbose');
    expect(stdout).toMatch(/: stopp(ing|ed) \(full Full history reload\)/);
    for (const task of ['ingest', 'unify', 'publish']) expect(stdout).toMatch(new RegExp(`^  ${task} +stopp`, 'm'));
  });

  it('is not started again if the response was lost on the way, and the runs to look at are named', async () => {
    const ids = async () => {
      const headers = {
        authorization: `Bearer ${space.service.token}`,
        'service-tenant': 'acme',
        'api-version': '2024-04-01',
      };
      const response = await fetch(`${space.service.url}/api/workflow/runs?limit=1000`, { headers });
      return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
    };
    const before = new Set(await ids());
    await space.control('faults', { kind: 'lost_answer', match: 'POST /api/workflow', count: 1 });
    const { code, stdout, stderr } = await workflow('start', 'cg-1', '--wait', '--json');
    const begun = (await ids()).filter((id) => !before.has(id));
    expect(begun).toHaveLength(1);
    expect([code, JSON.parse(stdout).error]).toMatchObject([
      1,
      { code: 'workflow_unclear', hint: expect.stringContaining(`cdsync workflow status ${begun[0]} --view verbose`) },
    ]);
    expect(stderr).toContain('the response was lost; looking whether it has started');
  });
});

describe('cdsync workflow', () => {
  const workflow = (...words: string[]): Promise<Ended> =>
    space.cdsync(['workflow', ...words, '--base-url', workflows.url, '--tenant-id', space.service.tenantId]);
  const documentOf = ({ stdout }: Ended) => JSON.parse(stdout);

  it('starts one and shows its run', async () => {
    const words = ['cg-good', '--run-mode', 'source', '--range-from', '2026-01-01', '--range-to', '2026-02-01'];
    const started = await workflow('start', ...words);
    expect([started.code, started.stderr]).toEqual([0, '']);
    expect(started.stdout).toMatch(/^run wr-1: started \(courier-group Workflow cg-good\)\n/);
    expect(workflows.runs[0]?.request).toEqual({
      config_id: 'cg-good',
      run_mode: 'source',
      range_from: '2026-01-01T00:00:00.000Z',
      range_to: '2026-02-01T00:00:00.000Z',
    });
  });

  it('starts one for a single day', async () => {
    expect((await workflow('start', 'cg-good', '--range-from', '2026-01-01')).code).toBe(0);
    expect(workflows.runs[0]?.request).toEqual({ config_id: 'cg-good', range_from: '2026-01-01T00:00:00.000Z' });
  });

  it('waits for its end', async () => {
    const good = documentOf(await workflow('start', 'cg-good', '--wait', '--json'));
    expect(good).toMatchObject({ status: 'ok', run: { id: 'wr-1', state: 'succeeded' }, error: null });
    const bad = await workflow('start', 'cg-bad', '--wait', '--json');
    expect([bad.code, documentOf(bad)]).toMatchObject([
      1,
      { status: 'failed', run: { id: 'wr-2', state: 'failed' }, error: { code: 'workflow_failed' } },
    ]);
    expect(bad.stderr).toContain('IngestError: the feed has no key (attribution: customer) [workflow_failed]');
  });

  it('stops it if waiting takes too long', async () => {
    const late = await workflow('start', 'cg-long', '--wait', '--deadline', '1500ms', '--json');
    expect([late.code, documentOf(late)]).toMatchObject([
      1,
      { status: 'failed', run: { id: 'wr-1', state: 'stopped' }, error: { code: 'workflow_deadline' } },
    ]);
    expect(late.stderr.trimEnd().split('\n').at(-1)).toBe('next: cdsync workflow status wr-1 --view verbose');
    expect(workflows.runs[0]?.stopped).toBe(true);
  });

  it('shows a run, and who started it only if values may be shown', async () => {
    await workflow('start', 'cg-long');
    const shown = await workflow('status', 'wr-1', '--json');
    expect([shown.code, documentOf(shown)]).toMatchObject([0, { status: 'ok', run: { id: 'wr-1' } }]);
    expect(shown.stdout).not.toContain('eve@');
    expect((await workflow('status', 'wr-1')).stdout).not.toContain('eve@');
    const verbose = ['status', 'wr-1', '--json', '--view', 'verbose'];
    expect((await workflow(...verbose)).stdout).not.toContain('eve@');
    const all = documentOf(await workflow(...verbose, '--show-values'));
    expect(all.run.principal_email).toBe('eve@example.com');
  });

  it('stops a run, once', async () => {
    await workflow('start', 'cg-long');
    expect((await workflow('stop', 'wr-1')).stdout).toMatch(/^run wr-1: stopped/);
    const again = await workflow('stop', 'wr-1');
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/\[conflict\]\n {2}it has ended already/)]);
  });

  it.each([
    [['status', 'wr-9'], 1, 'is the id right?'],
    [['start', 'cg-none'], 1, 'is the id right?'],
    [[], 2, 'choose: start, status or stop'],
    [['start'], 2, 'missing argument: CONFIG_ID'],
    [['start', 'cg-good', 'cg-bad'], 2, 'name one configuration of a workflow'],
    [['start', 'cg-good', '--deadline', '2h'], 2, '--deadline is for --wait'],
    [['start', 'cg-good', '--wait', '--deadline', 'soon'], 2, '--deadline is no duration'],
    [['start', 'cg-good', '--range-to', '2026-01-01'], 2, 'a range without a beginning'],
    [['start', 'cg-good', '--range-from', '2026-01-01', '--range-to', 'May'], 2, '--range-to is no date or time'],
    [['start', 'cg-good', '--run-mode', 'half'], 2, '--run-mode must be source, refresh or full'],
  ])('refuses %j', async (words, exit, reason) => {
    const { code, stderr } = await workflow(...words);
    expect([code, stderr]).toEqual([exit, expect.stringContaining(reason)]);
    expect(workflows.runs).toEqual([]);
  });
});

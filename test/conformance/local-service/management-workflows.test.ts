import { describe, expect, it } from 'vitest';
import { errorBody, published } from '../contract/published.js';
import { type Shape, violations } from '../contract/shape.js';
import { dayMs, type Item, iso, ManagementCaller } from './management-caller.js';

const ids = (items: readonly Item[]) => items.map(({ id }) => id as string);

/** A scheduled run that has not ended. */
async function unfinished(caller: ManagementCaller): Promise<Item> {
  const [run] = await caller.items('workflow/runs?state=in%20progress');
  return run as Item;
}

describe('GET /workflow/runs', () => {
  it.each([
    ['created', 'created_at'],
    ['ended', 'ended_at'],
  ])('bounds %s: from is included, to is not', async (name, field) => {
    const caller = await ManagementCaller.start();
    const all = await caller.items('workflow/runs');
    const times = all.flatMap((run) => run[field] ?? []).sort();
    const [from, to] = [times[10] as string, times[20] as string];
    const found = await caller.items(`workflow/runs?${name}_from=${from}&${name}_to=${to}`);
    expect(ids(found)).toEqual(ids(all.filter((run) => run[field] >= from && run[field] < to)));
    expect(found).toHaveLength(10);
    expect(await caller.items(`workflow/runs?${name}_to=${from}`)).toHaveLength(10);
  });

  it('leaves out unfinished runs if the end is bounded', async () => {
    const caller = await ManagementCaller.start();
    const { id } = await unfinished(caller);
    const year = '2020-01-01';
    expect(ids(await caller.items(`workflow/runs?created_from=${year}`))).toContain(id);
    expect(ids(await caller.items(`workflow/runs?ended_from=${year}`))).not.toContain(id);
  });

  it('narrows by state, by type, and by both together', async () => {
    const caller = await ManagementCaller.start();
    for (const [config, mode] of [
      ['cg-slow', 'source'],
      ['cg-fail', 'refresh'],
      ['cg-1', 'full'],
    ] as const) {
      await caller.start(config, { run_mode: mode });
    }
    caller.clock.jump(60_000);
    const all = await caller.items('workflow/runs');
    for (const state of ['succeeded', 'failed', 'in progress']) {
      const found = await caller.items(`workflow/runs?state=${encodeURIComponent(state)}`);
      expect(found.length).toBeGreaterThan(0);
      expect(found).toEqual(all.filter((run) => run.state === state));
    }
    for (const type of ['source', 'refresh', 'full']) {
      expect(await caller.items(`workflow/runs?type=${type}`)).toEqual(all.filter((run) => run.type === type));
    }
    for (const [word, state] of [
      ['Succeeded', 'succeeded'],
      ['FAILED', 'failed'],
      ['Running', 'in progress'],
      ['In Progress', 'in progress'],
      ['in_progress', 'in progress'],
    ]) {
      const found = await caller.items(`workflow/runs?state=${word}`);
      expect(found).toEqual(all.filter((run) => run.state === state));
    }
    expect(await caller.items('workflow/runs?state=unheard')).toEqual([]);
    const [slow] = await caller.items('workflow/runs?type=source&state=in+progress');
    expect(slow?.name).toBe('Full history reload');
    expect(await caller.items('workflow/runs?type=source&state=failed')).toEqual([]);
  });

  it('is 400 for bounds that are not times or in the wrong order', async () => {
    const caller = await ManagementCaller.start();
    const turned = 'created_from=2025-12-02&created_to=2025-12-01';
    for (const query of ['created_from=x', 'created_to=', 'ended_from=2025-02-30', 'ended_to=12', turned]) {
      expect([query, (await caller.get(`/api/workflow/runs?${query}`)).status]).toEqual([query, 400]);
    }
  });
});

describe('GET /workflow/runs/{id}', () => {
  it('gives an overview by default, and in the verbose view who, why, and the tasks', async () => {
    const caller = await ManagementCaller.start();
    const { id } = await caller.start('cg-1');
    const overview = await caller.run(id);
    expect((await caller.get(`/api/workflow/runs/${id}`)).body).toEqual(overview);
    expect(Object.keys(overview)).toEqual(['id', 'state', 'type', 'name', 'tenant', 'created_at']);
    expect((await caller.items('workflow/runs')).at(-1)).toEqual(overview);
    const whole = await caller.run(id, 'verbose');
    expect(whole).toMatchObject({ ...overview, principal_name: expect.any(String), launched_version: '7' });
    expect(violations(published.getWorkflowRun?.response as Shape, whole)).toEqual([]);
    const tasks = whole.task_instances;
    // No field names the configuration of the run.
    expect(JSON.stringify({ ...whole, task_instances: null })).not.toContain('cg-1');
    expect(tasks.map((task: Item) => [task.run_id, task.workflow_id, task.state])).toEqual(
      tasks.map(() => [id, id, 'scheduled']),
    );
    expect((await caller.get(`/api/workflow/runs/${id}?view=all`)).status).toBe(400);
  });

  it('is 404 for an unknown run', async () => {
    const caller = await ManagementCaller.start();
    const { status, body } = await caller.get('/api/workflow/runs/run-none');
    expect([status, violations(errorBody, body)]).toEqual([404, []]);
  });
});

describe('POST /workflow/runs', () => {
  it.each(['/api/workflow/runs', '/api/workflow/runs/'])(
    '%s returns 201 with the run, which can then be read',
    async (path) => {
      const caller = await ManagementCaller.start();
      const { status, body } = await caller.post(path, { config_id: 'cg-1' });
      expect([status, violations(published.startWorkflow?.response as Shape, body)]).toEqual([201, []]);
      expect(body).toMatchObject({
        state: 'scheduled',
        type: 'full',
        tenant: 'acme',
        created_at: iso(caller.clock.now()),
      });
      expect(await caller.run(body.id)).toEqual(body);
      expect((await caller.items('workflow/runs')).at(-1)).toEqual(body);
    },
  );

  it('takes run_mode and a range, and names who has started it', async () => {
    const caller = await (await ManagementCaller.start()).as('nightly', {});
    const range = { range_from: '2025-12-01', range_to: '2025-12-31' };
    for (const mode of ['source', 'refresh', 'full']) {
      const run = await caller.start('cg-1', { run_mode: mode, ...range });
      expect(await caller.run(run.id, 'verbose')).toMatchObject({ type: mode, principal_name: 'nightly' });
    }
  });

  it.each([
    ['cg-1', { range_from: '2025-12-01' }],
    ['cg-1', {}],
    ['cg-pull', { range_from: '2025-12-01' }],
    ['og-1', {}],
    ['cmp-0001', {}],
  ])('%s starts with %o: range_from alone is that one day', async (config, more) => {
    const caller = await ManagementCaller.start();
    const run = await caller.start(config, more);
    caller.clock.jump(60_000);
    expect((await caller.run(run.id)).state).toBe('succeeded');
  });

  it('starts another run each time', async () => {
    const caller = await ManagementCaller.start();
    const before = (await caller.items('workflow/runs')).length;
    const [one, two] = [await caller.start('cg-1'), await caller.start('cg-1')];
    expect(one.id).not.toBe(two.id);
    expect(await caller.items('workflow/runs')).toHaveLength(before + 2);
  });

  it.each<[string, number, unknown, string?]>([
    ['no body', 400, ''],
    ['text that is not JSON', 400, 'config_id=cg-1'],
    ['a list', 400, ['cg-1']],
    ['no config_id', 400, { run_mode: 'full' }],
    ['an empty config_id', 400, { config_id: '' }],
    ['a number for config_id', 400, { config_id: 1 }],
    ['an unknown config_id', 400, { config_id: 'cg-none' }],
    ['an unknown run_mode', 400, { config_id: 'cg-1', run_mode: 'some' }],
    ['a range that is not a text', 400, { config_id: 'cg-1', range_from: 20251201 }],
    ['the end of a range alone', 400, { config_id: 'cg-1', range_to: '2025-12-01' }],
    ['a range in the wrong order', 400, { config_id: 'cg-1', range_from: '2025-12-02', range_to: '2025-12-01' }],
    ['a range that is no time', 400, { config_id: 'cg-1', range_from: 'yesterday' }],
    ['a field that is not published', 400, { config_id: 'cg-1', note: 'x' }],
    ['no range for a workflow that pulls files', 400, { config_id: 'cg-pull' }],
    ['a run_mode for an orchestration group', 400, { config_id: 'og-1', run_mode: 'full' }],
    ['a range for a campaign', 400, { config_id: 'cmp-0001', range_from: '2025-12-01' }],
    ['a form', 400, 'config_id=cg-1', 'application/x-www-form-urlencoded'],
    ['plain text', 400, '{"config_id":"cg-1"}', 'text/plain'],
    ['more than 64 KB', 413, { config_id: 'x'.repeat(65_536) }],
  ])('with %s is %i, and starts nothing', async (_, expected, body, type = 'application/json; charset=utf-8') => {
    const caller = await ManagementCaller.start();
    const before = await caller.items('workflow/runs');
    const response = await caller.post('/api/workflow/runs', body, { 'content-type': type });
    expect([response.status, violations(errorBody, response.body)]).toEqual([expected, []]);
    expect(await caller.items('workflow/runs')).toEqual(before);
  });
});

describe('a deployment that differs', () => {
  it.each([
    ['slash', 404],
    ['plain', 405],
  ] as const)('takes a start under one spelling of the path: %s', async (path, status) => {
    const caller = await ManagementCaller.start();
    await caller.control('faults', { kind: 'workflow_router', path, status });
    const [right, wrong] = path === 'slash' ? ['runs/', 'runs'] : ['runs', 'runs/'];
    const responses = [wrong, right].map((each) => caller.post(`/api/workflow/${each}`, { config_id: 'cg-1' }));
    expect((await Promise.all(responses)).map((response) => response.status)).toEqual([status, 201]);
  });

  it.each([400, 404])('refuses the verbose view with %i', async (status) => {
    const caller = await ManagementCaller.start();
    const { id } = await caller.start('cg-1');
    await caller.control('faults', { kind: 'workflow_overview', status });
    const responses = ['', '?view=overview', '?view=verbose'].map((view) =>
      caller.get(`/api/workflow/runs/${id}${view}`),
    );
    expect((await Promise.all(responses)).map((response) => response.status)).toEqual([200, 200, status]);
  });

  it('starts a run whose response is lost', async () => {
    const caller = await ManagementCaller.start();
    const before = (await caller.items('workflow/runs')).length;
    await caller.control('faults', { kind: 'lost_answer', match: 'POST', count: 1 });
    await expect(caller.start('cg-1')).rejects.toThrow();
    expect(await caller.items('workflow/runs')).toHaveLength(before + 1);
  });
});

describe('other deployments', () => {
  it.each([301, 307, 308] as const)('redirect one spelling of a path to the other with %i', async (status) => {
    const caller = await ManagementCaller.start();
    expect((await caller.get('/api/campaigns/')).status).toBe(404);
    await caller.control('faults', { kind: 'slash_redirect', status });
    const headers = Object.entries({ ...caller.headers, 'content-type': 'application/json' }) as [string, string][];
    const sent = (method: string, path: string, body?: string) =>
      fetch(caller.service.url + path, { method, headers, redirect: 'manual', body: body ?? null });
    const before = (await caller.items('workflow/runs')).length;
    const start = await sent('POST', '/api/workflow/runs/', '{"config_id":"cg-1"}');
    expect([start.status, start.headers.get('location')]).toEqual([status, '/api/workflow/runs']);
    expect(await caller.items('workflow/runs')).toHaveLength(before);
    expect((await sent('POST', '/api/workflow/runs', '{"config_id":"cg-1"}')).status).toBe(201);
    const list = await sent('GET', '/api/campaigns/?limit=2');
    expect([list.status, list.headers.get('location')]).toEqual([status, '/api/campaigns?limit=2']);
  });

  it('show errors and principals in the list, and call the id of a task task_instance_id', async () => {
    const caller = await ManagementCaller.start();
    const { id } = await caller.start('cg-fail');
    caller.clock.jump(5000);
    await caller.control('faults', { kind: 'workflow_details' });
    await caller.control('faults', { kind: 'workflow_task_ids' });
    const listed = (await caller.items('workflow/runs')).find((run) => run.id === id);
    expect(listed).toMatchObject({ principal_name: 'default', error: { attribution: 'customer' } });
    expect(listed).not.toHaveProperty('task_instances');
    const [task] = (await caller.run(id, 'verbose')).task_instances;
    expect([task.id, task.task_instance_id]).toEqual([undefined, expect.any(String)]);
  });

  it('cancel a run at once, and take a second stop', async () => {
    const caller = await ManagementCaller.start();
    await caller.control('faults', { kind: 'workflow_stops', again: 'allowed' });
    const { id } = await caller.start('cg-slow');
    caller.clock.jump(1000);
    const { status, body } = await caller.stop(id);
    expect([status, body.state, body.ended_at]).toEqual([200, 'canceled', iso(caller.clock.now())]);
    expect(violations(published.stopWorkflow?.response as Shape, body)).toEqual([]);
    caller.clock.jump(1000);
    expect((await caller.stop(id)).body).toEqual(body);
    await caller.clearFaults();
    expect((await caller.stop(id)).status).toBe(409);
  });

  it('make no ingest job of a run that is canceled before it is in progress', async () => {
    const caller = await ManagementCaller.start();
    await caller.control('faults', { kind: 'workflow_stops' });
    const [early, late] = [await caller.start('cg-slow'), await caller.start('cg-slow')];
    caller.clock.jump(100);
    await caller.stop(early.id);
    caller.clock.jump(1000);
    await caller.stop(late.id);
    const jobs = (await caller.jobs(1)).filter(({ workflow_id: id }) => [early.id, late.id].includes(id));
    expect(jobs.map(({ workflow_id: id }) => id)).toEqual([late.id]);
    for (const { started_at: from, ended_at: to } of jobs[0]?.tables ?? []) expect(from < to).toBe(true);
  });
});

describe('the states of a run', () => {
  /** The state at each of these times after the start. */
  async function statesOf(caller: ManagementCaller, id: string, times: readonly number[]): Promise<string[]> {
    const states: string[] = [];
    let passed = 0;
    for (const at of times) {
      caller.clock.jump(at - passed);
      passed = at;
      states.push((await caller.run(id)).state);
    }
    return states;
  }

  it.each([
    [
      'cg-1',
      [0, 249, 250, 499, 500, 2999, 3000],
      ['scheduled', 'scheduled', 'started', 'started', 'in progress', 'in progress', 'succeeded'],
    ],
    ['cg-slow', [500, 7_199_999, 7_200_000], ['in progress', 'in progress', 'succeeded']],
    ['cg-fail', [1999, 2000], ['in progress', 'failed']],
    ['cg-platform-fail', [1999, 2000], ['in progress', 'failed']],
  ] as const)('of %s follow the clock', async (config, times, states) => {
    const caller = await ManagementCaller.start();
    const run = await caller.start(config);
    expect(await statesOf(caller, run.id, times)).toEqual(states);
    const ended = await caller.run(run.id);
    expect(ended.ended_at).toBe(iso(Date.parse(run.created_at) + (times.at(-1) as number)));
    expect(run).not.toHaveProperty('ended_at');
  });

  it.each([
    ['cg-fail', 'customer'],
    ['cg-platform-fail', 'platform'],
  ])('of %s end with a failure attributed to the %s, and its later tasks are canceled', async (config, attribution) => {
    const caller = await ManagementCaller.start();
    const { id } = await caller.start(config);
    caller.clock.jump(2000);
    const run = await caller.run(id, 'verbose');
    expect(run.error).toEqual({
      type: expect.any(String),
      message: expect.any(String),
      attribution,
      data: expect.any(Object),
    });
    expect(run.task_instances.map((task: Item) => task.state)).toEqual(['failed', 'canceled', 'canceled']);
    expect(run.task_instances[0].error).toEqual(run.error);
  });

  it('are stopping for a second after a stop, and then stopped', async () => {
    const caller = await ManagementCaller.start();
    const { id } = await caller.start('cg-slow');
    caller.clock.jump(1000);
    const { status, body } = await caller.stop(id);
    expect([status, violations(published.stopWorkflow?.response as Shape, body)]).toEqual([200, []]);
    expect(body).toMatchObject({ id, state: 'stopping' });
    // A second request does not start the stop again.
    caller.clock.jump(500);
    expect((await caller.stop(id)).body.state).toBe('stopping');
    expect(await statesOf(caller, id, [499, 500, dayMs])).toEqual(['stopping', 'stopped', 'stopped']);
    expect((await caller.run(id)).ended_at).toBe(iso(Date.parse(body.created_at) + 2000));
  });

  it('cannot be changed by a stop if the run has ended, or if the service has started it: 409', async () => {
    const caller = await ManagementCaller.start();
    const [done, stopped] = [await caller.start('cg-1'), await caller.start('cg-slow')];
    await caller.stop(stopped.id);
    caller.clock.jump(5000);
    for (const id of [done.id, stopped.id, (await unfinished(caller)).id]) {
      const { status, body } = await caller.stop(id);
      expect([status, violations(errorBody, body)]).toEqual([409, []]);
    }
    expect((await caller.run(done.id)).state).toBe('succeeded');
    expect((await caller.stop('run-none')).status).toBe(404);
  });
});

describe('the ingest job of a run', () => {
  async function jobOf(caller: ManagementCaller, run: Item): Promise<Item | undefined> {
    return (await caller.jobs(1)).find((job) => job.workflow_id === run.id);
  }

  it('begins when the run is in progress, and its tables follow the run', async () => {
    const caller = await ManagementCaller.start();
    const run = await caller.start('cg-1');
    expect(await jobOf(caller, run)).toBeUndefined();
    caller.clock.jump(500);
    const going = (await jobOf(caller, run)) as Item;
    expect(going.tables.map(({ state }: Item) => state)).toEqual(['in progress', 'in progress']);
    expect(going.tables[0]).not.toHaveProperty('ended_at');
    caller.clock.jump(2500);
    const ended = (await jobOf(caller, run)) as Item;
    expect(ended.id).toBe(going.id);
    for (const table of ended.tables) {
      expect(table).toMatchObject({ state: 'succeeded', errors: 0, ended_at: (await caller.run(run.id)).ended_at });
      expect(table.read).toBe(table.inserted + table.updated + table.rejected);
      expect(table.files).toEqual([
        { file_id: expect.any(String), name: expect.any(String), read: table.read, errors: 0 },
      ]);
    }
  });

  it('shows the errors in the table and the file that failed', async () => {
    const caller = await ManagementCaller.start();
    const run = await caller.start('cg-fail');
    caller.clock.jump(2000);
    const { tables } = (await jobOf(caller, run)) as Item;
    expect(tables.map(({ state, errors, files }: Item) => [state, errors, files[0].errors])).toEqual([
      ['succeeded', 0, 0],
      ['failed', 1, 1],
    ]);
  });

  it('is stopped with its run', async () => {
    const caller = await ManagementCaller.start();
    const run = await caller.start('cg-slow');
    caller.clock.jump(1000);
    await caller.stop(run.id);
    const states = async () => ((await jobOf(caller, run)) as Item).tables.map(({ state }: Item) => state);
    expect(await states()).toEqual(['in progress', 'in progress']);
    caller.clock.jump(1000);
    expect(await states()).toEqual(['stopped', 'stopped']);
  });
});

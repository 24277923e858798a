import { describe, expect, it, onTestFinished } from 'vitest';
import { ServiceClient } from '../../../src/client/client.js';
import type { WorkflowRun } from '../../../src/client/management-api.js';
import { ProcessBudget } from '../../../src/client/process-budget.js';
import { followWorkflow, requireSuccess } from '../../../src/engine/workflow/follow-workflow.js';
import { startWorkflow, type WorkflowContext } from '../../../src/engine/workflow/start-workflow.js';
import { JumpingClock } from '../client/clocks.js';
import { type Received, type Reply, scriptedService, serviceOptions } from '../client/scripted-service.js';

type Script = (request: Received, seen: number) => Reply;

/** The kind of a request, as the scripts call it. */
function kindOf({ method, url }: Received): 'start' | 'stop' | 'list' | 'one' {
  if (method === 'POST') return url.pathname.endsWith('/stop') ? 'stop' : 'start';
  return url.pathname.endsWith('/runs') ? 'list' : 'one';
}

interface World extends WorkflowContext {
  readonly clock: JumpingClock;
  readonly lines: string[];
  readonly abort: AbortController;
  count(kind: ReturnType<typeof kindOf>): number;
}

/** A service of workflows that answers as the scripts say; `seen` counts the requests of one kind. */
async function world(scripts: Partial<Record<ReturnType<typeof kindOf>, Script>>): Promise<World> {
  const counts = { start: 0, stop: 0, list: 0, one: 0 };
  const service = await scriptedService((response, request) => {
    const kind = kindOf(request);
    counts[kind] += 1;
    const reply = scripts[kind]?.(request, counts[kind]) ?? { status: 200, body: { data: [] } };
    if (typeof reply === 'function') return reply(response, request);
    response.writeHead(reply.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(reply.body ?? {}));
  });
  const clock = new JumpingClock();
  const client = new ServiceClient({
    service: serviceOptions(service.baseUrl),
    clock,
    random: () => 0.5,
    budget: new ProcessBudget(clock),
  });
  onTestFinished(() => client.close());
  const lines: string[] = [];
  const abort = new AbortController();
  const notice = (line: string) => lines.push(line);
  return { client, clock, signal: abort.signal, notice, lines, abort, count: (kind) => counts[kind] };
}

const run = (changes: Partial<WorkflowRun> = {}): WorkflowRun => ({ id: 'wr-1', state: 'started', ...changes });
const answer = (body: unknown, status = 200): Reply => ({ status, body });
const lost: Reply = (response) => response.socket?.destroy();

describe('A workflow is started', () => {
  it('once if the answer comes, with the requested options', async () => {
    const bodies: unknown[] = [];
    const service = await world({
      start: ({ body }) => {
        bodies.push(JSON.parse(body));
        return answer(run(), 201);
      },
    });
    const request = { configId: 'cg-1', runMode: 'source', rangeFrom: '2026-01-01', rangeTo: '2026-02-01' } as const;
    expect(await startWorkflow(service, request)).toEqual(run());
    expect(bodies).toEqual([
      { config_id: 'cg-1', run_mode: 'source', range_from: '2026-01-01', range_to: '2026-02-01' },
    ]);
  });

  it.each([
    ['the connection broke', lost],
    ['a proxy gave up', answer({}, 504)],
    ['the service was away', answer({}, 503)],
    ['the answer could not be read', answer([], 201)],
  ])('not again if %s and a run of it has appeared since', async (_, reply) => {
    const before = run({ id: 'wr-old', config_id: 'cg-1' });
    const others = [run({ id: 'wr-other', config_id: 'cg-2' }), run({ id: 'wr-new', config_id: 'cg-1' })];
    const service = await world({
      start: () => reply,
      // The new run is listed late.
      list: (__, seen) => answer({ data: seen < 3 ? [before] : [before, ...others] }),
    });
    expect((await startWorkflow(service, { configId: 'cg-1' })).id).toBe('wr-new');
    expect(service.count('start')).toBe(1);
  });

  it('again if the answer was lost and no run of it has appeared, on any page', async () => {
    const service = await world({
      start: (_, seen) => (seen === 1 ? lost : answer(run({ id: 'wr-2' }), 201)),
      list: ({ url }) =>
        url.searchParams.has('next_token')
          ? answer({ data: [run({ id: 'wr-b', config_id: 'cg-2' })], next_token: '' })
          : answer({ data: [run({ id: 'wr-a', config_id: 'cg-1' })], next_token: 'second' }),
    });
    expect((await startWorkflow(service, { configId: 'cg-1' })).id).toBe('wr-2');
    expect(service.count('start')).toBe(2);
  });

  it('not again if only the tasks of a run show that it is of the same configuration', async () => {
    const tasks = [{ id: 't-1', workflow_id: 'cg-1' }];
    const service = await world({
      start: () => lost,
      list: (_, seen) => answer({ data: seen === 1 ? [] : [run({ id: 'wr-7' })] }),
      one: ({ url }) => answer(run({ id: 'wr-7', task_instances: url.search === '?view=verbose' ? tasks : null })),
    });
    expect((await startWorkflow(service, { configId: 'cg-1' })).id).toBe('wr-7');
    expect(service.count('start')).toBe(1);
  });

  it('never again if runs have appeared and nobody can tell whose they are', async () => {
    const service = await world({
      start: () => lost,
      list: (_, seen) => answer({ data: seen === 1 ? [] : [run({ id: 'wr-7', state: 'started' })] }),
      one: () => answer(run({ id: 'wr-7', task_instances: [{ id: 't-1', workflow_id: 'wf-of-another-kind' }] })),
    });
    await expect(startWorkflow(service, { configId: 'cg-1' })).rejects.toMatchObject({
      code: 'workflow_unclear',
      message: expect.stringContaining('wr-7'),
    });
    expect(service.count('start')).toBe(1);
  });

  it('not at all if it is refused, or if the key may not list its runs', async () => {
    const refused = await world({ start: () => answer({ message: 'no such configuration' }, 404) });
    await expect(startWorkflow(refused, { configId: 'cg-9' })).rejects.toMatchObject({ code: 'not_found' });
    expect(refused.count('start')).toBe(1);
    const blind = await world({ list: () => answer({}, 403) });
    await expect(startWorkflow(blind, { configId: 'cg-1' })).rejects.toMatchObject({ code: 'forbidden' });
    expect(blind.count('start')).toBe(0);
  });

  it('and is known, so that it can be stopped, if the user asks to stop during the start', async () => {
    const service = await world({
      start: () => (response) => {
        service.abort.abort();
        setTimeout(() => response.end(JSON.stringify(run())), 50);
      },
      stop: () => answer(run({ state: 'stopping' })),
    });
    const started = await startWorkflow(service, { configId: 'cg-1' });
    const follow = followWorkflow(service, started, { name: 'cg-1', deadlineMs: 60_000 });
    await expect(follow).rejects.toMatchObject({ kind: 'interrupted' });
    expect(service.count('stop')).toBe(1);
  });
});

describe('A workflow is followed', () => {
  const options = { name: 'cg-1', deadlineMs: 7_200_000 };

  it('to its end, in whatever case the service writes it, with few requests and lines', async () => {
    const states = [...Array(40).fill('in progress'), 'Succeeded'];
    const service = await world({ one: (_, seen) => answer(run({ state: states[seen - 1] })) });
    const ended = await followWorkflow(service, run(), options);
    requireSuccess(ended, 'cg-1');
    // Forty looks take eight minutes: one line a minute, besides those that tell of a change.
    const minutes = service.clock.monotonic() / 60_000;
    expect(minutes).toBeGreaterThan(5);
    expect(service.lines.length).toBeLessThan(minutes + 4);
    expect(service.lines[0]).toMatch(/^workflow cg-1: run wr-1 started/);
    expect(service.lines.at(-1)).toMatch(/^workflow cg-1: run wr-1 Succeeded/);
  });

  it('even if its state is a new word, once it says when it ended', async () => {
    const service = await world({
      one: (_, seen) => answer(run({ state: 'evaporated', ended_at: seen < 3 ? null : '2026-01-01T00:00:00.000Z' })),
    });
    const ended = await followWorkflow(service, run(), options);
    expect(() => requireSuccess(ended, 'cg-1')).toThrow('ended as evaporated');
  });

  it('through troubles of the service', async () => {
    const service = await world({
      one: (_, seen) => (seen < 12 ? answer({}, 503) : answer(run({ state: 'succeeded' }))),
    });
    expect((await followWorkflow(service, run(), options)).state).toBe('succeeded');
    expect(service.lines.filter((line) => line.endsWith('still trying'))).toHaveLength(1);
  });

  it('until it is refused, which leaves the run alone', async () => {
    const service = await world({ one: () => answer({}, 403) });
    await expect(followWorkflow(service, run(), options)).rejects.toMatchObject({
      code: 'forbidden',
      kind: 'auth',
      hint: expect.stringContaining('cdsync workflow status wr-1'),
    });
    expect(service.count('stop')).toBe(0);
  });

  it('until the deadline, at which it is stopped', async () => {
    const service = await world({
      one: () => answer(run({ state: 'in progress' })),
      stop: () => answer(run({ state: 'stopping' })),
    });
    const follow = followWorkflow(service, run(), { ...options, deadlineMs: 90_000 });
    await expect(follow).rejects.toMatchObject({ code: 'workflow_deadline', kind: 'fatal' });
    expect(service.count('stop')).toBe(1);
    expect(service.clock.monotonic()).toBeGreaterThanOrEqual(90_000);
    expect(service.lines.at(-1)).toBe('workflow cg-1: run wr-1 was told to stop, stopping');
  });

  it.each([
    [409, 'it has ended already'],
    [404, 'try: cdsync workflow stop wr-1'],
  ])('until the deadline, even if the service answers %i to the stop', async (status, told) => {
    const service = await world({ one: () => answer(run({ state: 'in progress' })), stop: () => answer({}, status) });
    const follow = followWorkflow(service, run(), { ...options, deadlineMs: 2_000 });
    await expect(follow).rejects.toMatchObject({ code: 'workflow_deadline' });
    expect(service.lines.at(-1)).toContain(told);
  });
});

describe('A run that has not succeeded', () => {
  const error = { type: 'IngestError', message: 'no such feed\u001b[31m', attribution: 'customer' };

  it('fails with type, message and attribution', () => {
    expect(() => requireSuccess(run({ state: 'failed', error }), 'cg-1')).toThrow(
      expect.objectContaining({
        code: 'workflow_failed',
        kind: 'fatal',
        message: 'workflow cg-1 failed (run wr-1): IngestError: no such feed [31m (attribution: customer)',
        hint: expect.stringContaining('of the tenant'),
      }),
    );
  });

  it('fails with the error of its failed task, if the run itself has none', () => {
    const failed = run({ state: 'failed', task_instances: [{ id: 't-1' }, { id: 't-2', error }] });
    expect(() => requireSuccess(failed, 'cg-1')).toThrow('IngestError: no such feed');
  });

  it.each(['stopped', 'canceled'])('fails as well if it was %s, without any reason', (state) => {
    expect(() => requireSuccess(run({ state }), 'cg-1')).toThrow(
      expect.objectContaining({
        code: 'workflow_failed',
        message: `workflow cg-1 ended as ${state} (run wr-1): the service gives no reason`,
      }),
    );
  });
});

import { describe, expect, it, onTestFinished } from 'vitest';
import { ServiceClient } from '../../../src/api/client.js';
import type { WorkflowRun } from '../../../src/api/management-api.js';
import { requireSuccess } from '../../../src/engine/workflow/ended-run.js';
import { followWorkflow } from '../../../src/engine/workflow/follow-workflow.js';
import {
  ownerOf,
  type StartAttempt,
  type StartRecord,
  startWorkflow,
  type WorkflowContext,
} from '../../../src/engine/workflow/start-workflow.js';
import { ProcessBudget } from '../../../src/rate-limit/open-budget.js';
import { JumpingClock } from '../api/clocks.js';
import { type Received, type Reply, scriptedService, serviceOptions } from '../api/scripted-service.js';

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

/** A service of workflows that responds as the scripts say; `seen` counts the requests of one kind. */
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
const replyWith = (body: unknown, status = 200): Reply => ({ status, body });
const lost: Reply = (response) => response.socket?.destroy();

const mark = { principalId: 'key-1', name: 'Nightly' };
const ours = { principal_id: 'key-1', name: 'Nightly' };

/** The start record that earlier processes left, and the notes that this process adds. */
function memory(known: Partial<StartRecord> = {}): StartRecord & { readonly notes: (StartAttempt | 'nothing')[] } {
  const notes: (StartAttempt | 'nothing')[] = [];
  return {
    mark,
    attempt: undefined,
    attempted: async (attempt) => void notes.push(attempt),
    startedNothing: async () => void notes.push('nothing'),
    ...known,
    notes,
  };
}

describe('A workflow is started', () => {
  it('once if the response arrives, with the requested options', async () => {
    const bodies: unknown[] = [];
    const service = await world({
      start: ({ body }) => {
        bodies.push(JSON.parse(body));
        return replyWith(run(), 201);
      },
    });
    const request = { configId: 'cg-1', runMode: 'source', rangeFrom: '2026-01-01', rangeTo: '2026-02-01' } as const;
    expect(await startWorkflow(service, request)).toEqual(run());
    expect(bodies).toEqual([
      { config_id: 'cg-1', run_mode: 'source', range_from: '2026-01-01', range_to: '2026-02-01' },
    ]);
  });

  it.each([404, 405])(
    'under the other path if a strict router responds %i, and from then on at once',
    async (status) => {
      const paths: string[] = [];
      const service = await world({
        start: ({ url }) => {
          paths.push(url.pathname);
          return url.pathname.endsWith('/') ? replyWith({}, status) : replyWith(run(), 201);
        },
      });
      expect((await startWorkflow(service, { configId: 'cg-1' })).id).toBe('wr-1');
      await startWorkflow(service, { configId: 'cg-1' });
      expect(paths).toEqual(['/api/workflow/runs/', '/api/workflow/runs', '/api/workflow/runs']);
    },
  );

  it('under the path of the specification again if the other one is refused too', async () => {
    const paths: string[] = [];
    const service = await world({
      start: ({ url }) => {
        paths.push(url.pathname);
        return replyWith({ message: url.pathname.endsWith('/') ? 'no such workflow' : 'no such path' }, 404);
      },
    });
    for (let time = 0; time < 2; time += 1) {
      const start = startWorkflow(service, { configId: 'cg-9' });
      await expect(start).rejects.toMatchObject({ code: 'not_found', serviceMessage: 'no such workflow' });
    }
    expect(paths.map((path) => path.endsWith('/'))).toEqual([true, false, true, false]);
  });

  it.each([
    ['the connection broke', lost],
    ['a proxy gave up', replyWith({}, 504)],
    ['the service was away', replyWith({}, 503)],
    ['the response could not be read', replyWith([], 201)],
  ])('not again if %s and the one run that is surely its own has appeared since', async (_, reply) => {
    const details: Record<string, object> = {
      'wr-other': { principal_id: 'svc-schedule', name: 'Hourly' },
      'wr-new': ours,
    };
    const service = await world({
      start: () => reply,
      // The new run is listed late.
      list: (__, seen) =>
        replyWith({
          data: [...(seen < 3 ? [] : [run({ id: 'wr-other' }), run({ id: 'wr-new' })]), run({ id: 'wr-old' })],
        }),
      one: ({ url }) =>
        replyWith(
          run({ id: url.pathname.split('/').at(-1) as string, ...details[url.pathname.split('/').at(-1) as string] }),
        ),
    });
    expect((await startWorkflow(service, { configId: 'cg-1' }, memory())).id).toBe('wr-new');
    expect(service.count('start')).toBe(1);
  });

  it('again, and not silently, if the response was lost and no run has appeared on any page for a minute', async () => {
    const service = await world({
      start: (_, seen) => (seen === 1 ? lost : replyWith(run({ id: 'wr-2' }), 201)),
      list: ({ url }) =>
        url.searchParams.has('next_token')
          ? replyWith({ data: [run({ id: 'wr-b' })], next_token: '' })
          : replyWith({ data: [run({ id: 'wr-a' })], next_token: 'second' }),
    });
    expect((await startWorkflow(service, { configId: 'cg-1' }, memory())).id).toBe('wr-2');
    expect(service.count('start')).toBe(2);
    expect(service.clock.monotonic()).toBeGreaterThanOrEqual(60_000);
    expect(service.lines.at(-1)).toBe('workflow cg-1: no run has appeared: starting it again');
  });

  it.each<[string, Partial<StartRecord>, Partial<WorkflowRun>[]]>([
    ['no earlier run of it is known', { mark: undefined }, [ours]],
    ['the service does not say who has started it', {}, [{}]],
    ['it has our name and another principal', {}, [{ ...ours, principal_id: 'usr-ada' }]],
    ['it has our principal and another name', {}, [{ ...ours, name: 'Hourly' }]],
    ['two runs could be it', {}, [ours, ours]],
    ['one is surely ours and another may be', {}, [ours, {}]],
  ])('never again, and no run is followed, if %s', async (_, known, runs) => {
    const appeared = runs.map((details, index) => run({ id: `wr-${index}`, ...details }));
    const service = await world({
      start: () => lost,
      list: (__, seen) => replyWith({ data: seen === 1 ? [] : appeared.map(({ id }) => run({ id })) }),
      one: ({ url }) => replyWith(appeared.find(({ id }) => url.pathname.endsWith(`/${id}`))),
    });
    const notices = memory(known);
    await expect(startWorkflow(service, { configId: 'cg-1' }, notices)).rejects.toMatchObject({
      code: 'workflow_unclear',
      message: expect.stringContaining('wr-0'),
      hint: expect.stringContaining('cdsync workflow status wr-0 --view verbose'),
    });
    expect(service.count('start')).toBe(1);
    // A later process will find the attempt.
    expect(notices.notes).toEqual([{ at: expect.any(Number), listed: [] }]);
  });

  it('not before the attempt is noted, and the note goes if it is refused', async () => {
    const notices = memory();
    const notedBefore: number[] = [];
    const service = await world({
      list: () => replyWith({ data: [run({ id: 'wr-a' })] }),
      start: () => {
        notedBefore.push(notices.notes.length);
        return replyWith({}, 400);
      },
    });
    await expect(startWorkflow(service, { configId: 'cg-1' }, notices)).rejects.toMatchObject({ code: 'bad_request' });
    expect(notedBefore).toEqual([1]);
    expect(notices.notes).toEqual([{ at: expect.any(Number), listed: ['wr-a'] }, 'nothing']);
  });

  describe('after a process that was killed before the response arrived', () => {
    const left = (ageMs: number, clock: JumpingClock) => ({ at: clock.now() - ageMs, listed: ['wr-a'] });
    const listed = (...runs: Partial<WorkflowRun>[]) => ({
      list: () =>
        replyWith({ data: [run({ id: 'wr-a' }), ...runs.map((each) => run({ id: 'wr-b', state: each.state }))] }),
      one: () => replyWith(run({ id: 'wr-b', ...runs[0] })),
      start: () => replyWith(run({ id: 'wr-c' }), 201),
    });

    it('is not started but followed, if one run since is surely its own', async () => {
      const service = await world(listed(ours));
      const attempt = left(3_600_000, service.clock);
      expect((await startWorkflow(service, { configId: 'cg-1' }, memory({ attempt }))).id).toBe('wr-b');
      expect(service.count('start')).toBe(0);
    });

    it('is not started while a run that may be its own continues', async () => {
      const service = await world(listed({}));
      const attempt = left(3_600_000, service.clock);
      await expect(startWorkflow(service, { configId: 'cg-1' }, memory({ attempt }))).rejects.toMatchObject({
        code: 'workflow_unclear',
      });
      expect(service.count('start')).toBe(0);
    });

    it('is started once such a run has ended, or if there is none', async () => {
      for (const runs of [[{ state: 'FAILED' }], []]) {
        const service = await world(listed(...runs));
        const attempt = left(3_600_000, service.clock);
        expect((await startWorkflow(service, { configId: 'cg-1' }, memory({ attempt }))).id).toBe('wr-c');
        expect(service.count('start')).toBe(1);
      }
    });

    it('is looked for for a minute, if the process was killed just now', async () => {
      const service = await world(listed());
      const attempt = left(500, service.clock);
      await startWorkflow(service, { configId: 'cg-1' }, memory({ attempt }));
      expect(service.clock.monotonic()).toBeGreaterThanOrEqual(59_000);
    });
  });

  it('not at all if it is refused, or if the key may not list its runs', async () => {
    const refused = await world({ start: () => replyWith({ message: 'no such configuration' }, 404) });
    await expect(startWorkflow(refused, { configId: 'cg-9' })).rejects.toMatchObject({ code: 'not_found' });
    // Once for each spelling of the path.
    expect(refused.count('start')).toBe(2);
    const blind = await world({ list: () => replyWith({}, 403) });
    await expect(startWorkflow(blind, { configId: 'cg-1' })).rejects.toMatchObject({ code: 'forbidden' });
    expect(blind.count('start')).toBe(0);
  });

  it('and is known, so that it can be stopped, if the user asks to stop during the start', async () => {
    const service = await world({
      start: () => (response) => {
        service.abort.abort();
        setTimeout(() => response.end(JSON.stringify(run())), 50);
      },
      stop: () => replyWith(run({ state: 'stopping' })),
    });
    const started = await startWorkflow(service, { configId: 'cg-1' });
    const follow = followWorkflow(service, started, { name: 'cg-1', deadlineMs: 60_000 });
    await expect(follow).rejects.toMatchObject({ kind: 'interrupted' });
    expect(service.count('stop')).toBe(1);
  });
});

describe('A run that the service does not know yet', () => {
  const options = { name: 'cg-1', deadlineMs: 600_000 };
  const unknown = replyWith({ message: 'no such run' }, 404);

  it('is asked for again, for a minute after its start', async () => {
    const service = await world({ one: (_, seen) => (seen <= 3 ? unknown : replyWith(run({ state: 'succeeded' }))) });
    expect((await followWorkflow(service, run(), options)).state).toBe('succeeded');
    expect(service.lines.filter((line) => line.includes('still trying'))).toHaveLength(1);
  });

  it('is an error after that minute, and at once if the service has shown it before', async () => {
    const never = await world({ one: () => unknown });
    await expect(followWorkflow(never, run(), options)).rejects.toMatchObject({ code: 'not_found' });
    expect(never.clock.monotonic()).toBeGreaterThan(59_000);
    const gone = await world({ one: (_, seen) => (seen === 1 ? replyWith(run()) : unknown) });
    await expect(followWorkflow(gone, run(), options)).rejects.toMatchObject({ code: 'not_found' });
    expect(gone.count('one')).toBe(2);
  });
});

describe('A workflow is followed', () => {
  const options = { name: 'cg-1', deadlineMs: 7_200_000 };

  it('to its end, in whatever case the service writes it, with few requests and lines', async () => {
    const states = [...Array(40).fill('in progress'), 'Succeeded'];
    const service = await world({ one: (_, seen) => replyWith(run({ state: states[seen - 1] })) });
    const ended = await followWorkflow(service, run(), options);
    requireSuccess(ended, 'cg-1');
    // Forty polls take eight minutes: one line a minute, besides the lines about changes.
    const minutes = service.clock.monotonic() / 60_000;
    expect(minutes).toBeGreaterThan(5);
    expect(service.lines.length).toBeLessThan(minutes + 4);
    expect(service.lines[0]).toMatch(/^workflow cg-1: run wr-1 started/);
    expect(service.lines.at(-1)).toMatch(/^workflow cg-1: run wr-1 Succeeded/);
  });

  it('and the ended run has the error that only the verbose view returns', async () => {
    const service = await world({
      one: ({ url }) =>
        url.searchParams.get('view') === 'verbose'
          ? replyWith({ id: 'wr-1', error: { type: 'IngestError', message: 'no such feed', attribution: 'customer' } })
          : replyWith(run({ state: 'FAILED' })),
    });
    const ended = await followWorkflow(service, run({ name: 'Nightly' }), options);
    expect(ended).toMatchObject({ state: 'FAILED', name: 'Nightly', error: { message: 'no such feed' } });
  });

  it.each([400, 404])(
    'and its final state is read from the overview if the verbose view is refused with %i',
    async (status) => {
      const service = await world({
        one: ({ url }) => (url.search === '' ? replyWith(run({ state: 'succeeded' })) : replyWith({}, status)),
      });
      requireSuccess(await followWorkflow(service, run(), options), 'cg-1');
      expect(service.lines.filter((line) => line.includes('details of run wr-1'))).toHaveLength(1);
    },
  );

  it('even if its state is a new word, once it says when it ended', async () => {
    const service = await world({
      one: (_, seen) => replyWith(run({ state: 'evaporated', ended_at: seen < 3 ? null : '2026-01-01T00:00:00.000Z' })),
    });
    const ended = await followWorkflow(service, run(), options);
    expect(() => requireSuccess(ended, 'cg-1')).toThrow('ended as evaporated');
  });

  it('through troubles of the service', async () => {
    const service = await world({
      one: (_, seen) => (seen < 20 ? replyWith({}, 503) : replyWith(run({ state: 'succeeded' }))),
    });
    expect((await followWorkflow(service, run(), options)).state).toBe('succeeded');
    expect(service.lines.filter((line) => line.endsWith('still trying'))).toHaveLength(1);
  });

  it('until it is refused, which leaves the run alone', async () => {
    const service = await world({ one: () => replyWith({}, 403) });
    await expect(followWorkflow(service, run(), options)).rejects.toMatchObject({
      code: 'forbidden',
      kind: 'auth',
      hint: expect.stringContaining('cdsync workflow status wr-1'),
    });
    expect(service.count('stop')).toBe(0);
  });

  it('until the deadline, at which it is stopped', async () => {
    const service = await world({
      one: () => replyWith(run({ state: 'in progress' })),
      stop: () => replyWith(run({ state: 'stopping' })),
    });
    const follow = followWorkflow(service, run(), { ...options, deadlineMs: 90_000 });
    await expect(follow).rejects.toMatchObject({ code: 'workflow_deadline', kind: 'fatal' });
    expect(service.count('stop')).toBe(1);
    expect(service.clock.monotonic()).toBeGreaterThanOrEqual(90_000);
    expect(service.lines.at(-1)).toBe('workflow cg-1: run wr-1 is being stopped, stopping');
  });

  it.each([
    [409, 'it has ended already'],
    [404, 'try: cdsync workflow stop wr-1'],
  ])('until the deadline, even if the service responds %i to the stop', async (status, notices) => {
    const service = await world({
      one: () => replyWith(run({ state: 'in progress' })),
      stop: () => replyWith({}, status),
    });
    const follow = followWorkflow(service, run(), { ...options, deadlineMs: 2_000 });
    await expect(follow).rejects.toMatchObject({ code: 'workflow_deadline' });
    expect(service.lines.at(-1)).toContain(notices);
  });
});

describe('The owner of a run', () => {
  it('is certain only if principal and name both match an earlier run, or both differ', () => {
    expect(ownerOf(run(ours), mark)).toBe('ours');
    expect(ownerOf(run({ principal_id: 'svc-schedule', name: 'Hourly' }), mark)).toBe('other');
    expect(ownerOf(run(ours), undefined)).toBe('unclear');
  });
});

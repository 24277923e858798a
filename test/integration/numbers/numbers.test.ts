import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JobReport, RunReport, StreamReport } from '../../../src/core/run-report.js';
import type { JobPlan } from '../../../src/engine/plan/job-plan.js';
import { hashText } from '../../../src/local-service/data/hash.js';
import { requestControl } from '../../fixtures/control.js';
import { seed } from '../../fixtures/seed.js';
import { Receiver } from '../../fixtures/webhook-server.js';
import { ended, Workspace } from '../../fixtures/workspace.js';
import {
  compareDestinations,
  compareFile,
  compareStream,
  counted,
  type Expected,
  job,
  Model,
  type StreamName,
} from './compare.js';
import { type Outputs, outputsOf } from './outputs.js';
import { changed, countsOf, goldOf, keepable, type People } from './population.js';

let space: Workspace;
let receiver: Receiver;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  receiver = await Receiver.open();
});
afterAll(async () => {
  await receiver.close();
  await space.close();
});

const open = { max_deleted: 'off', max_changed: 'off', min_rows: 0 };
const streams = [
  {
    ...{ name: 'people', source: 'index_profiles', index: 'people', page_size: 10 },
    guards: { ...open, max_deleted: '20%', max_rejected: '2 rows' },
  },
  { name: 'orders', source: 'index_profiles', index: 'orders', page_size: 10, confirm_deletes: 3, guards: open },
  {
    ...{ name: 'gold', source: 'sql', key: ['id'], guards: open },
    query: "select id, tier, score from people where tier = 'gold'",
  },
];

function configure() {
  const at = (path: string) => `http://127.0.0.1:${receiver.port}/${path}`;
  const on = ['ok', 'held', 'failed', 'partial', 'interrupted', 'recovered'];
  return space.configure(job, streams, {
    job: {
      notify: [{ on, webhook: at('hook'), every: true }],
      metrics: { textfile: './numbers.prom', otlp: at('otlp') },
      after: [{ run: ['sh', '-c', 'env | grep ^CDSYNC_ > after.txt'] }],
      destinations: [
        { name: 'copy', connector: 'duckdb', path: './copy.duckdb', mode: 'mirror' },
        { name: 'files', connector: 'files', path: './files', format: 'csv', streams: ['people'] },
      ],
    },
  });
}

type Statuses = JobReport['status'];

interface ComparedRun {
  readonly expected: Readonly<Record<StreamName, Expected>>;
  readonly status: Statuses;
  /** The text of the command that made it. */
  readonly text: string;
  /** The command that made the figures: an approval sends no requests. */
  readonly isRun?: boolean;
}

/** Compares all outputs after a command with the model. */
async function compare(model: Model, { expected, status, text, isRun = true }: ComparedRun): Promise<Outputs> {
  const outputs = await outputsOf(space, job, receiver.received);
  const { report, indexRow, message, prometheus, after, statusText } = outputs;
  expect(report.status).toBe(status);
  expect(report.sequence).toBe(model.sequence);
  expect(outputs.status.runs[0]).toMatchObject({ run_id: report.run_id, status, sequence: model.sequence });
  expect(statusText).toMatch(new RegExp(`^ {2}${report.run_id} {2}${status} `, 'm'));
  expect(indexRow).toContain(` ${status} `);
  if (message !== undefined) expect(message).toMatchObject({ status, run_id: report.run_id, sequence: model.sequence });
  expect(prometheus.get(`cdsync_run_status ${status}`)).toBe(1);
  expect(prometheus.get('cdsync_run_snapshot_sequence')).toBe(model.sequence);
  const { stdout } = await space.cdsync(['report', `${job}.json`, '--json']);
  const { retry } = JSON.parse(stdout) as RunReport;
  expect(after).toMatchObject({ CDSYNC_STATUS: status, CDSYNC_RUN_ID: report.run_id, CDSYNC_RETRY: String(retry) });
  const own = report.streams.map((stream) => [stream.name, stream.process ?? stream, stream] as const);
  if (isRun) {
    model.add(`cdsync_runs ${status}`, 1);
    const stats = (await (await requestControl(space.service, 'stats')).json()) as Record<string, number>;
    const sum = (of: 'requests' | 'throttled') => own.reduce((all, [, part]) => all + part[of], 0);
    expect([sum('requests'), sum('throttled')], 'requests at the service').toEqual([stats.requests, stats.throttled]);
    for (const [name, part, stream] of own) {
      model.add(`cdsync_stream_requests ${name}`, part.requests);
      model.add(`cdsync_stream_retries ${name}`, part.retries);
      model.add(`cdsync_stream_throttled ${name}`, part.throttled);
      model.add(`cdsync_stream_rejected ${name}`, part.rejected);
      model.add(`cdsync_stream_duplicates ${name}`, stream.duplicates);
    }
  }
  for (const [series, count] of model.counters) expect([series, prometheus.get(series) ?? 0]).toEqual([series, count]);
  for (const name of Object.keys(expected) as StreamName[]) {
    if (!report.streams.some((stream) => stream.name === name)) continue;
    compareStream(outputs, text, name, expected[name], model.committed[name].size);
    await compareFile(space, { report, isRun }, name, expected[name], model.committed[name]);
  }
  await compareDestinations(space, outputs, model, text);
  return outputs;
}

/** Begins a command: requests and messages count from here. */
async function begin(): Promise<void> {
  receiver.reset();
  await rm(join(space.folder, 'after.txt'), { force: true });
  await space.control('stats/reset');
}

function oddOf(people: People): number {
  return people.size - keepable(people).size;
}

/** The commit of a run that nothing stops. */
function commitAll(model: Model, only: readonly StreamName[] = ['people', 'orders', 'gold']) {
  const isNews = () =>
    counted.some(
      (word) => word !== 'rows' && word !== 'unchanged' && Object.values(expected).some((each) => each[word]),
    );
  const odd = oddOf(model.people);
  const expected: Record<string, Expected> = {};
  if (only.includes('people')) expected.people = { ...model.commit('people', keepable(model.people)), rejected: odd };
  if (only.includes('orders')) expected.orders = model.commit('orders', keepable(model.orders));
  if (only.includes('gold')) expected.gold = model.commit('gold', goldOf(model.committed.people));
  if (isNews()) model.sequence += 1;
  return expected as Record<StreamName, Expected>;
}

async function planned(model: Model): Promise<JobPlan> {
  const { stdout } = await space.cdsync(['plan', `${job}.json`, '--json']);
  const plan = JSON.parse(stdout) as JobPlan;
  for (const name of ['people', 'orders'] as const) {
    const stream = plan.streams.find((each) => each.name === name);
    const size = model.committed[name].size;
    expect([name, stream?.total, stream?.snapshot_rows]).toEqual([name, model[name].size, size === 0 ? null : size]);
  }
  expect(plan.sequence).toBe(model.sequence === 0 ? null : model.sequence);
  return plan;
}

interface WellOptions {
  readonly words?: readonly string[];
  readonly only?: readonly StreamName[];
  readonly resumes?: boolean;
  readonly isFaulty?: boolean;
  /** How far the clock of the run is ahead. */
  readonly aheadMs?: number;
}

/** A run that ends well, as planned. */
async function well(model: Model, options: WellOptions = {}): Promise<Outputs> {
  const { words = [], only, resumes = false, isFaulty = false, aheadMs } = options;
  await model.serve(space);
  const plan = words.length === 0 && !isFaulty ? await planned(model) : undefined;
  await begin();
  const line = ['run', `${job}.json`, ...words];
  const { code, stdout, stderr } = await (aheadMs === undefined ? space.cdsync(line) : runAhead(line, aheadMs));
  expect(code, stderr).toBe(0);
  await space.clearFaults();
  const outputs = await compare(model, { expected: commitAll(model, only), status: 'ok', text: stdout });
  expect(outputs.report.resumed).toBe(resumes);
  if (resumes) return outputs;
  for (const stream of plan?.streams.filter(({ reads }) => reads === 'list') ?? []) {
    const run = outputs.report.streams.find(({ name }) => name === stream.name) as StreamReport;
    // Those of a second pass are not planned.
    if (run.passes === undefined) expect([stream.name, stream.pages], 'plan').toEqual([run.name, run.pages]);
  }
  return outputs;
}

async function runAhead(words: readonly string[], aheadMs: number) {
  const shim = fileURLToPath(new URL('../../fixtures/shifted-clock.mjs', import.meta.url));
  const env = { NODE_OPTIONS: `--import ${pathToFileURL(shim)}`, CLOCK_AHEAD_MS: String(aheadMs) };
  return ended(space.spawn(words, env));
}

interface HeldRun {
  readonly run: string;
  readonly orders: Expected;
}

/** A run that holds `people`, and commits `orders`. */
async function held(model: Model): Promise<HeldRun> {
  await model.serve(space);
  await begin();
  const { code, stdout, stderr } = await space.cdsync(['run', `${job}.json`]);
  expect(code, stderr).toBe(3);
  const counts = countsOf(model.committed.people, keepable(model.people));
  const rejected = oddOf(model.people);
  const { orders } = commitAll(model, ['orders']);
  const people = { status: 'held', ...counts, rejected } as const;
  const expected = { people, orders, gold: { status: 'skipped' } } as const;
  const { report } = await compare(model, { expected, status: 'held', text: stdout });
  const shown = await space.cdsync(['diff', `${job}.json`, '--held', report.run_id, 'people', '--json']);
  const { inserted, updated, deleted } = counts;
  expect(JSON.parse(shown.stdout)).toMatchObject({ inserted, updated, deleted, rejected });
  return { run: report.run_id, orders };
}

async function approve(model: Model, { run, orders }: HeldRun): Promise<void> {
  receiver.reset();
  await rm(join(space.folder, 'after.txt'), { force: true });
  const { code, stdout, stderr } = await space.cdsync(['approve', `${job}.json`, run]);
  expect(code, stderr).toBe(0);
  const { people } = commitAll(model, ['people']);
  // The queries over it are a run of their own.
  const { gold } = commitAll(model, ['gold']);
  const { report } = await compare(model, {
    expected: { people, gold, orders },
    status: 'ok',
    text: stdout,
    isRun: false,
  });
  expect(report.run_id).toBe(run);
}

async function discard({ run }: HeldRun): Promise<void> {
  const { code, stderr } = await space.cdsync(['discard', `${job}.json`, run]);
  expect(code, stderr).toBe(0);
}

/** A run that is refused after some pages of `people`. */
async function cut(model: Model, after: number): Promise<void> {
  await model.serve(space);
  await begin();
  await space.control('faults', {
    kind: 'status',
    status: 403,
    match: `idx-r${hashText('people').toString(36).padStart(7, '0')}/profiles`,
    after,
    count: 100,
  });
  const { code, stdout, stderr } = await space.cdsync(['run', `${job}.json`]);
  expect(code, stderr).toBe(5);
  await space.clearFaults();
  const { orders } = commitAll(model, ['orders']);
  const expected = { people: { status: 'failed' }, orders, gold: { status: 'failed' } } as const;
  await compare(model, { expected, status: 'partial', text: stdout });
}

/** A run whose files cannot be delivered, because something is in their place, and the delivery that follows. */
async function undelivered(model: Model): Promise<void> {
  const [folder, aside] = [join(space.folder, 'files'), join(space.folder, 'files.aside')];
  await rename(folder, aside);
  await writeFile(folder, '');
  await model.serve(space);
  await begin();
  const { code, stdout, stderr } = await space.cdsync(['run', `${job}.json`]);
  expect(code, stderr).toBe(5);
  await compare(model, { expected: commitAll(model), status: 'partial', text: stdout });
  await rm(folder);
  await rename(aside, folder);
  expect((await space.cdsync(['push', `${job}.json`])).code).toBe(0);
  const status = JSON.parse((await space.cdsync(['status', `${job}.json`, '--json'])).stdout) as Outputs['status'];
  expect(status.destinations.map(({ behind }) => behind)).toEqual([0, 0, 0, 0]);
}

it('every output has the numbers of an independent count, over a series of runs', async () => {
  const model = new Model();
  await configure();
  // Beyond the numbers of the changes that the series writes out.
  let number = seed * 1000;
  const usual = { inserts: 3 + (seed % 3), updates: 4 + (seed % 4), deletes: 1 + (seed % 2) };
  const day = (more: Parameters<typeof changed>[1] = usual) => {
    number += 1;
    model.people = changed(model.people, more, number);
    model.orders = changed(model.orders, { inserts: 2, updates: 1 }, number);
  };
  model.people = changed(model.people, { inserts: 57 }, number);
  model.orders = changed(model.orders, { inserts: 25 }, number);
  await well(model);
  day();
  await well(model);
  await well(model);

  // Held, and approved.
  model.people = changed(model.people, { deletes: 20, inserts: 1 }, 40);
  await approve(model, await held(model));
  day();
  await well(model);

  // Held, and discarded.
  const before = model.people;
  model.people = changed(model.people, { deletes: 20 }, 60);
  await discard(await held(model));
  model.people = before;
  await well(model);

  // Rejects: as many as may be, then more, which are approved.
  day({ inserts: 2, odd: 1 });
  await well(model);
  day({ updates: 2, odd: 4 });
  await approve(model, await held(model));
  day({ inserts: 1 });
  await well(model);

  // More rows of `orders` are absent than are looked up: the list is read once more.
  day();
  model.orders = changed(model.orders, { deletes: 8 }, 70);
  const { report } = await well(model);
  expect(report.streams.find(({ name }) => name === 'orders')?.passes).toHaveLength(1);

  // A reading that is cut twice, and continued.
  day();
  for (const after of [2, 1]) await cut(model, after);
  await well(model, { resumes: true });

  // A clock that is ahead.
  day();
  await well(model, { aheadMs: 2 * 86_400_000 });
  day();
  await well(model);

  // Repetitions, one stream alone, a full run.
  day();
  await space.control('faults', { kind: 'status', status: 503, match: '/profiles', count: 3 });
  await well(model, { isFaulty: true });
  await space.control('faults', { kind: 'throttle', match: '/profiles', count: 2, retry_after: 0 });
  await well(model, { isFaulty: true });
  day();
  await well(model, { words: ['--stream', 'orders'], only: ['orders'] });
  await well(model, { words: ['--full'] });

  // A person is forgotten.
  const [id] = [...model.people.keys()] as [string];
  const forgotten = await space.cdsync(['forget', `${job}.json`, 'people', id, '--yes']);
  expect(forgotten.code, forgotten.stderr).toBe(0);
  model.forget(id);
  day();
  await well(model);

  // A destination is away for a run.
  day();
  await undelivered(model);
  await well(model);
}, 600_000);

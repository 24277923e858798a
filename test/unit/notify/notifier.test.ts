import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NotifyOptions } from '../../../src/config/config.js';
import type { DestinationReport } from '../../../src/core/run-report.js';
import { Secret } from '../../../src/core/secret.js';
import type { Anomaly } from '../../../src/notify/anomalies.js';
import { Notifier } from '../../../src/notify/notifier.js';
import type { RunResult } from '../../../src/notify/result.js';
import { WebhookClient } from '../../../src/notify/webhook-client.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { destinationReport, runEnd, streamReport } from '../../fixtures/run-ends.js';
import { type Behaviour, Receiver } from '../../fixtures/webhook-server.js';

type Status = RunResult['status'];

let folder: string;
let receiver: Receiver;
let notices: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-notifier-'));
  receiver = await Receiver.open();
  notices = [];
  await mkdir(new JobLayout(folder, 'nightly').private, { recursive: true });
});
afterEach(async () => {
  await receiver.close();
  await rm(folder, { recursive: true });
});

const url = (path = '/hook') => new Secret(`http://127.0.0.1:${receiver.port}${path}`);
const webhook = (options: Partial<NotifyOptions> & Pick<NotifyOptions, 'on'>): NotifyOptions => ({
  webhook: url('/hook/T0-secret-part'),
  every: false,
  ...options,
});

const file = '/srv/jobs/cdsync.yaml';

/** Sends the notifications of one run: of its start and of its end. */
async function finish(
  notify: readonly NotifyOptions[],
  status: Status,
  {
    unusual = [],
    deadlineMs = 10_000,
    end = {},
  }: { unusual?: Anomaly[]; deadlineMs?: number; end?: Partial<RunResult> } = {},
): Promise<void> {
  const http = new WebhookClient();
  const layout = new JobLayout(folder, 'nightly');
  const notice = (line: string) => notices.push(line);
  const notifier = new Notifier({
    job: 'nightly',
    file,
    notify,
    layout,
    delivers: () => true,
    http,
    notice,
    deadlineMs,
  });
  notifier.started(Date.parse('2026-11-03T02:15:00Z'));
  await notifier.ended(runEnd({ status, ...end }), unusual);
  await http.close();
}

/** The events of each message that arrived, run by run. */
async function eventsOf(notify: readonly NotifyOptions[], statuses: readonly Status[]): Promise<string[]> {
  const sent: string[] = [];
  for (const status of statuses) {
    receiver.reset();
    await finish(notify, status);
    sent.push(receiver.received.map(({ body }) => JSON.parse(body).events.join('+')).join(' '));
  }
  return sent;
}

/** Ends a run, or a delivery without a run, and returns the events that were sent. */
async function followed(notify: readonly NotifyOptions[], end: Partial<RunResult>, onlyNews: boolean): Promise<string> {
  receiver.reset();
  const http = new WebhookClient();
  const layout = new JobLayout(folder, 'nightly');
  const delivers = ({ name }: { name: string }) => name !== 'gone';
  const options = { job: 'nightly', file, notify, layout, delivers, http, notice: () => undefined, deadlineMs: 10_000 };
  await new Notifier(options).ended(runEnd(end), [], { onlyNews });
  await http.close();
  return receiver.received.map(({ body }) => JSON.parse(body).events.join('+')).join(' ');
}

describe('runs of run --no-push and its own push', () => {
  const refused = { code: 'destination_login', message: 'the login was refused', hint: null, request_id: null };
  const failing = (name = 'warehouse') => destinationReport({ name, status: 'failed', error: refused });
  const notify = () => [webhook({ on: ['failed', 'recovered'] })];
  const day = () => followed(notify(), { destinations: [] }, false);
  const push = (...destinations: DestinationReport[]) => {
    const isWell = destinations.every(({ status }) => status === 'ok');
    return followed(notify(), { streams: [], destinations, status: isWell ? 'ok' : 'partial' }, true);
  };

  it('are reported once as failed and once as recovered, however often a push fails', async () => {
    expect([await day(), await push(failing())]).toEqual(['', 'failed']);
    for (let days = 0; days < 3; days += 1) expect([await day(), await push(failing())]).toEqual(['', '']);
    expect([await day(), await push(destinationReport())]).toEqual(['', 'recovered']);
    expect([await day(), await push(destinationReport())]).toEqual(['', '']);
  });

  it('are well again only when each destination is, or is gone', async () => {
    expect(await push(failing('a'), failing('b'), failing('gone'))).toBe('failed');
    expect(await push(destinationReport({ name: 'a' }))).toBe('');
    expect(await push(destinationReport({ name: 'b', status: 'skipped' }))).toBe('');
    expect(await push(destinationReport({ name: 'b' }))).toBe('recovered');
  });

  it('report to a receiver that wants every run what still fails', async () => {
    await push(failing());
    expect(await followed([webhook({ on: ['ok', 'failed'], every: true })], { destinations: [] }, false)).toBe(
      'failed',
    );
    const [sent] = receiver.received.map(({ body }) => JSON.parse(body));
    expect([sent.status, sent.errors]).toEqual(['partial', [expect.objectContaining({ destination: 'warehouse' })]]);
  });
});

describe('a receiver', () => {
  it('is notified when something has changed, not each run', async () => {
    const notify = [webhook({ on: ['failed', 'held', 'recovered'] })];
    const statuses: Status[] = ['ok', 'failed', 'failed', 'ok', 'ok', 'held', 'held', 'partial', 'ok'];
    expect(await eventsOf(notify, statuses)).toEqual([
      '',
      'failed',
      '',
      'recovered',
      '',
      'held',
      '',
      'failed',
      'recovered',
    ]);
    expect(notices).toEqual([]);
  });

  it('is reported each time with every: true', async () => {
    const notify = [webhook({ on: ['ok', 'failed'], every: true })];
    expect(await eventsOf(notify, ['ok', 'ok', 'failed', 'failed'])).toEqual(['ok', 'ok', 'failed', 'failed']);
  });

  it('learns of ok after something else, and of a failure in part as a failure', async () => {
    const notify = [webhook({ on: ['ok', 'failed', 'partial'] })];
    expect(await eventsOf(notify, ['ok', 'ok', 'failed', 'partial', 'ok'])).toEqual([
      'ok',
      '',
      'failed',
      'partial',
      'ok',
    ]);
  });

  it('takes an interruption back, for those who were notified of it', async () => {
    const statuses: Status[] = ['ok', 'interrupted', 'ok', 'ok'];
    const receivers = [webhook({ on: ['interrupted', 'recovered'] })];
    expect(await eventsOf(receivers, statuses)).toEqual(['', 'interrupted', 'recovered', '']);
    expect(await eventsOf([webhook({ on: ['recovered'] })], statuses)).toEqual(['', '', '', '']);
  });

  it('does not forget a failure when a run is interrupted', async () => {
    const notify = [webhook({ on: ['failed', 'interrupted', 'recovered'] })];
    const statuses: Status[] = ['failed', 'interrupted', 'interrupted', 'failed', 'interrupted', 'ok'];
    expect(await eventsOf(notify, statuses)).toEqual(['failed', 'interrupted', '', '', 'interrupted', 'recovered']);
  });

  it('that is new learns of a failure that others know already', async () => {
    await finish([webhook({ on: ['failed'] })], 'failed');
    receiver.reset();
    await finish([webhook({ on: ['failed'] }), webhook({ on: ['failed'], webhook: url('/new') })], 'failed');
    expect(receiver.received.map(({ path }) => path)).toEqual(['/new']);
  });

  it('is notified of a start before the end', async () => {
    await finish([webhook({ on: ['started', 'ok'] })], 'ok');
    const bodies = receiver.received.map(({ body }) => JSON.parse(body));
    expect(bodies.map(({ status, events, run_id }) => [status, events, run_id])).toEqual([
      ['started', ['started'], null],
      ['ok', ['ok'], '20261103T021500Z-9f3a1c'],
    ]);
  });

  it('is notified of each unusual figure once', async () => {
    const figure = (stream: string): Anomaly => ({
      stream,
      figure: 'deleted',
      value: 5210,
      usual: 12,
      least: 0,
      most: 40,
      runs: 14,
      message: `${stream}: deleted 5,210; usually 12 (in the last 14 runs never above 40)`,
    });
    const notify = [webhook({ on: ['unusual'] })];
    await finish(notify, 'ok', { unusual: [figure('members')] });
    expect(JSON.parse(receiver.received[0]?.body ?? '').unusual).toEqual([figure('members')]);
    await finish(notify, 'ok', { unusual: [figure('members')] });
    expect(receiver.received).toHaveLength(1);
    await finish(notify, 'ok', { unusual: [figure('members'), figure('vip')] });
    expect(receiver.received).toHaveLength(2);
  });

  it.each(['held', 'unusual'] as const)('of %s is notified once of a guard that only warns', async (event) => {
    const message = '20 of 25 rows deleted (80%); the limit is 10%';
    const stream = streamReport({
      findings: [{ guard: 'max_deleted', message }],
      warnings: [{ code: 'guard_max_deleted', message }],
    });
    const notify = [webhook({ on: [event] })];
    for (let run = 0; run < 2; run += 1) await finish(notify, 'ok', { end: { streams: [stream] } });
    const [first, ...others] = receiver.received.map(({ body }) => JSON.parse(body));
    expect(others).toEqual([]);
    expect(first).toMatchObject({
      events: [event],
      status: 'ok',
      errors: [],
      warnings: [{ stream: 'members', code: 'guard_max_deleted', message }],
    });
    receiver.reset();
    await finish([webhook({ on: ['ok'], format: 'text', webhook: url('/other') })], 'ok', {
      end: { streams: [stream] },
    });
    expect(receiver.received[0]?.body).toContain(`warning: members: ${message}`);
  });

  it('gets what its format says', async () => {
    const formats = ['json', 'slack', 'teams', 'text'] as const;
    await finish(
      formats.map((format) => webhook({ on: ['ok'], format, webhook: url(`/${format}`) })),
      'ok',
    );
    const types = Object.fromEntries(receiver.received.map(({ path, headers }) => [path, headers['content-type']]));
    expect(types).toEqual({
      '/json': 'application/json',
      '/slack': 'application/json',
      '/teams': 'application/json',
      '/text': 'text/plain; charset=utf-8',
    });
  });
});

describe('a receiver that is down', () => {
  const down: Behaviour = (_, response) => response.writeHead(503).end('no');

  it('gives one notice without its URL, and gets the message with the next run, as late', async () => {
    const notify = [webhook({ on: ['failed', 'recovered'] })];
    receiver.reset(down);
    await finish(notify, 'failed');
    expect(receiver.received).toHaveLength(3);
    expect(notices).toEqual([
      `warning: notify[0] (webhook to 127.0.0.1:${receiver.port}) was not reached, and is notified with the next run: 127.0.0.1:${receiver.port} answered 503`,
    ]);
    receiver.reset();
    await finish(notify, 'ok');
    const sent = receiver.received.map(({ body }) => JSON.parse(body));
    expect(sent.map(({ status, late }) => [status, late])).toEqual([
      ['failed', true],
      ['ok', false],
    ]);
    receiver.reset();
    await finish(notify, 'ok');
    expect(receiver.received).toEqual([]);
  });

  it('loses and repeats no message that another receiver at its address has', async () => {
    const notify = [webhook({ on: ['failed'] }), webhook({ on: ['recovered', 'ok'] })];
    for (const behaviour of [down, undefined]) {
      receiver.reset(behaviour);
      await finish(notify, 'failed');
    }
    const messages = receiver.received.map(({ body }) => JSON.parse(body));
    expect(messages.map(({ events, late }) => [events, late])).toEqual([[['failed'], true]]);
  });

  it('keeps no more than five messages, the newest', async () => {
    const notify = [webhook({ on: ['failed', 'ok'], every: true, webhook: new Secret('http://127.0.0.1:1/hook') })];
    for (let run = 0; run < 7; run += 1) await finish(notify, run < 6 ? 'failed' : 'ok', { deadlineMs: 50 });
    const state = JSON.parse(await readFile(new JobLayout(folder, 'nightly').notified, 'utf8'));
    const memories = Object.values(state.receivers) as { waiting: { status: string; late: boolean }[] }[];
    const waiting = memories.flatMap((each) => each.waiting);
    expect(waiting.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed', 'failed', 'ok']);
    expect(waiting.every(({ late }) => late)).toBe(true);
  });

  it('delays nothing beyond the deadline, and no other receiver', async () => {
    const silent = new Secret(`http://127.0.0.1:${receiver.port}/silent`);
    receiver.reset((received, response) => {
      if (received.path !== '/silent') response.writeHead(204).end();
    });
    const began = performance.now();
    await finish([webhook({ on: ['started', 'ok'], webhook: silent }), webhook({ on: ['ok'] })], 'ok', {
      deadlineMs: 1000,
    });
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(receiver.received.map(({ path }) => path)).toContain('/hook/T0-secret-part');
    expect(notices).toHaveLength(2);
    expect(notices.join()).toMatch(/no response from 127\.0\.0\.1:\d+ in time/);
  });

  it('is not followed to another address', async () => {
    receiver.reset((_, response) => response.writeHead(302, { location: '/another' }).end());
    await finish([webhook({ on: ['ok'] })], 'ok');
    expect(receiver.received.map(({ path }) => path)).toEqual(['/hook/T0-secret-part']);
    expect(notices[0]).toContain('answered 302, and redirects are not followed');
  });
});

describe('a health check', () => {
  const ping = (every: boolean): NotifyOptions => ({ on: ['started', 'ok', 'failed'], ping: url('/ping/abc'), every });
  const paths = () => receiver.received.map(({ path }) => path);

  it('is notified of start, success and failure', async () => {
    await finish([ping(true)], 'ok');
    await finish([ping(true)], 'ok');
    await finish([ping(true)], 'partial');
    expect(paths()).toEqual(['/start', '', '/start', '', '/start', '/fail'].map((end) => `/ping/abc${end}`));
    expect(receiver.received.at(-1)?.body).toContain('cdsync nightly: partial');
  });

  it('that only takes GET is asked by GET', async () => {
    const methods: string[] = [];
    receiver.reset((received, response) => {
      methods.push(received.body === '' ? 'GET' : 'POST');
      response.writeHead(received.body === '' ? 200 : 405).end();
    });
    await finish([{ ...ping(true), on: ['ok'] }], 'ok');
    expect(methods).toEqual(['POST', 'GET']);
    expect(notices).toEqual([]);
  });

  it('that was down gets no old news, and the present with the next run', async () => {
    const notify = [{ ...ping(false), on: ['failed', 'ok'] as const }];
    receiver.reset((_, response) => response.writeHead(500).end());
    await finish(notify, 'failed');
    receiver.reset();
    await finish(notify, 'failed');
    expect(paths()).toEqual(['/ping/abc/fail']);
  });
});

describe('what receivers know', () => {
  it('is private, and has no URL', async () => {
    await finish([webhook({ on: ['failed'] })], 'failed');
    const { notified: path } = new JobLayout(folder, 'nightly');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readFile(path, 'utf8')).not.toContain('secret-part');
  });

  it.each([
    '',
    '{"version": 1, "status"',
    '[]',
    '{"version": 2}',
    '{"version":1,"status":"ok","settled":"odd","receivers":{}}',
  ])('that is damaged (%j) is as nothing: the receiver is notified', async (damaged) => {
    const { notified: path } = new JobLayout(folder, 'nightly');
    await writeFile(path, damaged);
    await finish([webhook({ on: ['failed'] })], 'failed');
    await finish([webhook({ on: ['failed'] })], 'failed');
    expect(receiver.received).toHaveLength(1);
  });

  it('that cannot be kept is a notice, and the receiver is notified', async () => {
    await rm(join(folder, 'nightly'), { recursive: true });
    await finish([webhook({ on: ['failed'] })], 'failed');
    expect(receiver.received).toHaveLength(1);
    expect(notices).toEqual(['warning: could not save notification state; a message may be sent twice']);
  });
});

import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { figureOf, readExposition } from '../fixtures/exposition.js';
import { readMetrics } from '../fixtures/otlp.js';
import { SmtpServer } from '../fixtures/smtp.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let receiver: Receiver;
let mail: SmtpServer;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  receiver = await Receiver.open();
  mail = await SmtpServer.open();
});
afterAll(async () => {
  await Promise.all([receiver.close(), mail.close()]);
  await space.close();
});
beforeEach(() => receiver.reset());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const all = ['started', 'ok', 'failed', 'held', 'partial', 'interrupted', 'recovered', 'unusual'];
const at = (path: string) => `http://127.0.0.1:${receiver.port}/${path}`;
const notices = (path: string) => receiver.received.filter((each) => each.path === `/${path}`).map(({ body }) => body);
const statuses = (path: string) => notices(path).map((body) => JSON.parse(body).status);

it('a run notifies receivers, health check, mail, metrics and commands of its result', async () => {
  await writeFile(
    join(space.folder, 'notify.sh'),
    '#!/bin/sh\necho "$1 of $CDSYNC_JOB, token: $CDS_TOKEN"\ncp "$CDSYNC_REPORT" ./kept-report.json\n',
  );
  await chmod(join(space.folder, 'notify.sh'), 0o755);
  await space.configure('notified', [members], {
    job: {
      notify: [
        { on: all, webhook: '${HOOK}', every: true },
        { on: ['started', 'ok', 'failed'], ping: at('ping'), every: true },
        { on: ['ok'], email: { to: ['ops@example.com'], smtp: `smtp://127.0.0.1:${mail.port}` } },
      ],
      metrics: { textfile: './metrics/cdsync.prom', otlp: '${COLLECTOR:-}' },
      after: [{ run: ['./notify.sh', '{status}'] }],
    },
  });
  const env = { HOOK: at('hook/secret-part'), COLLECTOR: at('otlp') };
  const { code, stdout, stderr } = await space.cdsync(['run', 'notified.json', '--json'], env);
  const report = JSON.parse(stdout);
  expect([code, report.status]).toEqual([0, 'ok']);
  expect(stderr).toContain('notify.sh: ok of notified, token: \n');
  expect(stderr + stdout).not.toContain('secret-part');
  expect(JSON.parse(await readFile(join(space.folder, 'kept-report.json'), 'utf8'))).toEqual(report);

  const [started, message] = notices('hook/secret-part').map((body) => JSON.parse(body));
  expect(started).toMatchObject({ status: 'started', previous_status: null, job: 'notified' });
  const [job] = report.jobs;
  expect(message).toMatchObject({ events: ['ok'], run_id: job.run_id, sequence: job.sequence, late: false });
  expect(message.streams).toEqual([expect.objectContaining({ name: 'members', rows: job.streams[0].rows })]);
  expect(message.report).toBe(join(space.jobFolder('notified'), 'reports', `${job.run_id}.json`));
  expect(receiver.received.map(({ path }) => path).filter((path) => path.startsWith('/ping'))).toEqual([
    '/ping/start',
    '/ping',
  ]);
  expect(mail.mails[0]?.text).toContain('Subject: cdsync notified: ok\n');

  const exposed = readExposition(await readFile(join(space.folder, 'metrics', 'cdsync.prom'), 'utf8'));
  expect(figureOf(exposed, 'cdsync_stream_rows', { job: 'notified', stream: 'members' })).toBe(job.streams[0].rows);
  const { points } = readMetrics(JSON.parse(notices('otlp/v1/metrics')[0] as string));
  expect(points.find(({ name }) => name === 'cdsync.stream.rows')?.value).toBe(job.streams[0].rows);
  expect(notices('otlp/v1/traces')).toEqual([]);
});

it('a start is reported when the run has its lock, before it reads', async () => {
  await space.configure('begun', [members], { job: { notify: [{ on: ['started'], webhook: '${HOOK}' }] } });
  await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 2000, share: 1 });
  const env = { HOOK: at('begun') };
  const child = space.spawn(['run', 'begun.json', '--quiet'], env);
  const end = ended(child);
  while (notices('begun').length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const locked = await space.cdsync(['run', 'begun.json'], env);
  expect(locked.code).toBe(75);
  expect(notices('begun')).toHaveLength(1);
  await space.clearFaults();
  expect((await end).code).toBe(0);
  expect(statuses('begun')).toEqual(['started']);
});

it('what keeps a run from having a report is reported as failed, a wrong word on the command line is not', async () => {
  const notify = [{ on: ['started', 'failed', 'recovered'], webhook: '${HOOK}' }];
  const after = [{ run: ['sh', '-c', 'echo "$CDSYNC_STATUS [$CDSYNC_RUN_ID]"'] }];
  const env = { HOOK: at('broken') };
  await writeFile(join(space.folder, 'file'), '');
  await space.configure('broken', [members], { storage: './file', job: { notify, after } });
  const failed = await space.cdsync(['run', 'broken.json'], env);
  expect(failed.code).toBe(1);
  expect(failed.stderr).toContain('sh: failed []');
  const [message] = notices('broken').map((body) => JSON.parse(body));
  expect(message).toMatchObject({ status: 'failed', run_id: null, report: null, streams: [] });
  expect(message.errors).toEqual([expect.objectContaining({ stream: null, code: expect.any(String) })]);
  receiver.reset();
  expect((await space.cdsync(['run', 'broken.json', '--stream', 'absent'], env)).code).toBe(2);
  expect(notices('broken')).toEqual([]);
});

it('a failure and its end are reported once each, over several processes', async () => {
  const notify = [{ on: ['failed', 'recovered', 'ok'], webhook: '${HOOK}' }];
  await space.configure('runs', [members], { job: { notify } });
  const env = { HOOK: at('runs') };
  const runOnce = (words: string[] = []) => space.cdsync(['run', 'runs.json', '--quiet', ...words], env);
  await runOnce();
  await space.control('faults', { kind: 'status', match: '/profiles', status: 404 });
  await runOnce(['--full']);
  await runOnce(['--full']);
  await space.clearFaults();
  await runOnce();
  await runOnce();
  const messages = notices('runs').map((body) => JSON.parse(body));
  expect(messages.map(({ events, previous_status }) => [events, previous_status])).toEqual([
    [['ok'], null],
    [['failed'], 'ok'],
    [['recovered', 'ok'], 'failed'],
  ]);
  expect(messages[1].errors[0]).toMatchObject({ stream: 'members', code: 'not_found' });
});

it('a receiver that does not respond changes neither the run nor its exit code', async () => {
  const notify = [{ on: ['ok'], webhook: '${HOOK}' }];
  const after = [{ run: ['false'] }, { run: ['./nowhere.sh'] }];
  await mkdir(join(space.folder, 'taken.prom'), { recursive: true });
  const metrics = { textfile: './taken.prom', otlp: 'http://127.0.0.1:9' };
  await space.configure('alone', [members], { job: { notify, after, metrics } });
  const { code, stdout, stderr } = await space.cdsync(['run', 'alone.json', '--json'], {
    HOOK: 'http://127.0.0.1:9/x?token=secret-part',
  });
  expect([code, JSON.parse(stdout).status]).toEqual([0, 'ok']);
  expect(stderr).toContain(
    'warning: notify[0] (webhook to 127.0.0.1:9) was not reached, and is notified with the next run',
  );
  expect(stderr).toContain('warning: after: false ended with code 1');
  expect(stderr).toContain('warning: after: nowhere.sh could not be started');
  expect(stderr).toMatch(/warning: metrics: .*taken\.prom could not be written/);
  expect(stderr).toContain('warning: metrics were not sent: no response from 127.0.0.1:9 (ECONNREFUSED)');
  expect(stderr).not.toContain('secret-part');
});

it('a receiver is reached through the proxy of the environment', async () => {
  const asked: string[] = [];
  const proxy = createServer();
  proxy.on('connect', (request, socket) => {
    asked.push(String(request.url));
    const onward = connect(receiver.port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    for (const each of [onward, socket]) each.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const HTTP_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const NO_PROXY = new URL(space.service.url).host;
  await space.configure('proxied', [members], { job: { notify: [{ on: ['ok'], webhook: '${HOOK}', every: true }] } });
  const HOOK = 'http://hooks.example.test/proxied';
  const env = { HOOK, HTTP_PROXY, NO_PROXY };
  expect((await ended(space.spawn(['run', 'proxied.json', '--quiet'], env))).code).toBe(0);
  expect(asked).toEqual(['hooks.example.test:80']);
  expect(statuses('proxied')).toEqual(['ok']);
  proxy.closeAllConnections();
  proxy.close();
});

async function serve(count: number): Promise<void> {
  const records = Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `r${n}`, index_id: 'made', attributes: { n } }),
  );
  await space.control('profiles', { index: 'made', records });
}

it('an approval ends what its run has reported: receivers, metrics and commands hear of it', async () => {
  await serve(100);
  const notify = [
    { on: ['held', 'recovered'], webhook: '${HOOK}' },
    { on: ['started', 'ok', 'failed'], ping: at('approved-ping'), every: true },
  ];
  const job = {
    notify,
    metrics: { textfile: './approved.prom' },
    after: [{ run: ['sh', '-c', 'echo "after: $CDSYNC_STATUS"'] }],
  };
  await space.configure('approved', [{ name: 'made', source: 'index_profiles', index: 'made' }], { job });
  const env = { HOOK: at('approved') };
  await space.cdsync(['run', 'approved.json', '--quiet'], env);
  await serve(50);
  const held = await space.cdsync(['run', 'approved.json', '--json'], env);
  const run = JSON.parse(held.stdout).jobs[0].run_id;
  expect([held.code, statuses('approved')]).toEqual([3, ['held']]);
  receiver.reset();
  const figures = async () => readExposition(await readFile(join(space.folder, 'approved.prom'), 'utf8'));
  const before = await figures();
  const { code, stderr } = await space.cdsync(['approve', 'approved.json', run], env);
  expect([code, stderr]).toEqual([0, expect.stringContaining('after: ok')]);
  const [message] = notices('approved').map((body) => JSON.parse(body));
  expect(message).toMatchObject({
    events: ['recovered'],
    run_id: run,
    status: 'ok',
    previous_status: 'held',
    unusual: [],
  });
  expect(receiver.received.map(({ path }) => path)).toContain('/approved-ping');
  const after = await figures();
  const of = (exposed: typeof after, name: string, labels: Record<string, string> = {}) =>
    figureOf(exposed, name, { job: 'approved', ...labels });
  expect([before, after].map((each) => of(each, 'cdsync_run_status', { status: 'ok' }))).toEqual([0, 1]);
  expect([before, after].map((each) => of(each, 'cdsync_stream_rows', { stream: 'made' }))).toEqual([100, 50]);
  for (const [name, labels] of [
    ['cdsync_runs_total', { status: 'ok' }],
    ['cdsync_stream_requests_total', { stream: 'made' }],
    ['cdsync_run_duration_seconds', {}],
  ] as const)
    expect([name, of(after, name, labels)]).toEqual([name, of(before, name, labels)]);
});

it('a delivery without a run reports the changes that it has made, and nothing else', async () => {
  await serve(20);
  const notify = [
    { on: ['failed', 'recovered'], webhook: '${HOOK}' },
    { on: ['ok', 'failed'], ping: at('pushed-ping'), every: true },
  ];
  const destinations = [{ name: 'out', connector: 'files', path: './pushed-out', format: 'csv' }];
  const job = { notify, destinations, metrics: { textfile: './pushed.prom' }, after: [{ run: ['echo', 'after'] }] };
  await space.configure('pushed', [{ name: 'made', source: 'index_profiles', index: 'made' }], { job });
  const env = { HOOK: at('pushed') };
  await writeFile(join(space.folder, 'pushed-out'), 'in the way');
  expect((await space.cdsync(['run', 'pushed.json', '--quiet'], env)).code).toBe(5);
  expect(statuses('pushed')).toEqual(['partial']);
  const delivered = async () => {
    const exposed = readExposition(await readFile(join(space.folder, 'pushed.prom'), 'utf8'));
    const labels = { job: 'pushed', destination: 'out', stream: 'made', status: 'ok' };
    return [
      figureOf(exposed, 'cdsync_destination_status', labels),
      figureOf(exposed, 'cdsync_runs_total', { job: 'pushed', status: 'partial' }),
    ];
  };
  expect(await delivered()).toEqual([0, 1]);
  receiver.reset();
  await space.cdsync(['push', 'pushed.json'], env);
  expect(receiver.received).toEqual([]);
  await rm(join(space.folder, 'pushed-out'));
  const { code, stderr } = await space.cdsync(['push', 'pushed.json'], env);
  expect([code, stderr.includes('echo: after')]).toEqual([0, false]);
  const [message] = notices('pushed').map((body) => JSON.parse(body));
  expect(message).toMatchObject({ events: ['recovered'], status: 'ok', streams: [] });
  expect(receiver.received.map(({ path }) => path)).toContain('/pushed-ping');
  expect(await delivered()).toEqual([1, 1]);
  receiver.reset();
  await space.cdsync(['push', 'pushed.json'], env);
  expect(receiver.received).toEqual([]);
});

it('check names a missing program, and notifies no one', async () => {
  const notify = [{ on: all, webhook: '${HOOK}', every: true }];
  await space.configure('checked', [members], { job: { notify, after: [{ run: ['./nowhere.sh'] }] } });
  const { code, stdout } = await space.cdsync(['check', 'checked.json'], { HOOK: at('checked') });
  expect(code).toBe(0);
  expect(stdout).toContain('warning: after: ./nowhere.sh is not there');
  expect(notices('checked')).toEqual([]);
});

it('the announced end of an API version is seen where the owner of a nightly job looks, also when quiet', async () => {
  const notify = [{ on: ['deprecated'], webhook: at('ending') }];
  await space.configure('ending', [members], { job: { notify } });
  await space.control('faults', {
    kind: 'deprecation',
    deprecation: '@1767225600',
    sunset: 'Thu, 31 Dec 2026 23:59:59 GMT',
  });
  const { code, stdout, stderr } = await space.cdsync(['run', 'ending.json', '--json', '--quiet']);
  expect(code).toBe(0);
  const announced = { api: 'profile', version: '2025-07-31', sunset: '2026-12-31T23:59:59.000Z' };
  expect(JSON.parse(stdout).jobs[0].deprecations).toMatchObject([announced]);
  const words =
    'the Profile API version 2025-07-31 is deprecated from 2026-01-01T00:00:00.000Z and ends 2026-12-31T23:59:59.000Z';
  expect(stderr).toContain(`warning: ${words}`);
  expect(notices('ending').map((body) => JSON.parse(body))).toMatchObject([
    { events: ['deprecated'], status: 'ok', deprecations: [announced] },
  ]);
  const people = await space.cdsync(['run', 'ending.json', '--quiet']);
  expect(people.stdout).toContain(words);
  expect((await space.cdsync(['status', 'ending.json'])).stdout).toContain(words);
  expect(JSON.parse((await space.cdsync(['status', 'ending.json', '--json'])).stdout)).toMatchObject({
    deprecations: [announced],
  });
  // The second run announced nothing new.
  expect(notices('ending')).toHaveLength(1);
});

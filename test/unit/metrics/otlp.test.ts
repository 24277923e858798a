import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secret } from '../../../src/core/secret.js';
import { metricsDocument, pairsOf, sendOtlp, traceDocument } from '../../../src/metrics/otlp.js';
import { notePhases } from '../../../src/metrics/phase-times.js';
import { afterRun, samplesOf } from '../../../src/metrics/samples.js';
import { spansOf } from '../../../src/metrics/spans.js';
import { WebhookClient } from '../../../src/notify/webhook-client.js';
import { readMetrics, readSpans } from '../../fixtures/otlp.js';
import { destinationReport, runEnd, streamReport } from '../../fixtures/run-ends.js';
import { Receiver } from '../../fixtures/webhook-server.js';

let collector: Receiver;
let http: WebhookClient;
beforeEach(async () => {
  collector = await Receiver.open();
  http = new WebhookClient();
});
afterEach(async () => {
  await http.close();
  await collector.close();
});

const about = { now: Date.parse('2026-11-03T02:16:30Z'), resourceAttributes: 'deployment.environment=prod,team=a%20b' };

function send(kind: 'metrics' | 'traces', document: object, path = ''): Promise<void> {
  const otlp = {
    endpoint: `http://127.0.0.1:${collector.port}${path}`,
    headers: new Secret('api-key=s%3Dcret'),
    resource: undefined,
  };
  return sendOtlp(otlp, { kind, document }, { http, signal: AbortSignal.timeout(20_000) });
}

describe('metrics for OpenTelemetry', () => {
  it('arrive as a document that a collector reads: gauges, and cumulative sums since the first run', async () => {
    const samples = afterRun([], samplesOf(runEnd(), []), () => true);
    await send('metrics', metricsDocument({ since: 1_000, samples: samples as never }, about));
    const [request] = collector.received;
    expect(request?.path).toBe('/v1/metrics');
    expect(request?.headers).toMatchObject({ 'content-type': 'application/json', 'api-key': 's=cret' });
    const { resource, points } = readMetrics(JSON.parse(request?.body ?? ''));
    expect(resource).toMatchObject({ 'service.name': 'cdsync', 'deployment.environment': 'prod', team: 'a b' });
    const rows = points.find(({ name }) => name === 'cdsync.stream.rows');
    expect(rows).toMatchObject({
      unit: '{row}',
      kind: 'gauge',
      value: 1000,
      attributes: { job: 'nightly', stream: 'members' },
    });
    expect(rows?.at).toBe(about.now);
    const requests = points.find(({ name }) => name === 'cdsync.stream.requests');
    expect(requests).toMatchObject({ kind: 'sum', value: 4, since: 1_000 });
  });

  it('that are refused in part are told, with the reason', async () => {
    collector.reset((_, response) => {
      const partialSuccess = { rejectedDataPoints: '3', errorMessage: 'too old' };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ partialSuccess }));
    });
    await expect(send('metrics', {})).rejects.toThrow(`127.0.0.1:${collector.port} refused 3 of the metrics: too old`);
    collector.reset((_, response) => response.writeHead(200).end('{"partialSuccess":{}}'));
    await send('metrics', {}, '/otlp/');
    expect(collector.received[0]?.path).toBe('/otlp/v1/metrics');
  });

  it('take headers as OpenTelemetry writes them', () => {
    expect(pairsOf('a=1, b = x%20y ,c=%zz,,d')).toEqual({ a: '1', b: 'x y', c: '%zz' });
    expect(pairsOf(undefined)).toEqual({});
  });
});

describe('the trace of a run', () => {
  it('has the run, its phases, its streams and its deliveries, each within the one above', async () => {
    let now = Date.parse('2026-11-03T02:15:00Z');
    const progress = { phase: 'starting' };
    const members = { phase: 'waiting' };
    const times = {
      run: notePhases(progress, () => now),
      streams: new Map([['members', notePhases(members, () => now)]]),
    };
    const step = (ms: number, work: () => void) => {
      now += ms;
      work();
    };
    step(1000, () => {
      progress.phase = 'reading';
    });
    step(0, () => {
      members.phase = 'reading';
    });
    step(40_000, () => {
      members.phase = 'comparing';
    });
    step(5000, () => {
      members.phase = 'done';
    });
    step(100, () => {
      progress.phase = 'delivering';
    });
    const failure = { code: 'destination_unavailable', message: 'nobody answers', hint: null, request_id: null };
    const destinations = [
      destinationReport({ seconds: 10 }),
      destinationReport({ stream: 'vip', seconds: 5, status: 'failed', error: failure }),
    ];
    const end = runEnd({ status: 'partial', streams: [streamReport()], destinations });
    await send('traces', traceDocument(spansOf(end, times), about));
    expect(collector.received[0]?.path).toBe('/v1/traces');
    const spans = readSpans(JSON.parse(collector.received[0]?.body ?? ''));
    const tree = spans.map(({ name, parent, seconds, failed }) => [name, parent, seconds, failed]);
    expect(tree).toEqual([
      ['run nightly', undefined, 90, 'partial'],
      ['starting', 'run nightly', 1, undefined],
      ['reading', 'run nightly', 45.1, undefined],
      ['delivering', 'run nightly', 43.9, undefined],
      ['stream members', 'run nightly', 45, undefined],
      ['reading', 'stream members', 40, undefined],
      ['comparing', 'stream members', 5, undefined],
      ['deliver members to warehouse', 'run nightly', 10, undefined],
      ['deliver vip to warehouse', 'run nightly', 5, 'destination_unavailable: nobody answers'],
    ]);
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(spans.find(({ name }) => name === 'stream members')?.attributes).toMatchObject({
      'cdsync.status': 'ok',
      'cdsync.rows': 1000,
    });
    const types = spans.flatMap(({ name, attributes }) =>
      'error.type' in attributes ? [[name, attributes['error.type']]] : [],
    );
    expect(types).toEqual([
      ['run nightly', 'partial'],
      ['deliver vip to warehouse', 'destination_unavailable'],
    ]);
  });
});

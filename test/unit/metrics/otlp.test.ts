import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Secret } from '../../../src/core/secret.js';
import { metricsDocument, pairsOf, sendOtlp } from '../../../src/metrics/otlp.js';
import { afterRun, samplesOf } from '../../../src/metrics/samples.js';
import { WebhookClient } from '../../../src/notify/webhook-client.js';
import { readMetrics } from '../../fixtures/otlp.js';
import { runEnd } from '../../fixtures/run-ends.js';
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

function send(document: object, path = ''): Promise<void> {
  const otlp = {
    endpoint: `http://127.0.0.1:${collector.port}${path}`,
    headers: new Secret('api-key=s%3Dcret'),
    resource: undefined,
  };
  return sendOtlp(otlp, document, { http, signal: AbortSignal.timeout(20_000) });
}

describe('metrics for OpenTelemetry', () => {
  it('arrive as a document that a collector reads: gauges, and cumulative sums since the first run', async () => {
    const samples = afterRun([], samplesOf(runEnd(), []), () => true);
    await send(metricsDocument({ since: 1_000, samples: samples as never }, about));
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

  it('that are refused in part are reported, with the reason', async () => {
    collector.reset((_, response) => {
      const partialSuccess = { rejectedDataPoints: '3', errorMessage: 'too old' };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ partialSuccess }));
    });
    await expect(send({})).rejects.toThrow(`127.0.0.1:${collector.port} refused 3 of the metrics: too old`);
    collector.reset((_, response) => response.writeHead(200).end('{"partialSuccess":{}}'));
    await send({}, '/otlp/');
    expect(collector.received[0]?.path).toBe('/otlp/v1/metrics');
  });

  it('take headers as OpenTelemetry writes them', () => {
    expect(pairsOf('a=1, b = x%20y ,c=%zz,,d')).toEqual({ a: '1', b: 'x y', c: '%zz' });
    expect(pairsOf(undefined)).toEqual({});
  });
});

import type { MetricsOptions } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { packageVersion } from '../core/package-version.js';
import { printable } from '../core/printable.js';
import type { WebhookClient } from '../notify/webhook-client.js';
import { families, type Sample } from './samples.js';
import type { StoredSamples } from './stored-samples.js';

interface OtlpResponse {
  readonly partialSuccess?: {
    readonly rejectedDataPoints?: string | number;
    readonly errorMessage?: string;
  };
}

/**
 * Posts metrics to a collector.
 * @param document see {@link metricsDocument}
 * @throws {CdsyncError} `receiver_failed`, also if the collector refuses a part
 */
export async function sendOtlp(
  { endpoint, headers }: NonNullable<MetricsOptions['otlp']>,
  document: object,
  { http, signal }: { readonly http: WebhookClient; readonly signal: AbortSignal },
): Promise<void> {
  const url = `${endpoint.replace(/(?<!\/)\/+$/, '')}/v1/metrics`;
  const all = { ...pairsOf(headers?.reveal()), 'content-type': 'application/json' };
  const { body } = await http.send({ url, method: 'POST', headers: all, body: JSON.stringify(document) }, signal);
  const { rejectedDataPoints, errorMessage } = responseOf(body).partialSuccess ?? {};
  const refused = Number(rejectedDataPoints ?? 0);
  if (refused === 0) return;
  const reason = errorMessage ? `: ${printable(errorMessage)}` : '';
  throw new CdsyncError(`${new URL(endpoint).host} refused ${refused} of the metrics${reason}`, {
    code: 'receiver_failed',
  });
}

function responseOf(body: string): OtlpResponse {
  try {
    return (JSON.parse(body) ?? {}) as OtlpResponse;
  } catch {
    return {};
  }
}

/*
 * Documents of OTLP 1 as JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): 64-bit integers are decimal
 * texts, enumerations are numbers. One document a run needs none of an SDK's aggregation, periods and buffers.
 */

type Attributes = Readonly<Record<string, string | number>>;

function attributes(of: Attributes): object[] {
  return Object.entries(of).map(([key, value]) => ({
    key,
    value:
      typeof value === 'string'
        ? { stringValue: value }
        : Number.isSafeInteger(value)
          ? { intValue: String(value) }
          : { doubleValue: value },
  }));
}

function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

/** `key=value` pairs, their values with %xx, as OpenTelemetry's variables have them. Anything else is left out. */
export function pairsOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(',').flatMap((pair) => {
    const [, key, value] = /^([^=\s]+)\s*=\s*(.*)$/s.exec(pair.trim()) ?? [];
    if (key === undefined || value === undefined) return [];
    try {
      return [[key, decodeURIComponent(value)]];
    } catch {
      return [[key, value]];
    }
  });
  return Object.fromEntries(pairs);
}

/** The sender's attributes. @param more `OTEL_RESOURCE_ATTRIBUTES` */
function resource(more: string | undefined): object {
  return {
    attributes: attributes({ 'service.name': 'cdsync', 'service.version': packageVersion(), ...pairsOf(more) }),
  };
}

const scope = () => ({ name: 'cdsync', version: packageVersion() });

/** The figures of a job as a document for `/v1/metrics`. */
export function metricsDocument(
  { since, samples }: Pick<StoredSamples, 'since' | 'samples'>,
  { now, resourceAttributes }: { readonly now: number; readonly resourceAttributes: string | undefined },
): object {
  const metrics = families.flatMap(({ name, kind, unit, help: description }) => {
    const familySamples = (samples as readonly Sample[]).filter((sample) => sample.name === name);
    if (familySamples.length === 0) return [];
    const isCounter = kind === 'counter';
    const dataPoints = familySamples.map(({ labels, value }) => ({
      attributes: attributes(labels),
      ...(isCounter ? { startTimeUnixNano: nanoseconds(since) } : {}),
      timeUnixNano: nanoseconds(now),
      asDouble: value,
    }));
    const about = { name, description, unit };
    // 2: cumulative.
    return [
      isCounter
        ? { ...about, sum: { dataPoints, aggregationTemporality: 2, isMonotonic: true } }
        : { ...about, gauge: { dataPoints } },
    ];
  });
  return { resourceMetrics: [{ resource: resource(resourceAttributes), scopeMetrics: [{ scope: scope(), metrics }] }] };
}

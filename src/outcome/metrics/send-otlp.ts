import type { MetricsOptions } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { printable } from '../../core/printable.js';
import type { OutgoingHttp } from '../http.js';
import { pairsOf } from './otlp.js';

interface Answer {
  readonly partialSuccess?: {
    readonly rejectedDataPoints?: string | number;
    readonly rejectedSpans?: string | number;
    readonly errorMessage?: string;
  };
}

/**
 * Posts one document to a collector.
 * @param signal what it names, such as `metrics`: a part of the path
 * @throws {CdsyncError} `receiver_failed`, also if the collector refuses a part
 */
export async function sendOtlp(
  { endpoint, headers }: NonNullable<MetricsOptions['otlp']>,
  { kind, document }: { readonly kind: 'metrics' | 'traces'; readonly document: object },
  { http, signal }: { readonly http: OutgoingHttp; readonly signal: AbortSignal },
): Promise<void> {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/${kind}`;
  const all = { ...pairsOf(headers?.reveal()), 'content-type': 'application/json' };
  const { body } = await http.send({ url, method: 'POST', headers: all, body: JSON.stringify(document) }, signal);
  const { rejectedDataPoints, rejectedSpans, errorMessage } = answerOf(body).partialSuccess ?? {};
  const refused = Number(rejectedDataPoints ?? rejectedSpans ?? 0);
  if (refused === 0) return;
  const reason = errorMessage ? `: ${printable(errorMessage)}` : '';
  throw new CdsyncError(`${new URL(endpoint).host} refused ${refused} of the ${kind}${reason}`, {
    code: 'receiver_failed',
  });
}

function answerOf(body: string): Answer {
  try {
    return (JSON.parse(body) ?? {}) as Answer;
  } catch {
    return {};
  }
}

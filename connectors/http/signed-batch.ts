import { createHash, createHmac } from 'node:crypto';
import type { OutgoingRecord, Secret } from '../../src/sdk/index.js';

/** The sender, which every request in cdsync's own format names. */
export interface Sender {
  readonly job: string;
  readonly destination: string;
}

/** The most bytes of a request besides its records. */
export const envelopeBytes = 256;

/** The JSON text of a record in a request. */
export function recordText({ id, stream, op, key, syncedAt, json }: OutgoingRecord): string {
  const head = JSON.stringify({ id, stream, op, key, synced_at: syncedAt });
  return `${head.slice(0, -1)},"data":${json}}`;
}

/** The request for some records, and its id, which is always the same for the same records. */
export function batchOf(records: readonly string[], { job, destination }: Sender): { id: string; body: string } {
  const content = `${JSON.stringify({ job, destination }).slice(1, -1)},"records":[${records.join(',')}]}`;
  const id = createHash('sha256').update(content).digest('hex').slice(0, 32);
  return { id, body: `{"id":"${id}",${content}` };
}

function keyOf(secret: Secret): Buffer {
  const text = secret.reveal();
  return text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64') : Buffer.from(text, 'utf8');
}

/**
 * The headers of Standard Webhooks (https://www.standardwebhooks.com): the signature covers the batch's id, the time and the
 * body, so that none of them can be changed and an old request cannot be played again.
 * @param nowMs milliseconds since 1970
 */
export function signatureHeaders(id: string, body: string, secret: Secret, nowMs: number): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

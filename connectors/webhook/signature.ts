import { createHmac } from 'node:crypto';
import type { Secret } from '../../src/sdk/index.js';
import type { Batch } from './types.js';

function keyOf(secret: Secret): Buffer {
  const text = secret.reveal();
  return text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64') : Buffer.from(text, 'utf8');
}

/**
 * The headers of Standard Webhooks (https://www.standardwebhooks.com): the signature covers the batch's id, the time and the
 * body, so that none of them can be changed and an old request cannot be played again.
 * @param now milliseconds since 1970
 */
export function signatureHeaders({ id, body }: Batch, secret: Secret, now: number): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { OutgoingRecord } from '../../src/sdk/index.js';

/** A request's body, and the id that the same records always have. */
export interface Batch {
  readonly id: string;
  readonly body: string;
}

/** Who sends: part of every request. */
export interface Sender {
  readonly job: string;
  readonly destination: string;
}

/** Beyond the records, a request is at most so long. */
export const envelopeBytes = 256;

/** A record as it stands in a request. */
export function recordText({ id, stream, op, key, syncedAt, json }: OutgoingRecord): string {
  const head = JSON.stringify({ id, stream, op, key, synced_at: syncedAt });
  return `${head.slice(0, -1)},"data":${json}}`;
}

/** The request that carries some records. */
export function batchOf(records: readonly string[], { job, destination }: Sender): Batch {
  const content = `${JSON.stringify({ job, destination }).slice(1, -1)},"records":[${records.join(',')}]}`;
  const id = createHash('sha256').update(content).digest('hex').slice(0, 32);
  return { id, body: `{"id":"${id}",${content}` };
}

const result = z.object({
  id: z.string(),
  status: z.enum(['acknowledged', 'refused', 'again']),
  reason: z.string().nullish(),
  column: z.string().nullish(),
  retry_after_ms: z.number().min(0).nullish(),
});

/** What a receiver may answer beside a status of 2xx. Records that it does not list are acknowledged. */
export const answerSchema = z.object({ results: z.array(result) });

export type ReceiverResult = z.infer<typeof result>;

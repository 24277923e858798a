import { z } from 'zod';
import { type Connector, type OutgoingRecord, recordConnector } from '../../../../src/sdk/destination.js';

/** A receiver: the records that it has received, and how it responds to the next ones. */
export class Receiver {
  readonly got: (OutgoingRecord & { data: Record<string, unknown> })[] = [];
  readonly rows = new Map<string, Record<string, unknown>>();
  refused: ReadonlySet<string> = new Set();
  /** Keys that it fails on. */
  failing: ReadonlySet<string> = new Set();
  /** The columns that its connector uses; undefined: all. */
  used: readonly string[] | undefined;
  /** Keys that its connector can make no request of. */
  unsent: ReadonlySet<string> = new Set();
  batches = 0;
  /** How many records it takes before it is gone. */
  takes = Number.POSITIVE_INFINITY;

  readonly connector: Connector = recordConnector({
    name: 'receiver',
    summary: 'Takes records.',
    options: { url: z.string() },
    capabilities: { batchRecords: 2 },
    usedColumns: () => this.used,
    open: async () => ({
      send: async (batch) => {
        this.batches += 1;
        return batch.map((record) => this.#take(record));
      },
      close: async () => undefined,
    }),
  });

  #take(record: OutgoingRecord) {
    if (this.takes <= 0) throw new Error('the receiver is gone');
    this.takes -= 1;
    if (this.failing.has(record.key)) return { type: 'again', reason: 'it failed' } as const;
    if (this.unsent.has(record.key)) return { type: 'refused', reason: 'id is empty', isUnsent: true } as const;
    if (this.refused.has(record.key)) return { type: 'refused', reason: `unknown (request ${this.batches})` } as const;
    const data = JSON.parse(record.json) as Record<string, unknown>;
    this.got.push({ ...record, data });
    if (record.op === 'delete') this.rows.delete(record.key);
    else this.rows.set(record.key, data);
    return { type: 'acknowledged' } as const;
  }
}

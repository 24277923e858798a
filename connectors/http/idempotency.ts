import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type OutgoingRecord, readStateIfUsable, z } from '../../src/sdk/index.js';
import { writeKept } from './kept-state.js';

type Ids = readonly Pick<OutgoingRecord, 'id'>[];
/** Failures that are kept: a record that is gone is never taken. */
const maxKept = 10_000;
const keptSchema = z.object({ failures: z.record(z.string(), z.number()) });

/**
 * Keys of idempotency. A request without a response has the same key again. After an answered failure it has another one: receivers
 * repeat the response that they gave to a key, for a day or so. So the failures of records that were not taken are kept over runs.
 */
export class IdempotencyKeys {
  readonly #path: string;
  readonly #failures: Map<string, number>;
  #isChanged = false;

  private constructor(path: string, failures: Map<string, number>) {
    this.#path = path;
    this.#failures = failures;
  }

  /** @param folder that is kept over runs */
  static async open(folder: string): Promise<IdempotencyKeys> {
    const path = join(folder, 'idempotency.json');
    const kept = await readStateIfUsable(path, keptSchema);
    return new IdempotencyKeys(path, new Map(Object.entries(kept?.failures ?? {})));
  }

  keyOf(records: Ids, ...request: readonly string[]): string {
    const failures = Math.max(...records.map(({ id }) => this.#failures.get(id) ?? 0));
    const text = [...records.map(({ id }) => id), ...request, ...(failures === 0 ? [] : [failures])].join('\n');
    return createHash('sha256').update(text).digest('hex').slice(0, 32);
  }

  failed(records: Ids): void {
    for (const { id } of records) {
      const failures = (this.#failures.get(id) ?? 0) + 1;
      // The newest are last.
      this.#failures.delete(id);
      this.#failures.set(id, failures);
    }
    this.#isChanged = true;
  }

  taken({ id }: Pick<OutgoingRecord, 'id'>): void {
    if (this.#failures.delete(id)) this.#isChanged = true;
  }

  async close(): Promise<void> {
    const newest = [...this.#failures].slice(-maxKept);
    if (this.#isChanged) await writeKept(this.#path, { failures: Object.fromEntries(newest) });
  }
}

import type { Clock } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';
import { formatCounted, formatDuration } from '../../core/quantities.js';
import type { RecordCapabilities, RecordDestination, RecordResult } from '../../sdk/destination.js';
import type { Reject } from '../delivery-state.js';
import type { Outbox, StoredRecord } from './outbox.js';

/** How often a record is sent before the destination counts as unavailable. */
const rounds = 6;
const firstDelayMs = 500;
const longestDelayMs = 30_000;
/** A delivery does not wait longer than this for a receiver, whatever that asks for. */
const maxAskedMs = 300_000;

export interface SendTask {
  readonly destination: RecordDestination;
  readonly capabilities: RecordCapabilities;
  readonly outbox: Pick<Outbox, 'acknowledged' | 'records'>;
  readonly stream: string;
  readonly onReject: 'continue' | 'fail';
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with the number of records of the outbox that are dealt with. */
  readonly progress: (records: number) => void;
}

interface Again {
  readonly record: StoredRecord;
  readonly reason: string;
  readonly afterMs: number;
}

/** Sends the remaining records of an outbox, and notes the result of each. */
class Sender {
  readonly #task: SendTask;
  readonly #underWay = new Set<Promise<void>>();
  #again: Again[] = [];
  #failure: unknown;
  #batch: StoredRecord[] = [];
  #bytes = 0;

  constructor(task: SendTask) {
    this.#task = task;
  }

  async all(): Promise<void> {
    const { outbox, stream, signal, capabilities } = this.#task;
    let sequence: number | undefined;
    try {
      for await (const record of outbox.records(stream)) {
        signal.throwIfAborted();
        // Each key is once in a commit. A later change of a key must wait for the earlier one.
        if (sequence !== undefined && record.sequence !== sequence) await this.#settle();
        sequence = record.sequence;
        await this.#add(record, capabilities);
        if (this.#failure !== undefined) break;
      }
      await this.#settle();
    } finally {
      await Promise.allSettled(this.#underWay);
      await outbox.acknowledged.flush();
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #add(record: StoredRecord, { batchRecords = 1, batchBytes = Number.POSITIVE_INFINITY }: RecordCapabilities) {
    const bytes = Buffer.byteLength(record.json);
    if (bytes > batchBytes) {
      this.#note([], [refused(record, `a record of ${bytes} bytes, longer than a batch may be (${batchBytes})`)]);
      return;
    }
    if (this.#bytes + bytes > batchBytes) await this.#flush();
    this.#batch.push(record);
    this.#bytes += bytes;
    if (this.#batch.length >= batchRecords) await this.#flush();
  }

  /** Sends the batch as soon as fewer than `batchesAtOnce` batches are under way. */
  async #flush(): Promise<void> {
    const { batchesAtOnce = 1 } = this.#task.capabilities;
    const batch = this.#batch;
    if (batch.length === 0) return;
    this.#batch = [];
    this.#bytes = 0;
    while (this.#underWay.size >= batchesAtOnce) await Promise.race(this.#underWay);
    if (this.#failure !== undefined) return;
    const sending = this.#send(batch)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#underWay.delete(sending));
    this.#underWay.add(sending);
  }

  async #send(batch: readonly StoredRecord[]): Promise<void> {
    const { destination, signal } = this.#task;
    const results = await destination.send(batch, signal);
    if (results.length !== batch.length)
      throw new Error(`the connector returned ${results.length} results for ${batch.length} records`);
    const outcomes = batch.map((record, index) => ({ record, result: results[index] as RecordResult }));
    const acknowledged = outcomes.flatMap(({ record, result }) =>
      result.type === 'acknowledged' ? [record.offset] : [],
    );
    const rejects = outcomes.flatMap(({ record, result }) =>
      result.type === 'refused' ? [refused(record, result.reason, result.column)] : [],
    );
    this.#note(acknowledged, rejects);
    for (const { record, result } of outcomes) {
      if (result.type === 'again') this.#again.push({ record, reason: result.reason, afterMs: result.afterMs ?? 0 });
    }
  }

  #note(acknowledged: readonly number[], rejects: readonly (Reject & { readonly offset: number })[]): void {
    const { outbox, onReject, progress } = this.#task;
    const [first] = rejects;
    if (first !== undefined && onReject === 'fail') {
      outbox.acknowledged.note(acknowledged, []);
      throw new CdsyncError(`the destination refuses a record: ${first.reason}`, {
        code: 'row_rejected',
        hint: 'correct it at the source, or deliver the others without it: on_reject: continue',
      });
    }
    outbox.acknowledged.note(acknowledged, rejects);
    progress(outbox.acknowledged.count);
  }

  /** Waits until no batch is under way, and repeats the records that the destination asks for again. */
  async #settle(): Promise<void> {
    const { clock, signal } = this.#task;
    await this.#flush();
    await Promise.all(this.#underWay);
    for (let round = 1; this.#again.length > 0 && this.#failure === undefined; round += 1) {
      const waiting = this.#again;
      this.#again = [];
      if (round === rounds) throw unanswered(waiting);
      const backoff = Math.min(firstDelayMs * 2 ** (round - 1), longestDelayMs);
      const longest = waiting.reduce((first, next) => (next.afterMs > first.afterMs ? next : first));
      if (longest.afterMs > maxAskedMs) throw asksTooLong(waiting.length, longest);
      await clock.sleep(Math.max(backoff, longest.afterMs), signal);
      for (const { record } of waiting) await this.#add(record, this.#task.capabilities);
      await this.#flush();
      await Promise.all(this.#underWay);
    }
  }
}

function refused(record: StoredRecord, reason: string, column?: string): Reject & { readonly offset: number } {
  return {
    offset: record.offset,
    key: record.key,
    column: column ?? null,
    reason,
    run_id: record.runId,
    op: record.op,
  };
}

function asksTooLong(count: number, { reason, afterMs }: Again): CdsyncError {
  return new CdsyncError(
    `the destination asks cdsync to wait ${formatDuration(afterMs)} before it takes ${formatCounted(count, 'record')} again; a delivery waits at most ${formatDuration(maxAskedMs)}: ${reason}`,
    {
      code: 'destination_unavailable',
      hint: 'acknowledged records are not sent again; the next delivery sends the rest: push again after that time',
    },
  );
}

function unanswered(waiting: readonly Again[]): CdsyncError {
  return new CdsyncError(
    `${waiting.length} records were sent ${rounds} times, and the destination still asks for them again: ${waiting[0]?.reason}`,
    {
      code: 'destination_unavailable',
      hint: 'acknowledged records are not sent again; the next delivery sends the rest',
    },
  );
}

/**
 * Sends the remaining records of an outbox. Acknowledgements are noted even if it throws.
 * @throws the errors of the connector; {@link CdsyncError} `row_rejected`, `destination_unavailable`
 */
export function sendRecords(task: SendTask): Promise<void> {
  return new Sender(task).all();
}

import type { Clock } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';
import { formatCounted, formatDuration } from '../../core/quantities.js';
import type { RecordCapabilities, RecordDestination, RecordResult } from '../../sdk/destination.js';
import type { Reject } from '../delivery-state.js';
import type { Outbox, StoredRecord } from './outbox.js';

/** How often a record is sent before it waits for the next delivery, and how often the destination is asked before it counts as away. */
const rounds = 6;
const firstDelayMs = 500;
/** How long a delivery waits for a receiver that asks for it, if nothing else is configured. */
const defaultPatienceMs = 300_000;
/** This many batches in a row without one taken record: the destination is away, and not a record wrong. */
const maxFailedInRow = 4;
/** At most this number of records that are tried again later is kept in memory. */
const maxAgain = 10_000;
/** This many records that were refused before any was taken end the delivery: not the records are wrong. */
const maxRefusedAtFirst = 20;
/** This many rows without a possible request are kept until one record is taken: a stream may begin with rows that lack a value. */
const maxUnsentAtFirst = 10_000;

type Refusal = Reject & { readonly offset: number };

export interface SendTask {
  readonly destination: RecordDestination;
  readonly capabilities: RecordCapabilities;
  readonly outbox: Pick<Outbox, 'acknowledged' | 'records'>;
  readonly stream: string;
  readonly onReject: 'continue' | 'fail';
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The longest wait that the destination may ask for, in milliseconds. */
  readonly patienceMs?: number | undefined;
  /** Called with the number of records of the outbox that are dealt with. */
  readonly progress: (records: number) => void;
  /** The records that the destination did not take in earlier deliveries, by key: how it would have been sent. */
  readonly owed?: ReadonlyMap<string, StoredRecord['op']>;
}

interface Again {
  readonly record: StoredRecord;
  readonly reason: string;
  /** Of the monotonic clock: not before it. */
  readonly from: number;
  readonly isTried: boolean;
}

/** How a record is sent, if an earlier one of its key was not taken: a record that is new to the source may not be new to the destination. */
function owedOp(owed: StoredRecord['op'] | undefined, { op }: StoredRecord): StoredRecord['op'] {
  if (owed === 'insert' && op === 'update') return 'insert';
  return owed === 'delete' && op === 'insert' ? 'update' : op;
}

/** Sends the remaining records of an outbox, and notes the result of each. */
class RecordSender {
  readonly #task: SendTask;
  readonly #capabilities: RecordCapabilities;
  readonly #underWay = new Set<Promise<void>>();
  /** Called when a batch has ended. */
  #ended: (() => void) | undefined;
  readonly #owed: Map<string, StoredRecord['op']>;
  #again: Again[] = [];
  /** Refused, and sent once more after all others of their commit. */
  #last: StoredRecord[] = [];
  #isLastTurn = false;
  #failure: unknown;
  #batch: StoredRecord[] = [];
  #bytes = 0;
  /** Records that the destination has taken. */
  #taken = 0;
  /** Refused before any record was taken: they count once one is, or once all are through. */
  #refusedAtFirst: Refusal[] = [];
  #newlyRefused = 0;
  #newlyUnsent = 0;
  #failedInRow = 0;
  #pauses = 0;
  #askedMs = 0;

  constructor(task: SendTask) {
    this.#task = task;
    this.#capabilities = task.destination.capabilities ?? task.capabilities;
    this.#owed = new Map(task.owed);
  }

  async all(): Promise<void> {
    const { outbox, stream, signal } = this.#task;
    let before: StoredRecord | undefined;
    try {
      for await (const records of outbox.records(stream)) {
        for (const record of records) {
          signal.throwIfAborted();
          // Each key is once in a commit. A later change of a key must wait for the earlier one.
          if (before !== undefined && record.sequence !== before.sequence) await this.#settle();
          // What deletes free, such as an address that is unique, others may need.
          else if (before?.op === 'delete' && record.op !== 'delete') await this.#allSent();
          before = record;
          const op = owedOp(this.#owed.get(record.key), record);
          const flushed = this.#add(op === record.op ? record : { ...record, op });
          if (flushed !== undefined) await flushed;
          if (this.#again.length >= maxAgain) await this.#settle();
          if (this.#failure !== undefined) break;
        }
        if (this.#failure !== undefined) break;
      }
      await this.#settle();
      if (this.#failure === undefined && this.#newlyUnsent >= maxRefusedAtFirst && this.#taken === 0)
        this.#failure = allRefused(this.#refusedAtFirst[0]?.reason ?? '');
      if (this.#failure === undefined) this.#noteRefused(this.#refusedAtFirst);
    } finally {
      await Promise.allSettled(this.#underWay);
      await outbox.acknowledged.flush();
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  get owedKeys(): ReadonlySet<string> {
    return new Set(this.#owed.keys());
  }

  /** @returns a promise only if a batch goes out before the next record: to wait for each would take longer than its template. */
  #add(record: StoredRecord): Promise<void> | undefined {
    const { batchRecords = 1, batchBytes = Number.POSITIVE_INFINITY } = this.#capabilities;
    const bytes = Buffer.byteLength(record.json);
    if (bytes > batchBytes) {
      this.#note([], [this.#refuse(record, `a record of ${bytes} bytes, longer than a batch may be (${batchBytes})`)]);
      return undefined;
    }
    if (this.#bytes + bytes > batchBytes && this.#batch.length > 0) return this.#flush().then(() => this.#add(record));
    this.#batch.push(record);
    this.#bytes += bytes;
    return this.#batch.length >= batchRecords ? this.#flush() : undefined;
  }

  /** Sends the batch as soon as fewer than `batchesAtOnce` batches are under way, and the destination takes any. */
  async #flush(): Promise<void> {
    const { batchesAtOnce = 1 } = this.#capabilities;
    const batch = this.#batch;
    if (batch.length === 0) return;
    this.#batch = [];
    this.#bytes = 0;
    // A race of all would leave a reaction at every batch, each time.
    while (this.#underWay.size >= batchesAtOnce || this.#areAllRefusedSoon)
      await new Promise<void>((resolve) => (this.#ended = resolve));
    const isProbe = this.#mustPause;
    if (isProbe) await this.#pause();
    if (this.#failure !== undefined) return;
    const sending = this.#send(batch)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#underWay.delete(sending);
        this.#ended?.();
      });
    this.#underWay.add(sending);
    if (isProbe) await sending;
  }

  /** Whether the batches under way would end the delivery, if they were refused as all before them were. */
  get #areAllRefusedSoon(): boolean {
    const { size } = this.#underWay;
    return size > 0 && this.#taken === 0 && this.#newlyRefused + size >= maxRefusedAtFirst;
  }

  get #mustPause(): boolean {
    return this.#failedInRow >= maxFailedInRow || this.#askedMs > 0;
  }

  /** Waits until the destination may take records again. The next batch alone finds out. */
  async #pause(): Promise<void> {
    const { clock, signal } = this.#task;
    await Promise.all(this.#underWay);
    if (!this.#mustPause || this.#failure !== undefined) return;
    this.#pauses += 1;
    const [first] = this.#again;
    if (this.#pauses >= rounds || first?.isTried) {
      this.#failure = unanswered(this.#again);
      return;
    }
    const asked = this.#askedMs;
    this.#askedMs = 0;
    await clock.sleep(Math.max(delayMs(this.#pauses), asked), signal);
    // Another failure pauses again.
    this.#failedInRow = Math.min(this.#failedInRow, maxFailedInRow - 1);
  }

  async #send(batch: readonly StoredRecord[]): Promise<void> {
    const { destination, signal } = this.#task;
    const results = await destination.send(batch, signal);
    if (results.length !== batch.length)
      throw new Error(`the connector returned ${results.length} results for ${batch.length} records`);
    const acknowledged: number[] = [];
    const rejects: Refusal[] = [];
    const unsent = new Set<Refusal>();
    let again = 0;
    for (const [index, record] of batch.entries()) {
      const result = results[index] as RecordResult;
      if (result.type === 'acknowledged') {
        acknowledged.push(record.offset);
        this.#owed.delete(record.key);
      } else if (result.type === 'again') {
        again += 1;
        this.#tryAgain(record, result);
      } else if (result.mayPassLast && !this.#isLastTurn) this.#last.push(record);
      else {
        const reject = this.#refuse(record, result.reason, { column: result.column ?? null });
        rejects.push(reject);
        if (result.isUnsent) unsent.add(reject);
      }
    }
    this.#failedInRow = again === batch.length ? this.#failedInRow + 1 : 0;
    if (again < batch.length) this.#pauses = 0;
    this.#note(acknowledged, rejects, unsent);
  }

  #tryAgain(
    record: StoredRecord,
    { reason, afterMs = 0, isForAll, isTried = false }: RecordResult & { type: 'again' },
  ): void {
    const { clock, patienceMs = defaultPatienceMs } = this.#task;
    this.#again.push({ record, reason, from: clock.monotonic() + afterMs, isTried });
    const asked = { reason, afterMs, patienceMs, nowMs: clock.now() };
    if (afterMs > patienceMs) this.#failure ??= asksTooLong(this.#again.length, asked);
    else if (isForAll) this.#askedMs = Math.max(this.#askedMs, afterMs, firstDelayMs);
  }

  #note(acknowledged: readonly number[], rejects: readonly Refusal[], unsent: ReadonlySet<Refusal> = new Set()): void {
    const { outbox, onReject, progress, owed } = this.#task;
    const [first] = rejects;
    if (first !== undefined && onReject === 'fail') {
      outbox.acknowledged.note(acknowledged, []);
      throw new CdsyncError(`the destination refuses a record: ${first.reason}`, {
        code: 'row_rejected',
        hint: 'correct it at the source, or deliver the others without it: on_reject: continue',
      });
    }
    this.#taken += acknowledged.length;
    for (const reject of rejects) {
      if (reject.key !== null && owed?.has(reject.key) === true) continue;
      if (unsent.has(reject)) this.#newlyUnsent += 1;
      else this.#newlyRefused += 1;
    }
    if (this.#taken === 0) {
      this.#refusedAtFirst.push(...rejects);
      if (this.#newlyRefused >= maxRefusedAtFirst || this.#newlyUnsent >= maxUnsentAtFirst)
        throw allRefused(first?.reason ?? '');
      return;
    }
    outbox.acknowledged.note(acknowledged, []);
    this.#noteRefused([...this.#refusedAtFirst, ...rejects]);
    this.#refusedAtFirst = [];
    progress(outbox.acknowledged.count);
  }

  /** Owed from now on, and not when it is noted: by then, the destination may have taken a later record of the key. */
  #refuse(record: StoredRecord, reason: string, more: Partial<Refusal> = {}): Refusal {
    const { offset, key, op, runId } = record;
    this.#owed.set(key, op);
    return { offset, key, column: null, reason, run_id: runId, op, ...more };
  }

  #noteRefused(rejects: readonly Refusal[]): void {
    const { outbox, progress } = this.#task;
    outbox.acknowledged.note([], rejects);
    progress(outbox.acknowledged.count);
  }

  async #allSent(): Promise<void> {
    await this.#flush();
    await Promise.all(this.#underWay);
  }

  /** Waits until no batch is under way, and repeats the records that the destination asks for again. */
  async #settle(): Promise<void> {
    const { clock, signal } = this.#task;
    await this.#allSent();
    for (let round = 1; this.#failure === undefined; round += 1) {
      if (this.#again.length === 0 && this.#last.length > 0) {
        const last = this.#last;
        this.#last = [];
        this.#isLastTurn = true;
        for (const record of last) await this.#add(record);
        await this.#allSent();
        this.#isLastTurn = false;
      }
      const again = this.#again;
      if (again.length === 0) return;
      if (round === rounds || again.every(({ isTried }) => isTried)) {
        this.#letWait(again);
        return;
      }
      this.#again = [];
      const last = again.reduce((most, { from }) => Math.max(most, from), 0);
      if (!this.#mustPause) await clock.sleep(Math.max(delayMs(round), last - clock.monotonic()), signal);
      // Each round finds out again whether the destination takes any.
      this.#failedInRow = 0;
      for (const { record } of again) await this.#add(record);
      await this.#allSent();
    }
  }

  /** Records that failed in every round wait for the next delivery, if the destination takes others; else it is away. */
  #letWait(again: readonly Again[]): void {
    const { owed } = this.#task;
    const waitedBefore = again.every(({ record }) => owed?.has(record.key));
    if (this.#taken === 0 && !waitedBefore) {
      this.#failure = unanswered(again);
      return;
    }
    this.#noteRefused(again.map(({ record, reason }) => this.#refuse(record, reason, { is_waiting: true })));
    this.#again = [];
    this.#failedInRow = 0;
  }
}

/** The wait before the nth repetition. */
function delayMs(repetition: number): number {
  return firstDelayMs * 2 ** (repetition - 1);
}

function allRefused(reason: string): CdsyncError {
  return new CdsyncError(`the destination refused the first ${maxRefusedAtFirst} records, and took none: ${reason}`, {
    code: 'records_refused',
    hint: 'correct the template, the rights or the receiver; nothing was listed as a reject, and the next delivery sends them again',
  });
}

/** The destination is away for so long that another attempt of this delivery could only find that out again. */
export class AwayForLong extends CdsyncError {}

function asksTooLong(
  count: number,
  {
    reason,
    afterMs,
    patienceMs,
    nowMs,
  }: { readonly reason: string; readonly afterMs: number; readonly patienceMs: number; readonly nowMs: number },
): CdsyncError {
  const until = nowMs + afterMs;
  // A year that no date has is no help.
  const moment = until < 253_402_300_800_000 ? `, until ${new Date(until).toISOString().slice(0, 19)}Z,` : '';
  return new AwayForLong(
    `the destination asks cdsync to wait ${formatDuration(afterMs)}${moment} before it takes ${formatCounted(count, 'record')} again; \`retry.patience\` is ${formatDuration(patienceMs)}: ${reason}`,
    {
      code: 'destination_unavailable',
      hint: 'acknowledged records are not sent again; the next delivery sends the rest: push again after that time',
    },
  );
}

function unanswered(waiting: readonly Again[]): CdsyncError {
  const Unavailable = waiting.some(({ isTried }) => isTried) ? AwayForLong : CdsyncError;
  return new Unavailable(
    `${formatCounted(waiting.length, 'record')} ${waiting.length === 1 ? 'was' : 'were'} sent again and again, and the destination still asks for ${waiting.length === 1 ? 'it' : 'them'}: ${waiting[0]?.reason}`,
    {
      code: 'destination_unavailable',
      hint: 'acknowledged records are not sent again; the next delivery sends the rest',
    },
  );
}

/**
 * Sends the remaining records of an outbox. Acknowledgements are noted even if it throws.
 * @returns the keys whose last record the destination did not take
 * @throws the errors of the connector; {@link CdsyncError} `row_rejected`, `records_refused`, `destination_unavailable`
 */
export async function sendRecords(task: SendTask): Promise<ReadonlySet<string>> {
  const sender = new RecordSender(task);
  await sender.all();
  return sender.owedKeys;
}

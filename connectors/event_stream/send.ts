import {
  CdsyncError,
  type OptionValues,
  type OutgoingRecord,
  type RecordDestination,
  type RecordResult,
  type ServiceAccess,
} from '../../src/sdk/index.js';
import type { EventStreamShape } from './options.js';
import { eventOf } from './template.js';
import { maxEventBytes } from './types.js';

/** Sends each record as an event. */
export class EventStreamDestination implements RecordDestination {
  readonly #service: ServiceAccess;
  readonly #options: OptionValues<EventStreamShape>;

  constructor(service: ServiceAccess, options: OptionValues<EventStreamShape>) {
    this.#service = service;
    this.#options = options;
  }

  /** What ends the delivery is thrown where it is all that came of the batch; otherwise the next batch will meet it. */
  async send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]> {
    const results = new Map<OutgoingRecord, RecordResult>();
    let failure: unknown;
    const inOrder = async (records: readonly OutgoingRecord[]) => {
      for (const record of records) {
        const result = await this.#send(record, signal);
        results.set(record, result);
        // What comes later for the same key stays later.
        if (result.type === 'again') return;
      }
    };
    const caught = (error: unknown) => {
      failure ??= error;
    };
    await Promise.all([...byKey(batch).values()].map((records) => inOrder(records).catch(caught)));
    signal.throwIfAborted();
    if (failure !== undefined && results.size === 0) throw failure;
    const reason = failure instanceof Error ? failure.message : 'an earlier change of the key comes first';
    return batch.map((record) => results.get(record) ?? { type: 'again', reason });
  }

  async close(): Promise<void> {}

  async #send(record: OutgoingRecord, signal: AbortSignal): Promise<RecordResult> {
    const event = eventOf(record, this.#options.body);
    const bytes = Buffer.byteLength(event);
    if (bytes > maxEventBytes)
      return { type: 'refused', reason: `an event of ${bytes} bytes; the service takes ${maxEventBytes}` };
    try {
      await this.#service.sendEvent(this.#options.streamId, event, signal);
      return { type: 'acknowledged' };
    } catch (error) {
      if (!(error instanceof CdsyncError)) throw error;
      if (error.code === 'event_refused') return { type: 'refused', reason: error.message };
      if (error.kind === 'retryable') return { type: 'again', reason: error.message };
      throw error;
    }
  }
}

/** Changes of one key are sent one after the other, in their order. */
function byKey(batch: readonly OutgoingRecord[]): Map<string, OutgoingRecord[]> {
  const keys = new Map<string, OutgoingRecord[]>();
  for (const record of batch) {
    const id = JSON.stringify([record.stream, record.key]);
    keys.set(id, [...(keys.get(id) ?? []), record]);
  }
  return keys;
}

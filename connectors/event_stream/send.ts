import {
  BodyTemplate,
  CdsyncError,
  type OptionValues,
  type OutgoingRecord,
  type RecordDestination,
  type RecordResult,
  type ServiceAccess,
  TemplateFailure,
  TemplateRow,
} from '../../src/sdk/index.js';
import type { EventStreamShape } from './options.js';

/** The longest event that the service accepts (published specification, Real-time API). */
const maxEventBytes = 64 * 1024;

/** Sends each record as an event. */
export class EventStreamDestination implements RecordDestination {
  readonly #service: ServiceAccess;
  readonly #options: OptionValues<EventStreamShape>;
  readonly #body: BodyTemplate | undefined;

  constructor(service: ServiceAccess, options: OptionValues<EventStreamShape>) {
    this.#service = service;
    this.#options = options;
    this.#body = options.body === undefined ? undefined : new BodyTemplate(options.body);
  }

  async send(batch: readonly OutgoingRecord[], signal: AbortSignal): Promise<readonly RecordResult[]> {
    const results: RecordResult[] = [];
    for (const record of batch) results.push(await this.#send(record, signal));
    return results;
  }

  async close(): Promise<void> {}

  async #send(record: OutgoingRecord, signal: AbortSignal): Promise<RecordResult> {
    let event = record.json;
    try {
      event = this.#body?.json(TemplateRow.of(record)) ?? event;
    } catch (error) {
      if (!(error instanceof TemplateFailure)) throw error;
      return { type: 'refused', reason: error.message };
    }
    const bytes = Buffer.byteLength(event);
    if (bytes > maxEventBytes)
      return { type: 'refused', reason: `an event of ${bytes} bytes; the service takes ${maxEventBytes}` };
    try {
      await this.#service.sendEvent(this.#options.streamId, event, signal);
      return { type: 'acknowledged' };
    } catch (error) {
      if (!(error instanceof CdsyncError)) throw error;
      if (error.code === 'event_refused') return { type: 'refused', reason: error.message };
      if (error.kind === 'retryable') return { type: 'again', reason: error.message, isTried: true };
      throw error;
    }
  }
}

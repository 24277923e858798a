import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { quoteIdentifier } from '../core/sql.js';
import { parseColumnType } from '../sdk/column-type.js';
import type { DestinationContext, RecordConnector, RecordDestination } from '../sdk/destination.js';
import { jsonValueSql } from '../sdk/json-value.js';
import { keptColumns } from './delivered-columns.js';
import type { Delivered, StreamTask } from './delivery.js';
import { recordDefinition } from './delivery-definition.js';
import { planDelivery } from './delivery-plan.js';
import { DeliveryInput } from './input.js';
import { type LocalWatermark, moveLocalWatermark, Outbox, readLocalWatermark } from './outbox.js';
import { sendRecords } from './record-sender.js';
import { countRejects, readRejects, rejectedKeys, rejectsPath, withTold, writeRejects } from './rejects.js';

/**
 * Sends one stream's changes as records. It first writes them into an outbox, and notes each acknowledgement beside it. After a
 * crash or a failed attempt it sends the rest of the outbox.
 */
export class RecordDelivery {
  readonly table = undefined;
  readonly definition: string;
  readonly #task: StreamTask<RecordConnector>;
  readonly #kept: string;
  readonly #rejects: string;
  #sent = 0;

  constructor(task: StreamTask<RecordConnector>) {
    this.#task = task;
    this.definition = recordDefinition(task.feed, task.request.destination);
    const { layout } = task.context;
    this.#kept = layout.deliveredStream(task.request.destination.name, task.feed.stream);
    this.#rejects = rejectsPath(layout, task.request.destination.name, task.feed.stream);
  }

  get #outbox(): string {
    return join(this.#kept, 'outbox');
  }

  /** One attempt: sends the rest of an earlier delivery, then the changes since. */
  async attempt(options: DestinationContext): Promise<Delivered> {
    const left = await Outbox.left(this.#task.session, this.#outbox);
    if (left !== undefined) await this.#empty(left, options);
    const outbox = await this.#fill();
    if (outbox !== undefined) await this.#empty(outbox, options);
    const { layout } = this.#task.context;
    const rejected = await countRejects(layout, this.#task.request.destination.name, this.#task.feed.stream);
    return { rows: this.#sent, rejected };
  }

  /** The records that were acknowledged. */
  async taken(): Promise<number> {
    return this.#sent;
  }

  /** Writes the next outbox; undefined if there is nothing to send. */
  async #fill(): Promise<Outbox | undefined> {
    const { request, feed, session, context, folder } = this.#task;
    const watermark = await readLocalWatermark(this.#kept);
    const hasRejects = (await countRejects(context.layout, request.destination.name, feed.stream)).all > 0;
    const plan = planDelivery({
      // A sent record cannot be taken back. So in every mode, records are sent again only if the user asks for it.
      mode: 'append',
      feed,
      definition: this.definition,
      watermark: watermark && { ...this.#base, ...asWatermark(watermark) },
      table: { name: this.#base.table, isEmpty: true },
      full: request.full && this.#sent === 0,
      adopt: request.adopt,
      hasRejects: hasRejects && this.#sent === 0,
    });
    if (plan.type === 'nothing') return undefined;
    const retried = hasRejects && plan.type === 'changes' ? rejectedKeys(this.#rejects) : undefined;
    const input = await DeliveryInput.open({
      layout: context.layout,
      feed,
      session,
      folder: join(folder, 'input'),
      retried,
    });
    try {
      const pieces = await input.planned(plan, request.destination.mode);
      const columns = keptColumns(feed, request.destination.columns).map(({ name, as, duckdbType }) => ({
        as,
        value: recordValue(quoteIdentifier(name), duckdbType),
      }));
      return await Outbox.fill(session, this.#outbox, { feed, pieces, columns, definition: this.definition });
    } finally {
      await input.close();
    }
  }

  get #base() {
    const { request, feed } = this.#task;
    return { destination: request.destination.name, stream: feed.stream, table: feed.stream };
  }

  /** Sends the records of an outbox, moves the watermark, then removes the outbox. */
  async #empty(outbox: Outbox, options: DestinationContext): Promise<void> {
    const { connector, request, feed, context, progress } = this.#task;
    progress.phase = 'loading';
    progress.total = outbox.mark.records;
    const before = outbox.acknowledged.count;
    const count = () => {
      progress.rows = outbox.acknowledged.count;
    };
    count();
    let destination: RecordDestination | undefined;
    try {
      if (outbox.acknowledged.count < outbox.mark.records) {
        destination = await connector.open(options);
        await sendRecords({
          destination,
          capabilities: connector.capabilities,
          outbox,
          stream: feed.stream,
          onReject: request.destination.onReject,
          clock: context.clock,
          signal: context.signal,
          progress: count,
        });
      }
      await writeRejects(this.#rejects, withTold(outbox.acknowledged.rejects, await readRejects(this.#rejects)));
    } finally {
      this.#sent += outbox.acknowledged.count - before;
      await destination?.close();
      await outbox.close();
    }
    this.#sent -= outbox.acknowledged.rejects.length;
    const { store_id, sequence, definition } = outbox.mark;
    const delivered_at = new Date(context.clock.now()).toISOString();
    await moveLocalWatermark(this.#kept, { version: 1, store_id, sequence, definition, delivered_at });
    await rm(this.#outbox, { recursive: true, force: true });
  }
}

function asWatermark({ store_id, sequence, definition, delivered_at }: LocalWatermark) {
  return { storeId: store_id, sequence, definition, deliveredAt: delivered_at };
}

/** SQL for a value in a record: timestamps as ISO 8601, everything else as DuckDB writes it, if that is JSON. */
function recordValue(value: string, duckdbType: string): string {
  if (duckdbType.startsWith('TIMESTAMP')) return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
  return jsonValueSql(value, parseColumnType(duckdbType));
}

import type { DestinationConfig } from '../../../../src/config/destination-config.js';
import { deliverTo } from '../../../../src/delivery/deliver.js';
import type { DeliveryRequest, StreamDelivery } from '../../../../src/delivery/delivery.js';
import { type PlannedStream, planDeliveries } from '../../../../src/delivery/plan-deliveries.js';
import { writeFeed } from '../../../../src/snapshot/feed.js';
import { addErasure } from '../../../../src/storage/erasures.js';
import { JumpingClock } from '../../api/clocks.js';
import { type Change, PublishedStream } from '../published-stream.js';
import { Receiver } from './receiver.js';

/** A published stream, and a receiver of its records. */
export class Delivering {
  readonly stream: PublishedStream;
  readonly receiver = new Receiver();
  columns: DestinationConfig['columns'] = new Map();

  private constructor(stream: PublishedStream) {
    this.stream = stream;
  }

  static async open(): Promise<Delivering> {
    return new Delivering(await PublishedStream.open());
  }

  #requested(own: Partial<DestinationConfig> = {}) {
    const destination: DestinationConfig = {
      ...{
        name: 'crm',
        connector: this.receiver.connector,
        streams: ['members'],
        mode: 'mirror',
        columns: this.columns,
      },
      ...{ table: '{stream}', deletes: 'hard', verify: 'rows', verifyEvery: undefined, onReject: 'continue' },
      ...{ onTypeChange: 'variant_column', options: { url: 'x' }, place: () => 'cdsync.yaml:1:1' },
      ...own,
    };
    const context = {
      layout: this.stream.layout,
      resources: { memoryMb: 128, threads: 1 },
      clock: new JumpingClock(),
      signal: new AbortController().signal,
      service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
      notice: () => undefined,
    };
    const flags = { full: false, adopt: false, recreate: false, verify: false };
    return { context, request: { destination, streams: ['members'], ...flags } };
  }

  async deliver(asked: Partial<DeliveryRequest> = {}, own: Partial<DestinationConfig> = {}): Promise<StreamDelivery> {
    await writeFeed(this.stream.layout, this.stream.feed);
    const { context, request } = this.#requested(own);
    const [delivered] = await deliverTo(context, { ...request, ...asked }, []);
    return delivered as StreamDelivery;
  }

  /** The plan of a push. */
  async planned(): Promise<PlannedStream> {
    await writeFeed(this.stream.layout, this.stream.feed);
    const { context, request } = this.#requested();
    const [found] = await planDeliveries(context, request);
    return found as PlannedStream;
  }

  async forget(id: string): Promise<void> {
    await addErasure(this.stream.layout, 'members', [id], Date.now());
    await this.stream.forget(id);
  }

  close(): Promise<void> {
    return this.stream.close();
  }
}

/** The rule of a column that is not sent. */
export const dropped = { drop: true, rename: undefined } as unknown as ReturnType<DestinationConfig['columns']['get']> &
  object;

export const insert = (id: string, n: number): Change => ({ op: 'insert', id, n });
export const update = (id: string, n: number): Change => ({ op: 'update', id, n });
export const gone = (id: string, n: number): Change => ({ op: 'delete', id, n });

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { z } from 'zod';
import exportConnector from '../../../../connectors/export/index.js';
import type { DestinationConfig } from '../../../../src/config/destination-config.js';
import { deliverTo } from '../../../../src/delivery/deliver.js';
import type { DeliveryRequest, StreamDelivery } from '../../../../src/delivery/delivery.js';
import { type PlannedStream, planDeliveries } from '../../../../src/delivery/plan-deliveries.js';
import type { FileConnector } from '../../../../src/sdk/destination.js';
import type { FilePlace, HandOver } from '../../../../src/sdk/file-destination.js';
import { map } from '../../../../src/sdk/option.js';
import { writeFeed } from '../../../../src/snapshot/feed.js';
import { addErasure } from '../../../../src/storage/erasures.js';
import { JumpingClock } from '../../api/clocks.js';
import { type Change, PublishedStream } from '../published-stream.js';

export const insert = (id: string, n: number): Change => ({ op: 'insert', id, n });
export const update = (id: string, n: number): Change => ({ op: 'update', id, n });
export const gone = (id: string, n: number): Change => ({ op: 'delete', id, n });

type Options = Readonly<Record<string, unknown>>;

/** Lets a hand-over fail: before anything, or when all is there. @param nth which of them, from 1 */
export function failing(when: 'before' | 'after', nth = 1): FileConnector {
  let calls = 0;
  const real = exportConnector as unknown as FileConnector;
  const failNow = (moment: typeof when) => {
    if (when === moment && calls === nth) throw new Error('the process is gone');
  };
  return {
    ...real,
    async open(context) {
      const opened: FilePlace = await real.open(context);
      return {
        handOver: async (task: HandOver) => {
          calls += 1;
          failNow('before');
          const handed = await opened.handOver(task);
          failNow('after');
          return handed;
        },
        remove: (name: string) => opened.remove(name),
        close: () => opened.close(),
      };
    },
  };
}

/** A published stream, and a folder that a partner takes files from. */
export class ExportStream {
  readonly stream: PublishedStream;
  readonly place: string;
  readonly clock = new JumpingClock();
  columns: DestinationConfig['columns'] = new Map();
  onReject: 'continue' | 'fail' = 'continue';
  connector: FileConnector = exportConnector as unknown as FileConnector;
  options: Options = { file: '{{ stream }}_{{ sequence | pad: 4 }}.csv' };
  /** The job's signal. */
  stop = new AbortController();

  private constructor(stream: PublishedStream, place: string) {
    this.stream = stream;
    this.place = place;
  }

  static async open(): Promise<ExportStream> {
    const stream = await PublishedStream.open();
    return new ExportStream(stream, await mkdtemp(join(tmpdir(), 'cdsync-export-')));
  }

  async close(): Promise<void> {
    await this.stream.close();
    await rm(this.place, { recursive: true, force: true });
  }

  #requested(own: Partial<DestinationConfig>, options: Options) {
    const written = { ...(options.url === undefined ? { path: this.place } : {}), ...this.options, ...options };
    const destination: DestinationConfig = {
      ...{ name: 'partner', connector: this.connector, streams: ['members'], mode: 'replace', columns: this.columns },
      ...{ table: '{stream}', deletes: 'hard', verify: 'none', verifyEvery: undefined, onReject: this.onReject },
      ...{ onTypeChange: 'fail', place: () => 'cdsync.yaml:1:1' },
      options: z.parse(map(exportConnector.options), written) as Options,
      ...own,
    };
    const context = {
      layout: this.stream.layout,
      resources: { memoryMb: 128, threads: 1 },
      clock: this.clock,
      signal: this.stop.signal,
      service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
      notice: () => undefined,
    };
    const flags = { full: false, adopt: false, recreate: false, verify: false };
    return { context, request: { destination, streams: ['members'], ...flags } };
  }

  async deliver(
    options: Options = {},
    asked: Partial<DeliveryRequest> = {},
    own: Partial<DestinationConfig> = {},
  ): Promise<StreamDelivery> {
    await writeFeed(this.stream.layout, this.stream.feed);
    const { context, request } = this.#requested(own, options);
    const [delivered] = await deliverTo(context, { ...request, ...asked }, []);
    return delivered as StreamDelivery;
  }

  async planned(options: Options = {}, asked: Partial<DeliveryRequest> = {}): Promise<PlannedStream> {
    await writeFeed(this.stream.layout, this.stream.feed);
    const { context, request } = this.#requested({}, options);
    const [found] = await planDeliveries(context, { ...request, ...asked });
    return found as PlannedStream;
  }

  async forget(id: string): Promise<void> {
    await addErasure(this.stream.layout, 'members', [id], Date.now());
    await this.stream.forget(id);
  }

  /** The files of the place, and their text. */
  async files(): Promise<Record<string, string>> {
    const entries = await readdir(this.place, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const texts = await Promise.all(
      paths.sort().map(async (path) => [relative(this.place, path), await readFile(path, 'utf8')] as const),
    );
    return Object.fromEntries(texts);
  }
}

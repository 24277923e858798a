import { afterEach, beforeEach, expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import { systemClock } from '../../../src/core/clock.js';
import { deliverTo } from '../../../src/delivery/deliver.js';
import type { Connector, DestinationContext } from '../../../src/sdk/destination.js';
import { duckdbRefused } from '../../../src/sdk/duckdb/errors.js';
import { writeFeed } from '../../../src/snapshot/feed.js';
import { sharesOf } from '../../../src/storage/memory-shares.js';
import { PublishedStream } from './published-stream.js';

let stream: PublishedStream;
beforeEach(async () => {
  stream = await PublishedStream.open();
});
afterEach(() => stream.close());

/** Delivers beside three other destinations. @returns the outcome, the memory of each attempt in MB, and the notices */
async function deliver(neededMb: number, options: { memory_mb?: number } = {}) {
  await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
  await writeFeed(stream.layout, stream.feed);
  const memory: number[] = [];
  const notices: string[] = [];
  const connector = {
    ...duckdb,
    open: async (context: DestinationContext<never>) => {
      const destination = await duckdb.open(context as never);
      const { memoryMb = 0 } = context;
      const load: typeof destination.load = async (own) => {
        memory.push(memoryMb);
        if (memoryMb < neededMb) throw duckdbRefused('', new Error('Out of Memory Error: failed to pin block'));
        await destination.constructor.prototype.load.call(destination, own);
      };
      return Object.assign(destination, { load });
    },
  } as unknown as Connector;
  const destination = {
    ...{ name: 'warehouse', connector, streams: ['members'], mode: 'mirror', columns: new Map(), table: '{stream}' },
    ...{ deletes: 'hard', verify: 'rows', verifyEvery: undefined, onReject: 'continue', place: () => '' },
    ...{
      onTypeChange: 'variant_column',
      options: { path: `${stream.folder}/warehouse.duckdb`, schema: 'cdp', ...options },
    },
  } as unknown as Parameters<typeof deliverTo>[1]['destination'];
  const resources = { memoryMb: 1500, threads: 1 };
  const context = {
    layout: stream.layout,
    resources,
    shares: { memory: sharesOf(resources), destinations: 4 },
    clock: systemClock,
    signal: new AbortController().signal,
    service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
    notice: (line: string) => void notices.push(line),
  };
  const flags = { full: false, adopt: false, recreate: false, verify: false };
  const [delivered] = await deliverTo(context, { destination, streams: ['members'], ...flags }, []);
  return { status: delivered?.status, rows: delivered?.rows, memory, notices };
}

it('a stream for which its share of memory does not suffice is delivered with all of it', async () => {
  const { memory, notices, ...outcome } = await deliver(400);
  expect(outcome).toEqual({ status: 'ok', rows: 1 });
  expect(memory).toEqual([expect.any(Number), expect.any(Number)]);
  expect(memory[1]).toBeGreaterThan(3 * (memory[0] as number));
  expect(notices).toEqual(['destination warehouse: members begins again with more memory']);
});

it('a stream for which all memory does not suffice fails', async () => {
  const { memory, notices: _, ...outcome } = await deliver(4000);
  expect(outcome).toEqual({ status: 'failed', rows: 0 });
  expect(memory).toHaveLength(2);
});

it('a stream whose destination has a fixed memory, that does not suffice, fails at once', async () => {
  const { memory, notices, ...outcome } = await deliver(4000, { memory_mb: 200 });
  expect(outcome).toEqual({ status: 'failed', rows: 0 });
  expect([memory.length, notices]).toEqual([1, []]);
});

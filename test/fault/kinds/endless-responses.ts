import type { Fault, FaultKind } from '../fault.js';
import { memoryMb } from '../lane.js';
import { measured } from '../measured.js';
import { type Situation, situations } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';
import { hits } from './service-faults.js';

/**
 * The most that a run may take: itself, DuckDB, and bodies, which have twice a quarter of `memory_mb` at the very most. The
 * bodies below would take four times as much together.
 */
const maxMb = 300 + memoryMb * 1.5;
const giant = 200_000_000;
/** A body that fits alone, but not beside three others. */
const large = 50_000_000;

const extents: readonly Readonly<Record<string, unknown>>[] = [
  { count: 1 },
  { after: 3, count: 4 },
  { match: '/indexes/', count: 8 },
  { match: '/segments/' },
  { match: '/lookup/', count: 3 },
  { share: 0.3, count: 6 },
];

function bodiesOf(situation: Situation, bytes: number, extent: object, isPacked: boolean): Fault {
  return {
    name: `${situation}: ${bytes / 1e6} MB${isPacked ? ', compressed' : ''} ${JSON.stringify(extent)}`,
    situation,
    strike: async (lane) => {
      await lane.control('faults', { kind: 'large_body', bytes, ...extent });
      if (isPacked) await lane.control('faults', { kind: 'gzip' });
      const { peakMb, ...end } = await measured(lane);
      expectEnding(end);
      if (peakMb > maxMb) throw new Broken(`the run took ${Math.round(peakMb)} MB, of ${maxMb} that it may take`);
      return (await hits(lane)) > 0;
    },
  };
}

/** Responses that fit into no memory, or not side by side: fewer at once, then an error, and never more memory. */
export const giantBodies: FaultKind = {
  name: 'giant bodies',
  lacks: async () => (process.platform === 'linux' ? undefined : '/proc'),
  faults: () =>
    (['daily', 'first', 'reading'] as const).flatMap((situation) =>
      extents.flatMap((extent) =>
        [giant, large].flatMap((bytes) => [false, true].map((packed) => bodiesOf(situation, bytes, extent, packed))),
      ),
    ),
  most: 40,
};

function dripping(situation: Situation, extent: object): Fault {
  return {
    name: `${situation}: ${JSON.stringify(extent)}`,
    situation,
    strike: async (lane) => {
      await lane.control('faults', { kind: 'slow_body', delay_ms: 150, chunks: 1000, ...extent });
      expectEnding(await lane.run());
      return (await hits(lane)) > 0;
    },
  };
}

/** Responses that would take minutes because their bytes keep dripping end at their total deadline. */
export const drippingResponses: FaultKind = {
  name: 'responses that drip',
  faults: () => situations.flatMap((situation) => extents.map((extent) => dripping(situation, extent))),
  most: 20,
};

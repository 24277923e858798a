import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';
import { expectEnding } from '../try-fault.js';

type ServiceFault = Readonly<Record<string, unknown>> & { readonly kind: string };

/** Faults of a service that fails, throttles or returns wrong data: in a few responses, in some, or in all. */
const doings: readonly ServiceFault[] = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 503, retry_after: 1 },
  { kind: 'status', status: 401 },
  { kind: 'status', status: 404 },
  { kind: 'throttle', retry_after: null },
  { kind: 'missing_permission' },
  { kind: 'reset' },
  { kind: 'torn' },
  { kind: 'hang' },
  { kind: 'slow', delay_ms: 300 },
  { kind: 'slow_body', delay_ms: 20 },
  { kind: 'not_json' },
  { kind: 'half_json' },
  { kind: 'half_json', keep: 0.99 },
  { kind: 'gzip' },
  { kind: 'dead_token' },
  { kind: 'dead_token', issued_before_now: true },
  { kind: 'repeat_token' },
  { kind: 'loop' },
  { kind: 'loop', fresh: true },
  { kind: 'ignored_token' },
  { kind: 'duplicate' },
  { kind: 'empty_pages', pages: 2 },
  { kind: 'empty_pages', pages: 1_000_000_000 },
  { kind: 'small_pages', size: 7 },
  { kind: 'ignore_filter' },
  { kind: 'attributes_array' },
  { kind: 'garbage_record' },
  { kind: 'garbage_record', record: '{"id": null}', at: 3 },
  { kind: 'garbage_record', record: '{}', at: 1 },
  { kind: 'wrong_total' },
  { kind: 'wrong_total', total: 0 },
  { kind: 'wrong_total', total: 1_000_000 },
  { kind: 'empty' },
  { kind: 'end_form', form: 'empty' },
  { kind: 'end_form', form: 'null' },
];

const extents: readonly Readonly<Record<string, unknown>>[] = [
  { count: 1 },
  { after: 3, count: 1 },
  { after: 5, count: 4 },
  { after: 9 },
  { share: 0.2 },
  { match: '/indexes/' },
  { match: '/segments/' },
  { match: '/audit-events' },
  { match: '/lookup/' },
  { match: 'filter' },
  {},
];

/** How many requests the faults of a lane's service have hit. */
export async function hits(lane: Lane): Promise<number> {
  const response = await (await lane.askControl('faults')).text();
  return [...response.matchAll(/"hits":\s*(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
}

function misbehaving(situation: Situation, fault: ServiceFault): Fault {
  return {
    name: `${situation}: ${JSON.stringify(fault)}`,
    situation,
    // An empty response looks like the end of a list: the next run fetches the records after it.
    ...(fault.kind === 'empty' ? { moves: true } : {}),
    strike: async (lane) => {
      await lane.control('faults', fault);
      expectEnding(await lane.run());
      return (await hits(lane)) > 0;
    },
  };
}

/** The service throttles, breaks off, returns nonsense, or lies about its data. */
export const serviceFaults: FaultKind = {
  name: 'a service that misbehaves',
  faults: () =>
    doings.flatMap((doing) =>
      extents.flatMap((extent) =>
        (['daily', 'reading'] as const).map((situation) => misbehaving(situation, { ...doing, ...extent })),
      ),
    ),
  most: 150,
};

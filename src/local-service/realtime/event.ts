import type { Attributes } from '../data/segments.js';

/** The parts of an event that the local service understands. The shape is our own: see docs/local-service.md. */
export interface RealtimeEvent {
  readonly id: string | undefined;
  readonly profileId: string | undefined;
  readonly keys: readonly (readonly [name: string, value: string])[];
  readonly attributes: Attributes;
  /** Amounts to add to counting attributes. */
  readonly counts: Readonly<Record<string, number>>;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string' && value !== '') return value;
  return typeof value === 'number' ? String(value) : undefined;
}

function keysOf(keys: unknown): (readonly [string, string])[] {
  if (!isRecord(keys)) return [];
  return Object.entries(keys).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).flatMap((value) => {
      const text = textOf(value);
      return text === undefined ? [] : [[name, text] as const];
    }),
  );
}

/** Sums of larger amounts could exceed what JSON can express. */
const maxAmount = 1e12;

function amountOf(value: unknown): number {
  return typeof value === 'number' && Math.abs(value) <= maxAmount ? value : 0;
}

function timeOf(payload: Attributes, nowMs: number): string {
  const at = typeof payload.occurred_at === 'string' ? Date.parse(payload.occurred_at) : Number.NaN;
  return new Date(Number.isNaN(at) ? nowMs : at).toISOString();
}

/** Reads an event. It ignores unknown members, because the published interface prescribes no shape. */
export function readEvent(payload: Attributes, nowMs: number): RealtimeEvent {
  const attributes = isRecord(payload.attributes) ? payload.attributes : {};
  const event = { id: textOf(payload.event_id), profileId: textOf(payload.profile_id), keys: keysOf(payload.keys) };
  switch (payload.event_type) {
    case 'purchase': {
      const counts = { purchases: 1, total_spent: amountOf(payload.amount ?? attributes.amount) };
      return { ...event, attributes: { ...attributes, last_purchase_at: timeOf(payload, nowMs) }, counts };
    }
    case 'page_view':
      return { ...event, attributes, counts: { page_views: 1 } };
    case 'loyalty':
      // `points` in the attributes would be the new balance, not an amount to add.
      return { ...event, attributes, counts: { points: amountOf(payload.points) } };
    default:
      return { ...event, attributes, counts: {} };
  }
}

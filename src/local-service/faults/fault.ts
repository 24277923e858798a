import { z } from 'zod';
import { aim, count, share } from './aim.js';
import { deviations } from './deviations.js';

const delayMs = z.int().min(0).max(3_600_000);
const headers = z.record(z.string(), z.string());

/** Every fault with its parameters. */
export const faultSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('status'),
    ...aim,
    status: z.int().min(200).max(599),
    retry_after: z.union([z.number(), z.string()]).optional(),
    message: z.string().optional(),
    /** Sent unchanged instead of an error body. */
    body: z.string().optional(),
    headers: headers.optional(),
  }),
  z.strictObject({
    kind: z.literal('throttle'),
    ...aim,
    retry_after: z.union([z.number(), z.string()]).nullable().default(1),
  }),
  z.strictObject({ kind: z.literal('missing_permission'), ...aim }),
  z.strictObject({ kind: z.literal('reset'), ...aim }),
  /** The request is carried out, and the connection breaks before the answer. */
  z.strictObject({ kind: z.literal('lost_answer'), ...aim }),
  z.strictObject({ kind: z.literal('hang'), ...aim }),
  z.strictObject({ kind: z.literal('slow'), ...aim, delay_ms: delayMs.default(1000) }),
  z.strictObject({
    kind: z.literal('slow_body'),
    ...aim,
    delay_ms: delayMs.default(100),
    chunks: z.int().min(2).max(1000).default(10),
  }),
  z.strictObject({ kind: z.literal('torn'), ...aim, keep: share.default(0.5) }),
  z.strictObject({ kind: z.literal('not_json'), ...aim }),
  z.strictObject({ kind: z.literal('half_json'), ...aim, keep: share.default(0.5) }),
  z.strictObject({ kind: z.literal('gzip'), ...aim }),
  z.strictObject({
    kind: z.literal('large_body'),
    ...aim,
    /** How many blanks follow the document. */
    bytes: z.int().min(1).max(1_000_000_000).default(100_000_000),
  }),
  z.strictObject({
    kind: z.literal('deprecation'),
    ...aim,
    deprecation: z.string().default('Wed, 30 Sep 2026 23:59:59 GMT'),
    sunset: z.string().default('Thu, 31 Dec 2026 23:59:59 GMT'),
  }),
  z.strictObject({
    kind: z.literal('dead_token'),
    ...aim,
    token: z.string().optional(),
    issued_before_now: z.boolean().default(false),
  }),
  z.strictObject({ kind: z.literal('repeat_token'), ...aim }),
  z.strictObject({ kind: z.literal('loop'), ...aim, fresh: z.boolean().default(false) }),
  z.strictObject({ kind: z.literal('ignored_token'), ...aim }),
  z.strictObject({ kind: z.literal('duplicate'), ...aim }),
  z.strictObject({ kind: z.literal('empty_pages'), ...aim, pages: z.int().min(1).max(1_000_000_000).default(1) }),
  z.strictObject({ kind: z.literal('small_pages'), ...aim, size: count.optional() }),
  z.strictObject({ kind: z.literal('ignore_filter'), ...aim }),
  z.strictObject({ kind: z.literal('attributes_array'), ...aim }),
  z.strictObject({
    kind: z.literal('garbage_record'),
    ...aim,
    record: z.string().default('42'),
    at: z.int().min(0).default(0),
  }),
  z.strictObject({ kind: z.literal('wrong_total'), ...aim, delta: z.int().default(10), total: z.int().optional() }),
  z.strictObject({ kind: z.literal('empty'), ...aim }),
  z.strictObject({ kind: z.literal('end_form'), ...aim, form: z.enum(['absent', 'empty', 'null']) }),
  ...deviations,
]);

export type Fault = z.output<typeof faultSchema>;
/** A fault as it is written, before defaults. */
export type GivenFault = z.input<typeof faultSchema>;
export type FaultKind = Fault['kind'];
export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>;

/** A fault from its kind alone, or from JSON; otherwise what is wrong with it. */
export function parseFault(text: string): { readonly fault?: Fault; readonly problem?: string } {
  let given: unknown = { kind: text };
  try {
    if (text.startsWith('{')) given = JSON.parse(text);
  } catch {
    return { problem: 'this is not JSON' };
  }
  const { data, error } = faultSchema.safeParse(given);
  return data === undefined ? { problem: z.prettifyError(error) } : { fault: data };
}

/** The first fault of a kind. */
export function faultOf<K extends FaultKind>(faults: readonly Fault[], kind: K): FaultOf<K> | undefined {
  return faults.find((fault): fault is FaultOf<K> => fault.kind === kind);
}

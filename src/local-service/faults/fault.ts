import { z } from 'zod';

const share = z.number().min(0).max(1);
const count = z.int().min(1);
const delayMs = z.int().min(0).max(3_600_000);

/** Which requests a fault hits; docs/local-service.md explains the faults. */
const aim = {
  /** Part of `METHOD path?query`, or a regular expression between slashes. Default: every request. */
  match: z.string().optional(),
  /** How many matching requests it lets pass first. */
  after: z.int().min(0).default(0),
  /** How many requests it hits in all. Default: no limit. */
  count: count.optional(),
  /** The share of matching requests that it hits; the seed decides which ones. */
  share: share.optional(),
};

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
    kind: z.literal('deprecation'),
    ...aim,
    deprecation: z.string().default('@1767225600'),
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
]);

export type Fault = z.output<typeof faultSchema>;
export type FaultKind = Fault['kind'];
export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>;

/** The first fault of a kind. */
export function faultOf<K extends FaultKind>(faults: readonly Fault[], kind: K): FaultOf<K> | undefined {
  return faults.find((fault): fault is FaultOf<K> => fault.kind === kind);
}

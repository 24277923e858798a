import { z } from 'zod';

const share = z.number().min(0).max(1);
const count = z.int().min(1);

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

/**
 * Ways in which real deployments differ from the specification; docs/local-service.md explains them. Each changes an operation,
 * which reads it from its call.
 */
const deviations = [
  z.strictObject({
    kind: z.literal('ingest_tokens'),
    ...aim,
    /** What happens to a request that sends a page token, or a limit. */
    when_sent: z.enum(['ignored', 'refused', 'fresh']).default('fresh'),
    /** The most jobs in a response; it leaves out the others. Default: no limit. */
    most: count.optional(),
  }),
  z.strictObject({ kind: z.literal('ingest_skipped'), ...aim, state: z.string().default('Skipped') }),
  z.strictObject({
    kind: z.literal('ingest_forgets'),
    ...aim,
    days: count.default(7),
    /** The response to a window that begins before those days. */
    older: z.enum(['nothing', 'refused']).default('nothing'),
  }),
  z.strictObject({
    kind: z.literal('members_whole'),
    ...aim,
    /** The most members in its only response; it leaves out the others. Default: no limit. */
    most: count.optional(),
    /** Whether the response has a total. */
    total: z.boolean().default(true),
  }),
  z.strictObject({
    kind: z.literal('members_paged'),
    ...aim,
    /** Whether a page has a total. */
    total: z.boolean().default(true),
  }),
  z.strictObject({ kind: z.literal('no_error_ids'), ...aim }),
  /** One spelling of a path redirects to the other. */
  z.strictObject({
    kind: z.literal('slash_redirect'),
    ...aim,
    to: z.enum(['plain', 'slash']).default('plain'),
    status: z.union([z.literal(301), z.literal(307), z.literal(308)]).default(308),
  }),
  z.strictObject({ kind: z.literal('either_tenant_header'), ...aim }),
  /** How a version is refused that is not supported, or no longer supported. */
  z.strictObject({
    kind: z.literal('version_refusal'),
    ...aim,
    /** Refuses this version too. */
    version: z.string().optional(),
    status: z.union([z.literal(400), z.literal(401)]).default(401),
    message: z.string().default('Authentication Required'),
  }),
  z.strictObject({
    kind: z.literal('drafts_version'),
    ...aim,
    /** The kind of version under which campaign drafts are there. */
    under: z.enum(['unstable', 'dated', 'both', 'none']).default('unstable'),
    /** The response under any other version. */
    status: z.union([z.literal(400), z.literal(401), z.literal(404), z.literal(405)]).default(404),
    message: z.string().default('there is no such path'),
  }),
  /** GET /workflow/runs/{id} refuses the verbose view. */
  z.strictObject({
    kind: z.literal('workflow_overview'),
    ...aim,
    status: z.union([z.literal(400), z.literal(404)]).default(400),
  }),
  /** The list of runs shows errors and principals too. */
  z.strictObject({ kind: z.literal('workflow_details'), ...aim }),
  /** The tasks of a run have `task_instance_id` instead of `id`. */
  z.strictObject({ kind: z.literal('workflow_task_ids'), ...aim }),
  /** Stopping a run cancels it at once; whether a run that was stopped may be stopped again. */
  z.strictObject({
    kind: z.literal('workflow_stops'),
    ...aim,
    state: z.enum(['stopping', 'canceled']).default('canceled'),
    again: z.enum(['refused', 'allowed']).default('refused'),
  }),
  /** Events lack the fields that may be missing: the principal's address, session and user agent. */
  z.strictObject({ kind: z.literal('audit_sparse'), ...aim }),
  /** The text of a 404 repeats the keys of the lookup. */
  z.strictObject({ kind: z.literal('lookup_echo'), ...aim }),
  /** A lookup takes exactly one key; more get 400. */
  z.strictObject({ kind: z.literal('lookup_one_key'), ...aim }),
  /** What real-time profiles of other deployments look like. */
  z.strictObject({
    kind: z.literal('realtime_shape'),
    ...aim,
    links: z.enum(['map', 'list', 'absent']).default('list'),
    ticked_at: z.boolean().default(false),
    /** Digits of a second in times. */
    digits: z.union([z.literal(3), z.literal(9)]).default(9),
  }),
  /** POST /workflow/runs is known under one spelling of its path. */
  z.strictObject({
    kind: z.literal('workflow_router'),
    ...aim,
    path: z.enum(['slash', 'plain']).default('plain'),
    status: z.union([z.literal(404), z.literal(405)]).default(404),
  }),
] as const;

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
  /** The request is carried out, and the connection breaks before the response. */
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
export type FaultInput = z.input<typeof faultSchema>;
export type FaultKind = Fault['kind'];
export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>;

/** Reads a fault from its kind alone, or from JSON; otherwise returns the problem. */
export function parseFault(text: string): { readonly fault?: Fault; readonly problem?: string } {
  let input: unknown = { kind: text };
  try {
    if (text.startsWith('{')) input = JSON.parse(text);
  } catch {
    return { problem: 'this is not JSON' };
  }
  const { data, error } = faultSchema.safeParse(input);
  return data === undefined ? { problem: z.prettifyError(error) } : { fault: data };
}

/** The first fault of a kind. */
export function faultOf<K extends FaultKind>(faults: readonly Fault[], kind: K): FaultOf<K> | undefined {
  return faults.find((fault): fault is FaultOf<K> => fault.kind === kind);
}

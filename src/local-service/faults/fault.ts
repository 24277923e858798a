import { z } from '../../core/zod.js';

const share = z.number().min(0).max(1);
const count = z.int().min(1);
const errorStatus = z.int().min(400).max(599);

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

/** The schema of a fault: where it aims, and its own parameters. */
function fault<const K extends string, S extends z.core.$ZodLooseShape = Record<never, never>>(
  kind: K,
  parameters?: S,
) {
  return z.strictObject({ kind: z.literal(kind), ...aim, ...(parameters as S) });
}

/**
 * Ways in which real deployments differ from the specification; docs/local-service.md explains them. Each changes an operation,
 * which reads it from its call.
 */
const deviations = [
  fault('ingest_tokens', {
    /** What happens to a request that sends a page token, or a limit. */
    when_sent: z.enum(['ignored', 'refused', 'fresh']).default('fresh'),
    /** The most jobs in a response; it leaves out the others. Default: no limit. */
    most: count.optional(),
  }),
  fault('ingest_skipped', { state: z.string().default('Skipped') }),
  fault('ingest_forgets', {
    days: count.default(7),
    /** The response to a window that begins before those days. */
    older: z.enum(['nothing', 'refused']).default('nothing'),
  }),
  fault('members_whole', {
    /** The most members in its only response; it leaves out the others. Default: no limit. */
    most: count.optional(),
    /** Whether the response has a total. */
    total: z.boolean().default(true),
  }),
  fault('members_paged', {
    /** Whether a page has a total. */
    total: z.boolean().default(true),
  }),
  fault('no_error_ids'),
  /** One spelling of a path redirects to the other. */
  fault('slash_redirect', {
    to: z.enum(['plain', 'slash']).default('plain'),
    status: z.union([z.literal(301), z.literal(307), z.literal(308)]).default(308),
  }),
  fault('either_tenant_header'),
  /** How a version is refused that is not supported, or no longer supported. */
  fault('version_refusal', {
    /** Refuses this version too. */
    version: z.string().optional(),
    status: z.union([z.literal(400), z.literal(401)]).default(401),
    message: z.string().default('Authentication Required'),
  }),
  fault('drafts_version', {
    /** The kind of version under which campaign drafts are there. */
    under: z.enum(['unstable', 'dated', 'both', 'none']).default('unstable'),
    /** The response under any other version. */
    status: z.union([z.literal(400), z.literal(401), z.literal(404), z.literal(405)]).default(404),
    message: z.string().default('there is no such path'),
  }),
  /** GET /workflow/runs/{id} refuses the verbose view. */
  fault('workflow_overview', { status: z.union([z.literal(400), z.literal(404)]).default(400) }),
  /** The list of runs shows errors and principals too. */
  fault('workflow_details'),
  /** The tasks of a run have `task_instance_id` instead of `id`. */
  fault('workflow_task_ids'),
  /** Stopping a run cancels it at once; whether a run that was stopped may be stopped again. */
  fault('workflow_stops', {
    state: z.enum(['stopping', 'canceled']).default('canceled'),
    again: z.enum(['refused', 'allowed']).default('refused'),
  }),
  /** Events lack the fields that may be missing: the principal's address, session and user agent. */
  fault('audit_sparse'),
  /** The text of a 404 repeats the keys of the lookup. */
  fault('lookup_echo'),
  /** A lookup takes exactly one key; more get 400. */
  fault('lookup_one_key'),
  /** What real-time profiles of other deployments look like. */
  fault('realtime_shape', {
    links: z.enum(['map', 'list', 'absent']).default('list'),
    ticked_at: z.boolean().default(false),
    /** Digits of a second in times. */
    digits: z.union([z.literal(3), z.literal(9)]).default(9),
    /** The last six of nine digits: zeros, or different ones. */
    nanoseconds: z.enum(['zeros', 'varied']).default('zeros'),
  }),
  /** Another success than 200. */
  fault('success', {
    status: z.int().min(200).max(299).default(202),
    /** Sent instead of the body. */
    body: z.string().optional(),
  }),
  /** A list has no `data`. */
  fault('no_data', { form: z.enum(['absent', 'null']).default('absent') }),
  /** Lists have no total; with a status, a request for one is refused. */
  fault('no_total', { status: errorStatus.optional() }),
  /** A path with this id is refused. */
  fault('bad_id', { refused: z.string().min(1), status: errorStatus.default(400) }),
  /** The form of error bodies. */
  fault('error_body', { form: z.enum(['nested', 'problem', 'errors', 'text', 'html', 'empty']).default('nested') }),
  /** A start of a workflow may have no null, and no time without a zone. */
  fault('workflow_strict'),
  /** Bodies of requests may be compressed. */
  fault('gzip_requests'),
  /** POST /workflow/runs is known under one spelling of its path. */
  fault('workflow_router', {
    path: z.enum(['slash', 'plain']).default('plain'),
    status: z.union([z.literal(404), z.literal(405)]).default(404),
  }),
] as const;

const delayMs = z.int().min(0).max(3_600_000);
const headers = z.record(z.string(), z.string());

/** Every fault with its parameters. */
export const faultSchema = z.discriminatedUnion('kind', [
  fault('status', {
    status: z.int().min(200).max(599),
    retry_after: z.union([z.number(), z.string()]).optional(),
    message: z.string().optional(),
    /** Sent unchanged instead of an error body. */
    body: z.string().optional(),
    headers: headers.optional(),
  }),
  fault('throttle', { retry_after: z.union([z.number(), z.string()]).nullable().default(1) }),
  fault('missing_permission'),
  fault('reset'),
  /** The request is carried out, and the connection breaks before the response. */
  fault('lost_answer'),
  fault('hang'),
  fault('slow', { delay_ms: delayMs.default(1000) }),
  fault('slow_body', { delay_ms: delayMs.default(100), chunks: z.int().min(2).max(1000).default(10) }),
  fault('torn', { keep: share.default(0.5) }),
  fault('not_json'),
  fault('half_json', { keep: share.default(0.5) }),
  fault('gzip'),
  fault('large_body', {
    /** How many blanks follow the document. */
    bytes: z.int().min(1).max(1_000_000_000).default(100_000_000),
  }),
  fault('deprecation', {
    deprecation: z.string().default('Wed, 30 Sep 2026 23:59:59 GMT'),
    sunset: z.string().default('Thu, 31 Dec 2026 23:59:59 GMT'),
  }),
  fault('dead_token', { token: z.string().optional(), issued_before_now: z.boolean().default(false) }),
  fault('repeat_token'),
  fault('loop', { fresh: z.boolean().default(false) }),
  fault('ignored_token'),
  fault('duplicate'),
  fault('empty_pages', { pages: z.int().min(1).max(1_000_000_000).default(1) }),
  fault('small_pages', { size: count.optional() }),
  fault('ignore_filter'),
  fault('attributes_array'),
  fault('garbage_record', { record: z.string().default('42'), at: z.int().min(0).default(0) }),
  fault('wrong_total', { delta: z.int().default(10), total: z.int().optional() }),
  fault('empty'),
  fault('end_form', { form: z.enum(['absent', 'empty', 'null']) }),
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

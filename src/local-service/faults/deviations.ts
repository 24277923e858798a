import { z } from 'zod';
import { aim, count } from './aim.js';

/**
 * Ways in which real deployments differ from the specification; docs/local-service.md explains them. Each changes an operation,
 * which reads it from its call.
 */
export const deviations = [
  z.strictObject({
    kind: z.literal('ingest_tokens'),
    ...aim,
    /** What happens to a request that sends a page token, or a limit. */
    when_sent: z.enum(['ignored', 'refused', 'fresh']).default('fresh'),
    /** The most jobs of an answer; it leaves out the others. Default: no limit. */
    most: count.optional(),
  }),
  z.strictObject({ kind: z.literal('ingest_skipped'), ...aim, state: z.string().default('Skipped') }),
  z.strictObject({
    kind: z.literal('ingest_forgets'),
    ...aim,
    days: count.default(7),
    /** What it answers to a window that begins before those days. */
    older: z.enum(['nothing', 'refused']).default('nothing'),
  }),
  z.strictObject({
    kind: z.literal('members_whole'),
    ...aim,
    /** The most members of its one answer; it leaves out the others. Default: no limit. */
    most: count.optional(),
    /** Whether the answer has a total. */
    total: z.boolean().default(true),
  }),
  z.strictObject({
    kind: z.literal('members_paged'),
    ...aim,
    /** Whether a page has a total. */
    total: z.boolean().default(true),
  }),
  z.strictObject({ kind: z.literal('no_error_ids'), ...aim }),
  /** The path is known under one spelling, and the other one leads to it. */
  z.strictObject({
    kind: z.literal('slash_redirect'),
    ...aim,
    to: z.enum(['plain', 'slash']).default('plain'),
    status: z.union([z.literal(301), z.literal(307), z.literal(308)]).default(308),
  }),
  z.strictObject({ kind: z.literal('either_tenant_header'), ...aim }),
  /** How a version is refused that is not, or no longer, supported. */
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
    /** The answer under any other version. */
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

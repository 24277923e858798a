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
  z.strictObject({ kind: z.literal('ingest_forgets'), ...aim, days: count.default(7) }),
  z.strictObject({
    kind: z.literal('members_whole'),
    ...aim,
    /** The most members of its one answer; it leaves out the others. Default: no limit. */
    most: count.optional(),
    /** Whether the answer has a total. */
    total: z.boolean().default(true),
  }),
  z.strictObject({ kind: z.literal('no_error_ids'), ...aim }),
  z.strictObject({
    kind: z.literal('drafts_version'),
    ...aim,
    /** The only kind of version under which campaign drafts are there; any other gets 404. */
    only: z.enum(['unstable', 'dated']).default('unstable'),
  }),
  /** GET /workflow/runs/{id} refuses the verbose view. */
  z.strictObject({
    kind: z.literal('workflow_overview'),
    ...aim,
    status: z.union([z.literal(400), z.literal(404)]).default(400),
  }),
  /** POST /workflow/runs is known under one spelling of its path. */
  z.strictObject({
    kind: z.literal('workflow_router'),
    ...aim,
    path: z.enum(['slash', 'plain']).default('plain'),
    status: z.union([z.literal(404), z.literal(405)]).default(404),
  }),
] as const;

import { z } from 'zod';

export const share = z.number().min(0).max(1);
export const count = z.int().min(1);

/** Which requests a fault hits; docs/local-service.md explains the faults. */
export const aim = {
  /** Part of `METHOD path?query`, or a regular expression between slashes. Default: every request. */
  match: z.string().optional(),
  /** How many matching requests it lets pass first. */
  after: z.int().min(0).default(0),
  /** How many requests it hits in all. Default: no limit. */
  count: count.optional(),
  /** The share of matching requests that it hits; the seed decides which ones. */
  share: share.optional(),
};

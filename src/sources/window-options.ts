import { momentForm, parseMoment } from '../core/quantities.js';
import { z } from '../core/zod.js';
import { type OptionInfo, option, whole } from '../sdk/option.js';
import type { ReadOptions } from './declaration.js';

/** How far back the first run reads if the stream has no `since`. */
const defaultReachDays = 30;

/** A date or a time: ISO 8601, UTC unless it has an offset, as milliseconds since 1970; not in the future. */
function moment(info: OptionInfo) {
  const schema = z
    .string()
    .regex(momentForm)
    .refine((written) => !Number.isNaN(parseMoment(written)), 'must be a date or a time that the calendar has')
    .transform(parseMoment);
  return option(schema, {
    allowed: 'a date or a time of the past, such as 2026-01-31 or 2026-01-31T12:00:00Z',
    verbatim: true,
    check: (written) =>
      parseMoment(String(written)) > Date.now() ? [{ path: [], message: 'this time is in the future' }] : [],
    ...info,
  });
}

/**
 * Options of the lists that are read in windows of time. None of them is part of a stream's definition.
 * @param reachDays how far back the first run reads by default
 */
export const windowOptions = (reachDays = defaultReachDays) => ({
  since: moment({
    description: `The first run reads from here on. Default: from ${reachDays} days before it. If you set an earlier time later, the next run fills the gap.`,
    example: '2026-01-01',
  }).optional(),
  lag_ms: whole(0, 604_800_000, {
    description:
      'How far each run reads back into the time that earlier runs have read. It finds records that the service lists late.',
    unit: 'ms',
    example: 600_000,
  }).prefault(600_000),
});

/** Names of {@link windowOptions}. */
export const windowOptionNames = ['since', 'lag_ms'] as const;

/** How {@link windowOptions} want a list read; both get the same `reachDays`. */
export const windowReadOptions =
  (reachDays = defaultReachDays) =>
  ({ since, lagMs }: { since?: number | undefined; lagMs: number }): Partial<ReadOptions> => ({
    windows: { since, lagMs, reachMs: reachDays * 86_400_000 },
  });

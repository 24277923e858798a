/** The states of jobs, tables and runs that have ended, as {@link plainState} writes them. */
const ended = new Set(['succeeded', 'failed', 'stopped', 'canceled', 'skipped']);

/** A state in one spelling: `IN_PROGRESS` is `in progress`, `Cancelled` is `canceled`. */
export function plainState(state: string): string {
  return state
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, ' ')
    .replace(/^cancelled$/, 'canceled');
}

/**
 * Whether a job, a table or a run may still change. In an unknown state it may, until `ended_at` has a time.
 */
export function isUnfinishedRun({ state, ended_at: endedAt }: { state?: unknown; ended_at?: unknown }): boolean {
  return !endedAt && (typeof state !== 'string' || !ended.has(plainState(state)));
}

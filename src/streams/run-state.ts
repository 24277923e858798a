/** The states of jobs, of their tables and of runs that have ended, in lower case. */
const ended = new Set(['succeeded', 'failed', 'stopped', 'canceled', 'cancelled', 'skipped']);

/** Whether a job or a run in this state may still change; in an unknown state it may. */
export function mayChange(state: unknown): boolean {
  return typeof state !== 'string' || !ended.has(state.toLowerCase());
}

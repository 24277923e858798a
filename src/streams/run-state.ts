/** The states of jobs and runs that have ended. */
const ended = new Set(['succeeded', 'failed', 'stopped', 'canceled', 'cancelled']);

/** Whether a job or a run in this state may still change; in an unknown state it may. */
export function mayChange(state: unknown): boolean {
  return typeof state !== 'string' || !ended.has(state);
}

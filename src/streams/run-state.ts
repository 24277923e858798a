/** States in which the service's jobs and runs have come to their end. */
const ended = new Set(['succeeded', 'failed', 'stopped', 'canceled', 'cancelled']);

/** Whether something in this state may still change; a state that is not known may. */
export function mayChange(state: unknown): boolean {
  return typeof state !== 'string' || !ended.has(state);
}

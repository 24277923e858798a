/** A phase, and when it began: milliseconds since the Unix epoch. */
export interface PhaseTime {
  readonly phase: string;
  readonly at: number;
}

/**
 * Notes when the phase of something changes, from now on. A progress is only polled otherwise: who wants times has to
 * be there when they pass.
 */
export function notePhases(of: { phase: string }, now: () => number): readonly PhaseTime[] {
  let phase = of.phase;
  const times: PhaseTime[] = [{ phase, at: now() }];
  Object.defineProperty(of, 'phase', {
    enumerable: true,
    configurable: true,
    get: () => phase,
    set: (next: string) => {
      if (next !== phase) times.push({ phase: next, at: now() });
      phase = next;
    },
  });
  return times;
}

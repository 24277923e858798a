import { join } from 'node:path';

/** What happens to a run, and at which step. */
export interface Strike {
  /** The name of a recorded step. */
  readonly at: string;
  /** `in` lets the step begin, and strikes after `delayMs`. */
  readonly when: 'before' | 'in' | 'after';
  /**
   * What happens: `kill` (-9), `pause` (SIGSTOP), `signal <name>`, `signal <name> twice`, `clock <ms>` (the clock jumps),
   * `error <code>` (the step fails), `error <code> lasting` (so do all that follow).
   */
  readonly action: string;
  readonly delayMs?: number;
}

/** Arguments for Node, before the program, that load the code for strikes. */
export const strikePreload = ['--import', join(import.meta.dirname, 'preload', 'strike.mjs')];

export function strikeVariables(
  storage: string,
  report: string,
  strike: Strike | 'record',
): Readonly<Record<string, string>> {
  const task = strike === 'record' ? { record: true } : strike;
  return { CDSYNC_TEST_STRIKE: JSON.stringify({ storage, report, ...task }) };
}

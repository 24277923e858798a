import type { Ended } from '../fixtures/workspace.js';
import type { Lane, RunOptions } from './lane.js';
import type { Random } from './random.js';
import type { Situation } from './situations.js';

/** One fault, and how it strikes a run. */
export interface Fault {
  /** Tells it from all others of its kind; with the seed, enough to try it again. */
  readonly name: string;
  /** What the run finds that it strikes. */
  readonly situation: Situation;
  /** Runs the program and lets the fault strike. @returns whether it did: what passed by was not tried */
  strike(lane: Lane, random: Random): Promise<boolean>;
  /** What a person would do before the next run: give space, permissions, a file from a backup. */
  mend?(lane: Lane): Promise<void>;
  /** How the next run is started, where not as always: as another user. */
  readonly next?: RunOptions;
  /** Takes away what it has put under the lane, whatever became of it. */
  leave?(lane: Lane): Promise<void>;
  /** What it takes away from readers until the next run, so that nothing can be asked of it before. */
  readonly harms?: 'published' | 'parquet';
  /** The service moves on by a day while it strikes: what that run reads is no state that the service ever had. */
  readonly moves?: boolean;
}

/** How a run ends that meets a fault it can tell of: with an exit code, one document, and a word of what to do next. */
export interface Ending extends Ended {
  /** All error codes of the document. */
  readonly errors: readonly string[];
}

/** What a kind has to choose its faults from: the steps by which an undisturbed run writes, for each situation. */
export type CalmSteps = ReadonlyMap<Situation, readonly string[]>;

export interface FaultKind {
  readonly name: string;
  /** What this machine lacks to try it; undefined where it lacks nothing. */
  lacks?(): Promise<string | undefined>;
  faults(steps: CalmSteps): readonly Fault[];
  /** How many of its faults the long form tries. */
  readonly most: number;
}

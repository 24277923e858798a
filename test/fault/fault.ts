import type { Ended } from '../fixtures/workspace.js';
import type { Lane, RunOptions } from './lane.js';
import type { Random } from './random.js';
import type { Situation } from './situations.js';

/** One fault, and how it strikes a run. */
export interface Fault {
  /** Unique within its kind; with the seed, enough to try the fault again. */
  readonly name: string;
  /** The state of the storage folder and of the service when the struck run starts. */
  readonly situation: Situation;
  /** Runs the program and lets the fault strike. @returns whether it struck: otherwise it does not count as tried */
  strike(lane: Lane, random: Random): Promise<boolean>;
  /** The repair by a person before the next run: frees space, gives permissions, restores a file from a backup. */
  mend?(lane: Lane): Promise<void>;
  /** Options of the next run if it is started differently: as another user, say. */
  readonly next?: RunOptions;
  /** Removes the files and mounts that the fault has added to the lane, whether or not it struck. */
  leave?(lane: Lane): Promise<void>;
  /** Files that readers cannot open until the next run; the test does not read them before. */
  readonly harms?: 'published' | 'parquet';
  /** The service moves on by a day during the run, so the run reads a mixture of two states. */
  readonly moves?: boolean;
}

/** The end of a run that could report its fault: an exit code, one document, and a hint what to do next. */
export interface Ending extends Ended {
  /** All error codes of the document. */
  readonly errors: readonly string[];
}

/** For each situation, the steps by which an undisturbed run writes. Kinds choose their faults from them. */
export type CalmSteps = ReadonlyMap<Situation, readonly string[]>;

export interface FaultKind {
  readonly name: string;
  /** Names the tool or permission that this machine lacks to try the kind; undefined if it lacks nothing. */
  lacks?(): Promise<string | undefined>;
  faults(steps: CalmSteps): readonly Fault[];
  /** How many of its faults the long form tries. */
  readonly most: number;
}

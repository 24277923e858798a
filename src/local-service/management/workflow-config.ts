/** A workflow that can be started, and what becomes of its runs. */
export interface WorkflowConfig {
  readonly id: string;
  readonly name: string;
  /** From its start to its end. */
  readonly durationMs: number;
  /** How it ends. */
  readonly ends: 'succeeded' | 'failed';
  readonly attribution?: 'customer' | 'platform';
}

/** The workflows that every tenant has. */
export const workflowConfigs: readonly WorkflowConfig[] = [
  { id: 'cg-1', name: 'Nightly unification', durationMs: 3000, ends: 'succeeded' },
  { id: 'cg-slow', name: 'Full history reload', durationMs: 7_200_000, ends: 'succeeded' },
  { id: 'cg-fail', name: 'Broken feed', durationMs: 2000, ends: 'failed', attribution: 'customer' },
  { id: 'cg-platform-fail', name: 'Unlucky run', durationMs: 2000, ends: 'failed', attribution: 'platform' },
];

/** A run is `started` for so long before it is `in progress`. */
export const startingMs = 500;
/** A run that is told to stop is `stopping` for so long. */
export const stoppingMs = 1000;

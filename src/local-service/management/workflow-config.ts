/** A workflow that can be started, and how its runs end. */
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

/** How long a run is `started` before it is `in progress`, in milliseconds. */
export const startingMs = 500;
/** How long a run is `stopping` before it is `stopped`, in milliseconds. */
export const stoppingMs = 1000;

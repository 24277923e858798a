/** A workflow that can be started, and how its runs end. */
export interface WorkflowConfig {
  readonly id: string;
  readonly name: string;
  /** From its start to its end. */
  readonly durationMs: number;
  /** How it ends. */
  readonly ends: 'succeeded' | 'failed';
  readonly attribution?: 'customer' | 'platform';
  /** Courier groups alone take a run mode and a range. */
  readonly kind: 'courier group' | 'orchestration group' | 'campaign';
  /** It pulls files, so a start must say for which days. */
  readonly pullsFiles?: true;
}

const brokenFeed = {
  id: 'cg-fail',
  name: 'Broken feed',
  durationMs: 2000,
  ends: 'failed',
  kind: 'courier group',
} as const;

/** The workflows that every tenant has. */
export const workflowConfigs: readonly WorkflowConfig[] = [
  { id: 'cg-1', name: 'Nightly unification', durationMs: 3000, ends: 'succeeded', kind: 'courier group' },
  { id: 'cg-slow', name: 'Full history reload', durationMs: 7_200_000, ends: 'succeeded', kind: 'courier group' },
  { ...brokenFeed, attribution: 'customer' },
  { ...brokenFeed, id: 'cg-platform-fail', name: 'Unlucky run', attribution: 'platform' },
  {
    id: 'cg-pull',
    name: 'Files of the day',
    durationMs: 2000,
    ends: 'succeeded',
    kind: 'courier group',
    pullsFiles: true,
  },
  { id: 'og-1', name: 'Nightly orchestration', durationMs: 2000, ends: 'succeeded', kind: 'orchestration group' },
  { id: 'cmp-0001', name: 'First campaign', durationMs: 2000, ends: 'succeeded', kind: 'campaign' },
];

/** How long a run is `scheduled`, then `started`, before it is `in progress`: half of these milliseconds each. */
export const startingMs = 500;
/** How long a run is `stopping` before it is `stopped`, in milliseconds. */
export const stoppingMs = 1000;

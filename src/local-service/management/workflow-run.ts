import { z } from '../../core/zod.js';

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
const stoppingMs = 1000;

export const startedRun = z.object({
  id: z.string(),
  configId: z.string(),
  runMode: z.string(),
  rangeFrom: z.string().optional(),
  rangeTo: z.string().optional(),
  principalId: z.string(),
  principalName: z.string(),
  /** Milliseconds since the Unix epoch, like all times that are saved. */
  at: z.number(),
  stopAt: z.number().nullable(),
  /** It was canceled at once, instead of stopped. */
  canceled: z.boolean().optional(),
});

/** A run that a client has started. */
type StartedRun = z.infer<typeof startedRun>;

/** The stored properties of a run; its state follows from them and the time. */
export interface WorkflowRun extends StartedRun {
  readonly tenant: string;
  readonly config: WorkflowConfig;
  /** How long it is `scheduled` and `started` before it is `in progress`. */
  readonly startingMs: number;
  /** When it ends unless a client stops it; Infinity if that is not known yet. */
  readonly endsAt: number;
}

export const runStates = [
  'scheduled',
  'started',
  'in progress',
  'stopping',
  'stopped',
  'canceled',
  'succeeded',
  'failed',
] as const;

export type RunState = (typeof runStates)[number];

interface Phase {
  readonly state: RunState;
  /** When this state began. */
  readonly since: number;
  readonly endedAt: number | null;
}

function phaseOf({ at, stopAt, endsAt, config, startingMs, canceled }: WorkflowRun, nowMs: number): Phase {
  if (canceled && stopAt !== null) return { state: 'canceled', since: stopAt, endedAt: stopAt };
  if (stopAt !== null && stopAt < endsAt && nowMs >= stopAt) {
    const stopped = stopAt + stoppingMs;
    if (nowMs < stopped) return { state: 'stopping', since: stopAt, endedAt: null };
    return { state: 'stopped', since: stopped, endedAt: stopped };
  }
  if (nowMs >= endsAt) return { state: config.ends, since: endsAt, endedAt: endsAt };
  const begins = at + startingMs / 2;
  if (nowMs < begins) return { state: 'scheduled', since: at, endedAt: null };
  if (nowMs < at + startingMs) return { state: 'started', since: begins, endedAt: null };
  return { state: 'in progress', since: at + startingMs, endedAt: null };
}

/** The state of a run at a time. */
export function stateOf(run: WorkflowRun, nowMs: number): RunState {
  return phaseOf(run, nowMs).state;
}

const iso = (ms: number) => new Date(ms).toISOString();

function errorOf({ config }: WorkflowRun, state: RunState): Record<string, unknown> {
  if (state !== 'failed') return {};
  const isCustomers = config.attribution === 'customer';
  return {
    error: {
      type: isCustomers ? 'feed_unreadable' : 'internal',
      message: isCustomers ? 'the file of feed feed-2 has 3 columns, but its table has 4' : 'a worker was lost',
      attribution: config.attribution,
      data: isCustomers ? { feed_id: 'feed-2' } : {},
    },
  };
}

function tasks(run: WorkflowRun, nowMs: number, idField: string): Record<string, unknown>[] {
  const { state, since, endedAt } = phaseOf(run, nowMs);
  return ['ingest', 'unify', 'publish'].map((label, index) => ({
    [idField]: `${run.id}-t${index + 1}`,
    state: state === 'failed' && index > 0 ? 'canceled' : state,
    tenant: run.tenant,
    created_at: iso(run.at + index),
    ...(endedAt === null ? {} : { ended_at: iso(endedAt) }),
    execution_type: 'batch',
    label,
    run_id: run.id,
    state_changed_at: iso(since),
    task_definition_id: `${run.configId}-${label}`,
    task_definition_type: label,
    timeout_ms: 14_400_000,
    workflow_id: run.id,
    ...(index === 0 ? errorOf(run, state) : {}),
  }));
}

/** Fields that some deployments show in the overview too. */
function reasonOf(run: WorkflowRun, nowMs: number): Record<string, unknown> {
  return { principal_id: run.principalId, principal_name: run.principalName, ...errorOf(run, stateOf(run, nowMs)) };
}

/** Fields of the verbose view alone. */
function detailsOf(run: WorkflowRun, nowMs: number, idField: string): Record<string, unknown> {
  return {
    ...reasonOf(run, nowMs),
    launched_version: '7',
    current_version: '7',
    warn_after_ms: 86_400_000,
    task_instances: tasks(run, nowMs, idField),
  };
}

/**
 * A run as the API shows it at a time. A list, and a run by default, are an overview. No view names the configuration of the
 * run (published notes).
 */
export function shownRun(
  run: WorkflowRun,
  nowMs: number,
  view: 'overview' | 'detailed' | 'verbose' = 'overview',
  taskIdField: 'id' | 'task_instance_id' = 'id',
): Record<string, unknown> {
  const { state, endedAt } = phaseOf(run, nowMs);
  return {
    id: run.id,
    state,
    type: run.runMode,
    name: run.config.name,
    tenant: run.tenant,
    created_at: iso(run.at),
    ...(endedAt === null ? {} : { ended_at: iso(endedAt) }),
    ...(view === 'verbose' ? detailsOf(run, nowMs, taskIdField) : view === 'detailed' ? reasonOf(run, nowMs) : {}),
  };
}

const tableNames = ['customers', 'orders'];

/** The ingest job of a run at a time; undefined before the run has made it, and if the run was canceled before. */
export function ingestJob(
  run: WorkflowRun,
  nowMs: number,
): { createdAt: number; shown: Record<string, unknown> } | undefined {
  const createdAt = run.at + run.startingMs;
  const { state, endedAt } = phaseOf(run, nowMs);
  if (nowMs < createdAt || (endedAt !== null && endedAt < createdAt)) return undefined;
  const isOver = endedAt !== null;
  const tables = tableNames.map((table, index) => {
    const read = 1000 + (((run.at / 1000) % 500) | 0) + index * 250;
    const failed = state === 'failed' && index === 1;
    return {
      feed_id: `feed-${index + 1}`,
      job_id: `${run.id}-j${index + 1}`,
      table_name: table,
      state: isOver ? (failed ? 'failed' : state === 'failed' ? 'succeeded' : state) : 'in progress',
      read: isOver ? read : read >> 1,
      errors: failed ? 1 : 0,
      rejected: isOver ? read % 7 : 0,
      inserted: isOver ? read - (read % 7) - 100 : 0,
      updated: isOver ? 100 : 0,
      started_at: iso(createdAt),
      ...(isOver ? { ended_at: iso(endedAt) } : {}),
      files: [{ file_id: `${run.id}-f${index + 1}`, name: `${table}.csv`, read, errors: failed ? 1 : 0 }],
    };
  });
  return { createdAt, shown: { id: `ing-${run.id}`, workflow_id: run.id, tables } };
}

import type { WorkflowRun } from '../api/management-api.js';
import { printable, withoutAddresses } from '../core/printable.js';
import { table } from './table.js';

/** Fields that name the person who started a run; shown only if values may be. */
const personal = new Set(['principal_name', 'principal_email']);

/**
 * A run as the service gave it; fields that name a person only if `showValues`. Never the `data` of an error: nobody knows
 * what the service puts there.
 */
export function shownRun(run: WorkflowRun, showValues: boolean): Record<string, unknown> {
  return JSON.parse(JSON.stringify(run), (name, value: unknown) => {
    if (name === 'error' && typeof value === 'object' && value !== null) return { ...value, data: undefined };
    if (showValues) return value;
    if (personal.has(name)) return undefined;
    return typeof value === 'string' ? withoutAddresses(value) : value;
  }) as Record<string, unknown>;
}

function word(value: unknown): string {
  return value === undefined || value === null || value === '' ? '-' : printable(String(value));
}

/** A workflow run for people, with its tasks if the service sent them. */
export function workflowLines({
  id,
  state,
  type,
  name,
  created_at,
  ended_at,
  error,
  task_instances,
}: WorkflowRun): string[] {
  const about = [type, name].filter(Boolean).map(word).join(' ');
  const lines = [
    `run ${word(id)}: ${word(state)}${about === '' ? '' : ` (${about})`}`,
    `  created ${word(created_at)}, ended ${word(ended_at)}`,
  ];
  if (error) {
    lines.push(`  ${word(error.type)}: ${word(error.message)} (attribution: ${word(error.attribution)})`);
  }
  if (!task_instances || task_instances.length === 0) return lines;
  const rows = task_instances.map((task) =>
    [task.label ?? task.id, task.state, task.created_at, task.ended_at, task.error?.message].map(word),
  );
  return [...lines, '', ...table(['task', 'state', 'created', 'ended', 'error'], rows).map((line) => `  ${line}`)];
}

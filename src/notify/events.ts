import type { NotifyOptions, RunEvent } from '../config/config.js';
import type { Anomaly } from './anomalies.js';
import type { RunResult } from './result.js';

/** How the last run that was not interrupted has ended; undefined before the first. A failure in part is a failure. */
type LastStatus = 'ok' | 'held' | 'failed' | undefined;

/**
 * Something that is true of a run, as receivers remember it: an event, for `unusual` which figure of which stream, for
 * `schema_changed` which column, and for `deprecated` which announcement, so that another one is news.
 */
type EventKey = string;

/** What `settled` is after a run. An interrupted run changes nothing. */
export function nextLastStatus(status: RunResult['status'], before: LastStatus): LastStatus {
  if (status === 'interrupted') return before;
  return status === 'partial' ? 'failed' : status;
}

function eventOf(fact: EventKey): RunEvent {
  return fact.split(':')[0] as RunEvent;
}

/** Guards that failed and only warn: news for those who are told of what is held, and of what is unusual. */
function passedGuards({ name, status, findings = [] }: RunResult['streams'][number]): EventKey[] {
  if (status !== 'ok') return [];
  return findings.flatMap(({ guard }) => [`held:${name}.${guard}`, `unusual:${name}.${guard}`]);
}

/** Changes of columns that are in the new snapshot. */
function changedColumns({ name, status, schema_changes: changes = [] }: RunResult['streams'][number]): EventKey[] {
  if (status !== 'ok') return [];
  return changes.map(({ column, to }) => `schema_changed:${name}.${column} ${to}`);
}

/** Everything that is true of a run. */
export function eventKeysOf(
  {
    status,
    deprecations = [],
    streams = [],
  }: Pick<RunResult, 'status' | 'deprecations'> & Partial<Pick<RunResult, 'streams'>>,
  before: LastStatus,
  unusual: readonly Anomaly[],
): EventKey[] {
  const recovered = status === 'ok' && before !== undefined && before !== 'ok';
  return [
    status,
    ...(status === 'partial' ? ['failed'] : []),
    ...(recovered ? ['recovered'] : []),
    ...unusual.map(({ stream, figure }) => `unusual:${stream}.${figure}`),
    ...streams.flatMap(passedGuards),
    ...streams.flatMap(changedColumns),
    ...deprecations.map(
      ({ api, version, deprecated, sunset }) => `deprecated:${[api, version, deprecated, sunset].join(' ')}`,
    ),
  ];
}

/**
 * The events that a receiver is told of: those in its `on` that were not true before.
 * @param known the facts that it remembers
 */
export function newEvents(
  { on, every }: Pick<NotifyOptions, 'on' | 'every'>,
  facts: readonly EventKey[],
  known: readonly EventKey[],
): RunEvent[] {
  const news = facts.filter((fact) => every || !known.includes(fact)).map(eventOf);
  return on.filter((event, index) => news.includes(event) && on.indexOf(event) === index);
}

/**
 * What a receiver remembers after a run. An interruption does not make it forget: a job that failed before it still fails. Nor does
 * a run that saw nothing of the service make it forget what that has announced.
 */
export function nextEventKeys(
  status: RunResult['status'],
  facts: readonly EventKey[],
  known: readonly EventKey[],
): EventKey[] {
  const kept = known.filter((fact) =>
    status === 'interrupted' ? fact !== 'interrupted' : eventOf(fact) === 'deprecated',
  );
  return [...new Set([...kept, ...facts])];
}

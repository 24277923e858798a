import type { NotifyOptions, RunEvent } from '../config/config.js';
import { countedSchemaChanges, type SchemaChange } from '../core/schema-change.js';
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

function columnKey(stream: string, { column, to, destination }: SchemaChange): EventKey {
  return `schema_changed:${stream}.${column} ${destination === undefined ? to : `${to} in ${destination}`}`;
}

/** Changes of columns that are in the new snapshot, or at a destination. */
function changedColumns({ streams = [], destinations = [] }: Partial<RunResult>): EventKey[] {
  return [
    ...streams.flatMap((each) => countedSchemaChanges(each).map((change) => columnKey(each.name, change))),
    ...destinations.flatMap(({ stream, schema_changes: changes = [] }) =>
      changes.map((change) => columnKey(stream, change)),
    ),
  ];
}

/** Everything that is true of a run. */
export function eventKeysOf(
  {
    status,
    deprecations = [],
    streams = [],
    destinations = [],
  }: Pick<RunResult, 'status' | 'deprecations'> & Partial<Pick<RunResult, 'streams' | 'destinations'>>,
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
    ...changedColumns({ streams, destinations }),
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

import type { NotifyOptions, RunEvent } from '../config/config.js';
import type { DestinationReport } from '../core/run-report.js';
import { countedSchemaChanges, type SchemaChange } from '../core/schema-change.js';
import type { Anomaly } from './anomalies.js';
import { endMessage, type Message, type MessageBody } from './message.js';
import type { RunResult } from './result.js';
import { type ChannelState, channelKeys, type NotificationState, type OpenFailure } from './state.js';

type LastStatus = NotificationState['settled'];

/**
 * Something that is true of a run, as receivers remember it: an event, for `unusual` the stream and its figure, for
 * `schema_changed` the column, and for `deprecated` the announcement, so that another one is news.
 */
type EventKey = string;

function eventOf(fact: EventKey): RunEvent {
  return fact.split(':')[0] as RunEvent;
}

/** Guards that failed and only warn: news for receivers of held streams, and of anomalies. */
function passedGuards({ name, status, findings = [] }: RunResult['streams'][number]): EventKey[] {
  if (status !== 'ok') return [];
  return findings.flatMap(({ guard }) => [`held:${name}.${guard}`, `unusual:${name}.${guard}`]);
}

function columnKey(stream: string, { column, to, destination }: SchemaChange): EventKey {
  return `schema_changed:${stream}.${column} ${destination === undefined ? to : `${to} in ${destination}`}`;
}

/** Everything that is true of a run. */
export function eventKeysOf(
  { status, deprecations = [], streams, destinations }: RunResult,
  before: LastStatus,
  unusual: readonly Anomaly[],
): EventKey[] {
  const recovered = status === 'ok' && before !== null && before !== 'ok';
  return [
    status,
    ...(status === 'partial' ? ['failed'] : []),
    ...(recovered ? ['recovered'] : []),
    ...unusual.map(({ stream, figure }) => `unusual:${stream}.${figure}`),
    ...streams.flatMap(passedGuards),
    // Changes of columns that are in the new snapshot, or at a destination.
    ...streams.flatMap((stream) => countedSchemaChanges(stream).map((change) => columnKey(stream.name, change))),
    ...destinations.flatMap(({ stream, schema_changes: changes = [] }) =>
      changes.map((change) => columnKey(stream, change)),
    ),
    ...deprecations.map(
      ({ api, version, deprecated, sunset }) => `deprecated:${[api, version, deprecated, sunset].join(' ')}`,
    ),
  ];
}

/**
 * The events that a receiver is notified of: those in its `on` that were not true before.
 * @param knownKeys the keys that it remembers
 */
export function newEvents(
  { on, every }: Pick<NotifyOptions, 'on' | 'every'>,
  keys: readonly EventKey[],
  knownKeys: readonly EventKey[],
): RunEvent[] {
  const news = keys.filter((key) => every || !knownKeys.includes(key)).map(eventOf);
  return on.filter((event, index) => news.includes(event) && on.indexOf(event) === index);
}

/**
 * The event keys of a receiver after a run. An interruption does not make it forget: a job that failed before it still fails. Nor does
 * a run that saw nothing of the service make it forget the announced deprecations.
 */
export function nextEventKeys(
  status: RunResult['status'],
  keys: readonly EventKey[],
  knownKeys: readonly EventKey[],
): EventKey[] {
  const kept = knownKeys.filter((fact) =>
    status === 'interrupted' ? fact !== 'interrupted' : eventOf(fact) === 'deprecated',
  );
  return [...new Set([...kept, ...keys])];
}

const isSame = (one: DestinationReport, other: DestinationReport) =>
  one.name === other.name && one.stream === other.stream;

/** A destination that was skipped has not been tried. */
function untried({ destinations }: RunResult, open: readonly OpenFailure[]): OpenFailure[] {
  const tried = destinations.filter(({ status }) => status !== 'skipped' && status !== 'not_tried');
  return open.filter((failure) => !tried.some((other) => isSame(failure, other)));
}

/**
 * How a job is after a run or a delivery that did not try all destinations: a delivery that failed before has not succeeded since.
 * So a `run --no-push` and a `push` that fails are one failure, not alternately ok and failed.
 */
function withOpenFailures(result: RunResult, open: readonly OpenFailure[]): RunResult {
  const left = untried(result, open);
  if (left.length === 0 || !['ok', 'held', 'partial'].includes(result.status)) return result;
  const others = result.destinations.filter((destination) => !left.some((other) => isSame(destination, other)));
  return { ...result, status: 'partial', destinations: [...others, ...left] };
}

function openFailuresAfter(result: RunResult, open: readonly OpenFailure[]): OpenFailure[] {
  const failed = result.destinations.flatMap(({ status, ...delivery }): OpenFailure[] =>
    status === 'failed' || status === 'partial' ? [{ ...delivery, status }] : [],
  );
  return [...untried(result, open), ...failed];
}

/** The most messages that wait for one receiver. The newest stay. */
const maxWaiting = 5;

/** What one receiver gets after a run. */
export interface ChannelUpdate {
  readonly key: string;
  /** Those that wait, oldest first, and the one about this run. */
  readonly messages: readonly Message[];
  /** Its state once it has this many of the messages. */
  after(sent: number): ChannelState;
}

function channelUpdate(
  key: string,
  receiver: NotifyOptions,
  { receivers }: NotificationState,
  { body, keys }: { readonly body: MessageBody; readonly keys: readonly EventKey[] },
): ChannelUpdate {
  const previous = receivers[key] ?? { facts: [], waiting: [] };
  // A receiver that was notified of an interruption is notified of its end.
  const isOver = body.status === 'ok' && previous.facts.includes('interrupted') && receiver.on.includes('interrupted');
  const events = newEvents(receiver, isOver ? [...keys, 'recovered'] : keys, previous.facts);
  const messages = [...previous.waiting, ...(events.length === 0 ? [] : [{ ...body, events, late: false }])];
  const after = (sent: number): ChannelState => {
    const waiting = messages.slice(sent).map((message) => ({ ...message, late: true }));
    // A health check wants the present state, not an old one: it forgets, so that the next run is news.
    if (waiting.length > 0 && receiver.ping !== undefined) return { facts: previous.facts, waiting: [] };
    const next = nextEventKeys(body.status as RunResult['status'], keys, previous.facts);
    return { facts: next, waiting: waiting.slice(-maxWaiting) };
  };
  return { key, messages, after };
}

/**
 * The changes by a run or a later action, and the messages of each receiver.
 * @param before its deliveries are those that the job still has
 * @param options.onlyNews receivers hear of it only if the job is now ok, held or failed, and was not before, or if a delivery
 * added columns
 */
export function nextState(
  before: NotificationState,
  done: RunResult,
  {
    notify,
    unusual,
    file,
    onlyNews,
  }: {
    readonly notify: readonly NotifyOptions[];
    readonly unusual: readonly Anomaly[];
    readonly file: string;
    readonly onlyNews: boolean;
  },
): { readonly state: NotificationState; readonly updates: readonly ChannelUpdate[] } {
  const result = withOpenFailures(done, before.deliveries);
  const deliveries = openFailuresAfter(done, before.deliveries);
  const { status } = result;
  // An interrupted run changes nothing.
  const settled = status === 'interrupted' ? before.settled : status === 'partial' ? 'failed' : status;
  const isSameStatus = settled === (before.settled ?? 'ok');
  const addedColumns = done.destinations.some(({ schema_changes: changes = [] }) => changes.length > 0);
  if (onlyNews && isSameStatus && !addedColumns) return { state: { ...before, deliveries }, updates: [] };
  const keys = eventKeysOf(result, before.settled, unusual);
  const body = endMessage(result, { previous: before.status, found: unusual, file });
  return {
    state: { version: 1, status: result.status, settled, receivers: {}, deliveries },
    updates: channelKeys(notify).map((key, at) =>
      channelUpdate(key, notify[at] as NotifyOptions, before, { body, keys }),
    ),
  };
}

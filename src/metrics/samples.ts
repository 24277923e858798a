import { packageVersion } from '../core/package-version.js';
import type { DestinationReport, StreamReport } from '../core/run-report.js';
import type { Anomaly } from '../notify/anomalies.js';
import type { RunResult } from '../notify/result.js';

/** A family of metrics. Its name is OpenTelemetry's; Prometheus gets the name that OpenTelemetry's rules make of it. */
interface Family {
  readonly name: string;
  readonly kind: 'gauge' | 'counter';
  /** As UCUM has it: `s`, `By`, or an annotation such as `{row}`. */
  readonly unit: string;
  readonly help: string;
}

const second = 's';
const gauge = (unit: string, help: string) => ({ kind: 'gauge', unit, help }) as const;
const counter = (unit: string, help: string) => ({ kind: 'counter', unit, help }) as const;

const declared = {
  'cdsync.build.info': gauge('', 'Always 1; the label version is that of the cdsync that ran last.'),
  'cdsync.run.status': gauge('', 'Status of the last run: 1 for the label that it has, 0 for the others.'),
  'cdsync.run.started.timestamp': gauge(second, 'When the last run began, as a Unix time.'),
  'cdsync.run.finished.timestamp': gauge(second, 'When the last run ended, as a Unix time.'),
  'cdsync.run.duration': gauge(second, 'How long the last run took, deliveries included.'),
  'cdsync.run.snapshot.sequence': gauge('', 'Number of the latest snapshot after the last run.'),
  'cdsync.last.success.timestamp': gauge(second, 'When the last run of status ok ended, as a Unix time.'),
  'cdsync.runs': counter('{run}', 'Runs that have ended, by status.'),
  'cdsync.stream.status': gauge(
    '',
    'Status of the stream in its last run: 1 for the label that it has, 0 for the others.',
  ),
  'cdsync.stream.rows': gauge(
    '{row}',
    'Rows of the latest snapshot of the stream, or that the last reading of a growing list has brought.',
  ),
  'cdsync.stream.duration': gauge(second, 'How long the last reading of the stream took.'),
  'cdsync.stream.last.success.timestamp': gauge(
    second,
    'When the last run that committed the stream ended, as a Unix time.',
  ),
  'cdsync.stream.unusual': gauge('', 'Figures of the last run that are far from the past of the stream.'),
  'cdsync.stream.run.changes': gauge('{row}', 'Rows that the last run has inserted, updated or deleted.'),
  'cdsync.stream.changes': counter('{row}', 'Rows that runs have inserted, updated or deleted.'),
  'cdsync.stream.rejected': counter('{record}', 'Records that could not be kept.'),
  'cdsync.stream.duplicates': counter('{record}', 'Records that were read more than once in one run.'),
  'cdsync.stream.requests': counter('{request}', 'Requests that were sent, repetitions included.'),
  'cdsync.stream.retries': counter('{request}', 'Requests that were repetitions.'),
  'cdsync.stream.throttled': counter('{response}', 'Responses of status 429.'),
  'cdsync.stream.received': counter('By', 'Bytes of responses, after decompression.'),
  'cdsync.destination.status': gauge('', 'Status of the last delivery: 1 for the label that it has, 0 for the others.'),
  'cdsync.destination.duration': gauge(second, 'How long the last delivery took.'),
  'cdsync.destination.refused': gauge('{value}', 'Values that the destination cannot hold.'),
  'cdsync.destination.last.success.timestamp': gauge(
    second,
    'When the last delivery of status ok ended, as a Unix time.',
  ),
  'cdsync.destination.rows': counter('{row}', 'Rows that were delivered.'),
} satisfies Record<string, Omit<Family, 'name'>>;

type FamilyName = keyof typeof declared;

/** Every family, in the order of the text file. */
export const families: readonly Family[] = Object.entries(declared).map(([name, properties]) => ({
  name,
  ...properties,
}));

export function isFamily(name: string): name is FamilyName {
  return Object.hasOwn(declared, name);
}

/** How OpenTelemetry's rules spell the units that are used here. */
const unitWords: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' };

/**
 * The name in Prometheus: dots become underscores, the unit is added, and `_total` to a counter
 * (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
 */
export function prometheusName({ name, unit, kind }: Family): string {
  return `${name.replaceAll('.', '_')}${unitWords[unit] ?? ''}${kind === 'counter' ? '_total' : ''}`;
}

export type Labels = Readonly<Record<string, string>>;

/** One figure: of a counter, in the samples of a run, by how much it grows. */
export interface Sample {
  readonly name: FamilyName;
  readonly labels: Labels;
  readonly value: number;
}

const runStatuses = ['ok', 'held', 'partial', 'failed', 'interrupted'] as const;
const streamStatuses = ['ok', 'held', 'failed', 'skipped'] as const;
const destinationStatuses = ['ok', 'partial', 'failed', 'skipped', 'not_tried'] as const;

/** A state as numbers: one sample for each that there is. */
function states(name: FamilyName, labels: Labels, all: readonly string[], present: string): Sample[] {
  return all.map((status) => ({ name, labels: { ...labels, status }, value: status === present ? 1 : 0 }));
}

function ofStream(stream: StreamReport, end: RunResult, unusual: readonly Anomaly[]): Sample[] {
  const labels = { job: end.job, stream: stream.name };
  const one = (name: FamilyName, value: number, more: Labels = {}): Sample => ({
    name,
    labels: { ...labels, ...more },
    value,
  });
  const { inserted, updated, deleted } = stream;
  // Earlier processes have counted their part of a resumed reading themselves.
  const sent = stream.process ?? stream;
  const changes = Object.entries({ insert: inserted, update: updated, delete: deleted });
  const committed = [
    one('cdsync.stream.rows', stream.rows),
    one('cdsync.stream.last.success.timestamp', end.finishedAt / 1000),
    ...changes.map(([operation, count]) => one('cdsync.stream.run.changes', count, { operation })),
    ...changes.map(([operation, count]) => one('cdsync.stream.changes', count, { operation })),
  ];
  return [
    ...states('cdsync.stream.status', labels, streamStatuses, stream.status),
    // A held or failed stream leaves the snapshot as it was.
    ...(stream.status === 'ok' ? committed : []),
    one('cdsync.stream.duration', stream.seconds),
    one('cdsync.stream.unusual', unusual.filter((anomaly) => anomaly.stream === stream.name).length),
    one('cdsync.stream.rejected', sent.rejected),
    one('cdsync.stream.duplicates', stream.duplicates),
    one('cdsync.stream.requests', sent.requests),
    one('cdsync.stream.retries', sent.retries),
    one('cdsync.stream.throttled', sent.throttled),
    one('cdsync.stream.received', sent.bytes),
  ];
}

function ofDestination(delivery: DestinationReport, end: RunResult): Sample[] {
  const { name: destination, stream, status, rows, refused, seconds } = delivery;
  const labels = { job: end.job, destination, stream };
  const lastGood = { name: 'cdsync.destination.last.success.timestamp', labels, value: end.finishedAt / 1000 } as const;
  return [
    ...states('cdsync.destination.status', labels, destinationStatuses, status),
    { name: 'cdsync.destination.duration', labels, value: seconds },
    { name: 'cdsync.destination.refused', labels, value: refused },
    { name: 'cdsync.destination.rows', labels, value: rows },
    ...(status === 'ok' ? [lastGood] : []),
  ];
}

/** The figures of one run. Nothing of it is a value of a record. */
export function samplesOf(end: RunResult, unusual: readonly Anomaly[]): Sample[] {
  const labels = { job: end.job };
  const one = (name: FamilyName, value: number, more: Labels = {}): Sample => ({
    name,
    labels: { ...labels, ...more },
    value,
  });
  return [
    one('cdsync.build.info', 1, { version: packageVersion() }),
    ...states('cdsync.run.status', labels, runStatuses, end.status),
    one('cdsync.run.started.timestamp', end.startedAt / 1000),
    one('cdsync.run.finished.timestamp', end.finishedAt / 1000),
    one('cdsync.run.duration', (end.finishedAt - end.startedAt) / 1000),
    ...(end.sequence === null ? [] : [one('cdsync.run.snapshot.sequence', end.sequence)]),
    ...(end.status === 'ok' ? [one('cdsync.last.success.timestamp', end.finishedAt / 1000)] : []),
    // Each status from the start: a counter that appears with its first failure has no increase to be seen.
    ...runStatuses.map((status) => one('cdsync.runs', status === end.status ? 1 : 0, { status })),
    ...end.streams.flatMap((stream) => ofStream(stream, end, unusual)),
    ...end.destinations.flatMap((delivery) => ofDestination(delivery, end)),
  ];
}

const counters = new Set(families.filter(({ kind }) => kind === 'counter').map(({ name }) => name));

/** The occasions of figures: a run, an approval of its held streams, a later load. */
export type RunTrigger = 'run' | 'approval' | 'delivery';

const ofAnyOccasion: ReadonlySet<FamilyName> = new Set([
  'cdsync.build.info',
  'cdsync.run.status',
  'cdsync.run.snapshot.sequence',
  'cdsync.last.success.timestamp',
]);

/** Whether an occasion moves a figure. The run that was approved has counted its requests already, and its time stays. */
function moves(occasion: RunTrigger, name: FamilyName): boolean {
  if (occasion === 'run' || ofAnyOccasion.has(name)) return true;
  if (occasion === 'delivery') return name.startsWith('cdsync.destination.');
  return name.startsWith('cdsync.stream.') && (!counters.has(name) || name === 'cdsync.stream.changes');
}

/** The figures of what followed a run: {@link samplesOf}, as far as they move. */
export function afterRunSamples(end: RunResult, occasion: RunTrigger): Sample[] {
  return samplesOf(end, []).filter(({ name }) => moves(occasion, name));
}

function keyOf({ name, labels }: Sample): string {
  return JSON.stringify([name, ...Object.entries(labels)]);
}

/**
 * The figures after a run: counters grow, gauges are replaced, and figures that the run does not have stay.
 * @param isPresent whether a stream or a destination still exists
 */
export function afterRun(
  before: readonly Sample[],
  run: readonly Sample[],
  isPresent: (labels: Labels) => boolean,
): Sample[] {
  const all = new Map<string, Sample>();
  for (const sample of before) {
    // Another version replaces the one before.
    if (isPresent(sample.labels) && sample.name !== 'cdsync.build.info') all.set(keyOf(sample), sample);
  }
  for (const sample of run) {
    const key = keyOf(sample);
    const total = counters.has(sample.name) ? (all.get(key)?.value ?? 0) : 0;
    all.set(key, { ...sample, value: total + sample.value });
  }
  return [...all.values()];
}

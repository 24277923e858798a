import { packageVersion } from '../core/package-version.js';
import type { DestinationReport, StreamReport } from '../core/run-report.js';
import type { Anomaly } from '../notify/anomalies.js';
import type { RunResult } from '../notify/result.js';
import { type FamilyName, families } from './families.js';

export type Labels = Readonly<Record<string, string>>;

/** One figure: of a counter, in what a run gives, by how much it grows. */
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
    // What a guard holds, or a failed stream, leaves the snapshot as it was.
    ...(stream.status === 'ok' ? committed : []),
    one('cdsync.stream.duration', stream.seconds),
    one('cdsync.stream.unusual', unusual.filter((each) => each.stream === stream.name).length),
    one('cdsync.stream.rejected', stream.rejected),
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

/** What gives figures: a run, or what a person does about a run later: approve what it holds, load what it could not load. */
export type RunTrigger = 'run' | 'approval' | 'delivery';

const ofAnyOccasion: ReadonlySet<FamilyName> = new Set([
  'cdsync.build.info',
  'cdsync.run.status',
  'cdsync.run.snapshot.sequence',
  'cdsync.last.success.timestamp',
]);

/** Whether an occasion moves a figure. The run that was approved has counted its requests already, and its time stands. */
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
 * The figures after a run: counters grow, gauges are replaced, and what the run says nothing of stays.
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
    const known = counters.has(sample.name) ? (all.get(key)?.value ?? 0) : 0;
    all.set(key, { ...sample, value: known + sample.value });
  }
  return [...all.values()];
}

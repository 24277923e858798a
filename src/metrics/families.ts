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
  'cdsync.stream.duplicates': counter('{record}', 'Records that came more than once in one run.'),
  'cdsync.stream.requests': counter('{request}', 'Requests that were sent, repetitions included.'),
  'cdsync.stream.retries': counter('{request}', 'Requests that were repetitions.'),
  'cdsync.stream.throttled': counter('{answer}', 'Answers of status 429.'),
  'cdsync.stream.received': counter('By', 'Bytes of answers, after decompression.'),
  'cdsync.destination.status': gauge('', 'Status of the last delivery: 1 for the label that it has, 0 for the others.'),
  'cdsync.destination.duration': gauge(second, 'How long the last delivery took.'),
  'cdsync.destination.refused': gauge('{value}', 'Values that the destination cannot hold.'),
  'cdsync.destination.last.success.timestamp': gauge(
    second,
    'When the last delivery of status ok ended, as a Unix time.',
  ),
  'cdsync.destination.rows': counter('{row}', 'Rows that were delivered.'),
} satisfies Record<string, Omit<Family, 'name'>>;

export type FamilyName = keyof typeof declared;

/** Every family, in the order of the text file. */
export const families: readonly Family[] = Object.entries(declared).map(([name, facts]) => ({ name, ...facts }));

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

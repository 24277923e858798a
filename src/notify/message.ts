import { runEvents } from '../config/outcome-options.js';
import { completed } from '../core/command-hints.js';
import type { DestinationReport, ReportedError, StreamReport } from '../core/run-report.js';
import { countedSchemaChanges } from '../core/schema-change.js';
import { z } from '../core/zod.js';
import type { Anomaly } from './anomalies.js';
import { errorWithoutKeys, type RunResult } from './result.js';

const stream = z.object({
  name: z.string(),
  status: z.enum(['ok', 'held', 'failed', 'skipped']),
  rows: z.number(),
  inserted: z.number(),
  updated: z.number(),
  deleted: z.number(),
  rejected: z.number(),
  seconds: z.number(),
});

const destination = z.object({
  name: z.string(),
  stream: z.string(),
  status: z.enum(['ok', 'partial', 'failed', 'skipped', 'not_tried']),
  rows: z.number(),
  action: z.string(),
  why: z.string(),
  refused: z.number(),
  seconds: z.number(),
});

const problem = z.object({
  stream: z.string().nullable(),
  destination: z.string().nullable(),
  code: z.string(),
  message: z.string(),
  hint: z.string().nullable(),
});

const warning = z.object({ stream: z.string().nullable(), code: z.string(), message: z.string() });

const unusual = z.object({
  stream: z.string(),
  figure: z.string(),
  value: z.number(),
  usual: z.number(),
  least: z.number(),
  most: z.number(),
  runs: z.number(),
  message: z.string(),
});

const deprecation = z.object({
  api: z.enum(['profile', 'management', 'realtime']),
  version: z.string().nullable(),
  deprecated: z.string().nullable(),
  sunset: z.string().nullable(),
});

const schemaChange = z.object({
  stream: z.string(),
  column: z.string(),
  change: z.enum(['column_added', 'type_widened', 'type_fell_back', 'variant_column']),
  from: z.string().nullable(),
  to: z.string(),
  destination: z.string().optional(),
  variant: z.string().optional(),
});

/**
 * The message about one run: the document of `format: json`. It has counts, times, names of the configuration, and
 * messages as they are in the report, but without keys of records; no value of a record.
 */
export const messageSchema = z.object({
  version: z.literal(1),
  /** Why this is sent: those of the receiver's `on` that apply. */
  events: z.array(z.enum(runEvents)).min(1),
  job: z.string(),
  run_id: z.string().nullable(),
  status: z.enum(['started', 'ok', 'held', 'partial', 'failed', 'interrupted']),
  /** Of the run before; null before the first. */
  previous_status: z.string().nullable(),
  sequence: z.number().nullable(),
  /** ISO 8601, UTC. */
  started_at: z.string(),
  finished_at: z.string().nullable(),
  seconds: z.number().nullable(),
  streams: z.array(stream),
  destinations: z.array(destination),
  errors: z.array(problem),
  unusual: z.array(unusual),
  /** What needs attention although nothing was stopped: guards that only warn, names that match nothing. */
  warnings: z.array(warning).default([]),
  /** Columns that are new or have another type. */
  schema_changes: z.array(schemaChange).default([]),
  /** API versions whose end the service has announced. */
  deprecations: z.array(deprecation).default([]),
  /** Path of the report on the machine that ran. */
  report: z.string().nullable(),
  /** The receiver could not be reached when it happened. */
  late: z.boolean(),
});
export type Message = z.output<typeof messageSchema>;
/** A message for any receiver: the events are the receiver's own. */
export type MessageBody = Omit<Message, 'events' | 'late'>;

function errorOf(
  error: ReportedError | null,
  place: { stream?: string; destination?: string } = {},
): Message['errors'] {
  if (error === null) return [];
  const { code, message, hint } = error;
  return [{ stream: place.stream ?? null, destination: place.destination ?? null, code, message, hint }];
}

function streamOf({ name, status, rows, inserted, updated, deleted, rejected, seconds }: StreamReport) {
  return { name, status, rows, inserted, updated, deleted, rejected, seconds };
}

function destinationOf({ name, stream: of, status, action, why, rows, refused, seconds }: DestinationReport) {
  return { name, stream: of, status, action, why, rows, refused, seconds };
}

interface About {
  readonly previous: string | null;
  readonly found: readonly Anomaly[];
  /** The configuration file: commands in hints name it, so that they can be pasted anywhere. */
  readonly file?: string | undefined;
}

/** The message about a run that has ended. */
export function endMessage(end: RunResult, { previous, found, file }: About): MessageBody {
  const place = file === undefined ? {} : { config: file, envFile: end.envFile, jobs: [end.job] };
  const errors = [
    ...errorOf(end.error),
    ...end.streams.flatMap((of) => errorOf(errorWithoutKeys(of), { stream: of.name })),
    ...end.destinations.flatMap(({ name, stream: of, error }) => errorOf(error, { stream: of, destination: name })),
  ];
  return {
    version: 1,
    job: end.job,
    run_id: end.runId,
    status: end.status,
    previous_status: previous,
    sequence: end.sequence,
    started_at: new Date(end.startedAt).toISOString(),
    finished_at: new Date(end.finishedAt).toISOString(),
    seconds: (end.finishedAt - end.startedAt) / 1000,
    streams: end.streams.map(streamOf),
    destinations: end.destinations.map(destinationOf),
    errors: errors.map((error) => ({ ...error, hint: error.hint && completed(error.hint, place) })),
    unusual: found.map((anomaly) => ({ ...anomaly })),
    warnings: [{ name: null, warnings: end.warnings }, ...end.streams].flatMap(({ name, warnings = [] }) =>
      warnings.map(({ code, message }) => ({ stream: name, code, message })),
    ),
    schema_changes: [
      ...end.streams.flatMap((stream) =>
        countedSchemaChanges(stream).map((change) => ({ stream: stream.name, ...change })),
      ),
      ...end.destinations.flatMap(({ stream, schema_changes: changes = [] }) =>
        changes.map((change) => ({ stream, ...change })),
      ),
    ],
    deprecations: (end.deprecations ?? []).map((deprecation) => ({ ...deprecation })),
    report: end.report,
  };
}

/** The message about a run that begins. */
export function startMessage(job: string, startedAt: number, previous: string | null): MessageBody {
  return {
    version: 1,
    job,
    run_id: null,
    status: 'started',
    previous_status: previous,
    sequence: null,
    started_at: new Date(startedAt).toISOString(),
    finished_at: null,
    seconds: null,
    streams: [],
    destinations: [],
    errors: [],
    unusual: [],
    warnings: [],
    schema_changes: [],
    deprecations: [],
    report: null,
  };
}

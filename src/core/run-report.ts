import { randomInt } from 'node:crypto';
import type { Deprecation } from './deprecation.js';
import { formatCount, formatCounted } from './quantities.js';
import type { SchemaChange } from './schema-change.js';

export type RunStatus = 'ok' | 'held' | 'partial' | 'failed' | 'interrupted' | 'locked';
export type StreamStatus = 'ok' | 'held' | 'failed' | 'skipped';

/** An error as reports show it. */
export interface ReportedError {
  code: string;
  message: string;
  hint: string | null;
  request_id: string | null;
}

/** A message without how often the request was tried: errors of one cause differ in that alone. */
export function withoutTries(message: string): string {
  return message.replace(/, tried \d+ times/, '');
}

/** Why cdsync reads a list once more. The notes on its parts report `parts`. */
const passReasons = {
  parts: '',
  total: 'its total has more records',
  deletes: 'too many rows were absent to ask for each',
  types: 'a column got another type',
} as const;

/** A pass over a list besides the first. */
export interface Pass {
  reason: keyof typeof passReasons;
  /** The records that it returned. */
  records: number;
  /** Those that no earlier pass had returned; all, if it took the place of the pass before. */
  added: number;
}

/**
 * What one stream of a run did. `rows` = inserted + updated + unchanged; `requests` = sent, retries included. If the reading resumes that
 * of earlier processes, its counters are the sums over all of them.
 */
export interface StreamReport {
  name: string;
  status: StreamStatus;
  rows: number;
  inserted: number;
  updated: number;
  deleted: number;
  unchanged: number;
  duplicates: number;
  rejected: number;
  /** Records in which bytes that are not UTF-8, or halves of surrogate pairs, became U+FFFD. */
  replaced: number;
  /** Values that do not fit the types of their columns and are NULL, by the stream's contract. */
  discarded_values: number;
  /** Records of forgotten people (`cdsync forget`) that the service returned and that were left out. */
  forgotten_returned?: number;
  schema_changes: SchemaChange[];
  /** Records that were looked up by key and that the service does not have. */
  missing: number;
  /** Records with the same bytes as in an earlier run, which were not converted again. */
  recognised: number;
  /** Why none was; null if some could be, or if the stream's records never are. */
  unrecognised: string | null;
  requests: number;
  retries: number;
  /** Responses of status 429. */
  throttled: number;
  pages: number;
  /** Bodies after decompression. */
  bytes: number;
  /**
   * The attributes by whose values the list was read in parts, and the number of parts; null if it was read as one. `missed`:
   * records that only one more pass over the whole list has returned; null if the parts were enough.
   */
  partitions: { by: string[]; chains: number; missed: number | null } | null;
  /** Extraction time. */
  seconds: number;
  /** Further passes over the same list, by cdsync's own choice; they count in pages, requests and time. Left out: none. */
  passes?: Pass[];
  /** Of a stream that resumes a reading of earlier processes: the part of the counters above that is of this process. */
  process?: Record<
    'requests' | 'retries' | 'throttled' | 'pages' | 'bytes' | 'seconds' | 'rejected' | 'missing',
    number
  >;
  /** The rate limit that its requests count against, in requests a second; null for a stream that sends none. */
  limit: { group: 'profile' | 'management' | 'realtime'; per_second: number } | null;
  /** The guards that hold it, or with `action: warn` let it pass; with figures but without keys; `error` also names keys. */
  findings: { guard: string; message: string }[];
  /** What needs attention although the stream was not stopped. */
  warnings: ReportedWarning[];
  /** Names under `columns:` that no column of the stream has. */
  unmatched_rules: string[];
  /** Columns that the stream does not select, by their paths. */
  not_selected?: string[];
  error: ReportedError | null;
}

/** Something that needs attention; no key and no value of a record. */
export interface ReportedWarning {
  code: string;
  message: string;
}

/**
 * How one stream ended at one destination. `skipped`: another process has the destination, or the user interrupted. `not_tried`: there
 * was nothing to deliver, because the stream or the run did not get so far, or the destination could not be reached for an earlier
 * stream. Neither counts as ok.
 */
type DestinationStatus = 'ok' | 'partial' | 'failed' | 'skipped' | 'not_tried';

export interface DestinationReport {
  name: string;
  stream: string;
  /** `partial`: values could not be held that no report has listed before, or a table was not as recorded. */
  status: DestinationStatus;
  action: 'nothing' | 'increment' | 'append' | 'reload' | 'create' | 'export' | 'refused';
  /** Why this action; empty where it goes without saying. */
  why: string;
  rows: number;
  /** Values that the destination cannot hold: NULL in a table, records that were not sent. */
  refused: number;
  /** Records that the receiver failed on, and that the next delivery tries again. */
  waiting?: number;
  /** Names of the files that were handed over to an `export`. */
  files?: readonly string[];
  seconds: number;
  /** Variant columns that a delivery without a run added; those of a run are in its streams. */
  schema_changes?: SchemaChange[];
  error: ReportedError | null;
}

export interface JobReport {
  job: string;
  run_id: string;
  /** Number of the latest snapshot after the run; null before the first. */
  sequence: number | null;
  resumed: boolean;
  status: RunStatus;
  streams: StreamReport[];
  destinations: DestinationReport[];
  /** API versions whose end the service has announced during the run. */
  deprecations?: Deprecation[];
  /** What needs attention and concerns no single stream. */
  warnings?: ReportedWarning[];
  seconds: number;
  /** Absolute path of the file of variables of the run: commands that are pasted need it too. */
  env_file?: string;
  /** Of a job that is kept in a bucket: the transfers until its result was uploaded. */
  bucket?: BucketTraffic;
}

/** Transfers between a bucket and this machine: bytes, and whole files or objects. */
export interface BucketTraffic {
  brought_bytes: number;
  brought_files: number;
  put_bytes: number;
  put_files: number;
}

/** The document of `--json` and of `reports/<run>.json`. */
export interface RunReport {
  /** The mistakes of a configuration, each with its place. */
  readonly problems?: readonly Readonly<
    Record<'file' | 'path' | 'message', string> & Record<'line' | 'column', number>
  >[];
  status: RunStatus;
  /** Whether the same command alone may mend what went wrong. */
  retry: boolean;
  jobs: JobReport[];
  error: ReportedError | null;
}

/** The start of a run id: the time at which the run began. */
export function runIdStamp(startedAtMs: number): string {
  return new Date(startedAtMs).toISOString().replace(/[-:]/g, '').replace(/\.\d+/, '');
}

/** When the run of an id began, to the second: ISO 8601, UTC; undefined if that is no id of a run. */
export function runStart(runId: string | null | undefined): string | undefined {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-/.exec(runId ?? '');
  return parts === null ? undefined : `${parts.slice(1, 4).join('-')}T${parts.slice(4).join(':')}.000Z`;
}

/** Of the 24 bits at the end of an id, those that are random. The others hold the milliseconds, so that ids sort by time. */
const randomRange = 1 << 14;

/**
 * A new run id: sortable by start time to the millisecond, safe as a file name, unique without coordination, for example
 * `20261103T021500Z-9f3a1c`.
 */
export function newRunId(startedAtMs: number): string {
  const milliseconds = new Date(startedAtMs).getUTCMilliseconds();
  const end = milliseconds * randomRange + randomInt(randomRange);
  return `${runIdStamp(startedAtMs)}-${end.toString(16).padStart(6, '0')}`;
}

/** Matches the ids that {@link newRunId} makes; a folder with any other name is not a run. */
export const runIdPattern = /^\d{8}T\d{6}Z-[0-9a-f]{6}$/;

function partitionNote({ by, chains, missed }: NonNullable<StreamReport['partitions']>): string {
  const read = `read in ${formatCounted(chains, 'part')} by ${by.join(' and ')}`;
  if (missed === null) return read;
  const added = missed === 0 ? 'nothing more' : formatCounted(missed, 'record');
  return `${read}; by the totals they left something out, and one more pass over the whole list brought ${added}`;
}

/** Where the rejects of a stream can be looked at; nowhere if its reading was not kept. */
function rejectsPlace({ name, status, error }: StreamReport, runId: string): string {
  if (status === 'held') return `; see: cdsync diff --held ${runId} ${name}`;
  return status === 'ok' && error === null ? '; see cdsync.rejects' : '';
}

/** Notes on a run of a stream besides its counts: for the terminal and for the page about the run. */
export function streamNotes(stream: StreamReport, runId: string): string[] {
  const { duplicates, rejected, replaced, missing, partitions, retries, throttled, discarded_values: values } = stream;
  const place = rejectsPlace(stream, runId);
  const notes: readonly [count: number | undefined, words: string, what?: string][] = [
    [duplicates, 'came twice; the last copy counts'],
    [rejected, `could not be kept${place}`],
    [replaced, 'held text that is not Unicode; U+FFFD replaces it'],
    [values, `did not fit and became NULL${place}`, 'value'],
    [missing, 'were requested and do not exist'],
    [retries, `sent again (${formatCount(throttled ?? 0)} for status 429)`, 'request'],
  ];
  return [
    ...notes.flatMap(([count = 0, words, what = 'record']) =>
      count > 0 ? [`${formatCounted(count, what)} ${words}`] : [],
    ),
    ...(partitions == null ? [] : [partitionNote(partitions)]),
    ...(stream.passes ?? []).flatMap(({ reason, records }) =>
      reason === 'parts'
        ? []
        : [`read once more (${formatCounted(records, 'record')}), because ${passReasons[reason]}`],
    ),
  ];
}

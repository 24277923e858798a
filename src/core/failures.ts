import { type ErrorKind, errorType } from './error-codes.js';
import type { CdsyncError } from './errors.js';
import { formatCounted } from './quantities.js';
import { type JobReport, type ReportedError, type ReportedWarning, withoutTries } from './run-report.js';

/** Errors of the service as a whole: whatever stream meets them, the cause is one. */
const outage = new Set(['service_unavailable', 'connection_lost', 'timeout', 'unreachable', 'too_many_requests']);
const login = new Set(['unauthorized', 'oauth_failed', 'token_unusable']);
const ofDestination = new Set(['destination_unavailable', 'destination_login']);

/** The same text for errors of one cause. */
export function causeOf({ code, message }: Pick<ReportedError, 'code' | 'message'>): string {
  if (outage.has(code)) return 'outage';
  if (login.has(code)) return 'login';
  return ofDestination.has(code) ? code : `${code} ${withoutTries(String(message))}`;
}

/** Whether the same command alone may mend it. */
export function mendsItself({ code, kind = errorType(code).kind }: Pick<CdsyncError, 'code'> & { kind?: ErrorKind }) {
  return kind === 'retryable' || kind === 'interrupted' || kind === 'locked';
}

/** What one cause has kept from being well: streams, or the streams of one destination. */
export interface Failure {
  readonly streams: readonly string[];
  /** Undefined if the streams themselves failed or are held. */
  readonly destination: string | undefined;
  readonly isHeld: boolean;
  readonly error: ReportedError;
  /** No repetition of the command mends it. */
  readonly needsPerson: boolean;
}

type Ended = Pick<JobReport, 'status' | 'streams' | 'destinations'> & {
  readonly warnings?: readonly ReportedWarning[] | undefined;
};

/** The error of a delivery that took place in part. */
function errorInPart({ refused, why }: JobReport['destinations'][number]): ReportedError {
  const [code, message] =
    refused > 0
      ? ['values_refused', `${formatCounted(refused, 'value')} cannot be held`]
      : ['delivery_differs', why || 'the table was not as recorded'];
  return { code, message, hint: refused > 0 ? 'see them: cdsync rejects' : null, request_id: null };
}

/** The causes of all that failed or is held, each once; a stream that needs another one has the cause of that one. */
export function failuresOf({ streams, destinations, warnings = [] }: Ended): Failure[] {
  const causes = new Map<string, Failure & { readonly streams: string[] }>();
  const add = (stream: string, error: ReportedError, { destination, isHeld = false }: Partial<Failure> = {}) => {
    if (error.code === 'dependency') return;
    // Each held result is decided for itself.
    const key = [destination ?? '', isHeld ? stream : '', causeOf(error)].join('\n');
    const needsPerson = isHeld || !mendsItself(error);
    const cause = causes.get(key) ?? { streams: [], destination, isHeld, error, needsPerson };
    if (!cause.streams.includes(stream)) cause.streams.push(stream);
    causes.set(key, cause);
  };
  for (const { name, status, error } of streams) if (error !== null) add(name, error, { isHeld: status === 'held' });
  const bad = new Set(streams.flatMap(({ name, error }) => (error === null ? [] : [name])));
  for (const delivery of destinations) {
    const { name: destination, stream, status, error } = delivery;
    // The reason that keeps the stream is reported with the stream.
    if (status === 'ok' || (status === 'not_tried' && (error === null || bad.has(stream)))) continue;
    if (error !== null) add(stream, error, { destination });
    else if (status !== 'skipped') add(stream, errorInPart(delivery), { destination });
  }
  // Of the job's storage: the only warning with which a run is not ok.
  const owed = warnings.filter(({ code }) => code === 'removal_owed');
  for (const warning of owed)
    causes.set(warning.code, {
      streams: [],
      destination: undefined,
      isHeld: false,
      error: { ...warning, hint: null, request_id: null },
      needsPerson: true,
    });
  return [...causes.values()];
}

/** Whether the same command alone may mend all that went wrong: `retry` of `--json`, CDSYNC_RETRY of `after`. */
export function mayRetry(report: Ended): boolean {
  if (report.status === 'ok') return false;
  const failures = failuresOf(report);
  if (failures.length === 0) return report.status === 'interrupted' || report.status === 'locked';
  return failures.every(({ needsPerson }) => !needsPerson);
}

/** The failure that decides what to do next: one that needs a person, before one that a repetition may mend. */
export function decisiveFailure(failures: readonly Failure[]): Failure | undefined {
  const rank = ({ needsPerson, isHeld, destination }: Failure) =>
    (needsPerson ? 0 : 10) + (isHeld ? 2 : destination === undefined ? 0 : 1);
  return [...failures].sort((a, b) => rank(a) - rank(b))[0];
}

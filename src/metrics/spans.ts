import { randomBytes } from 'node:crypto';
import type { DestinationReport } from '../core/run-report.js';
import { errorWithoutKeys, type RunResult } from '../notify/result.js';
import type { PhaseTime } from './phase-times.js';

/** A part of a run, with its times in milliseconds since the Unix epoch. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly facts: Readonly<Record<string, string | number>>;
  /** Set if the part failed. */
  readonly error?: { readonly code: string; readonly message: string };
}

/** When the phases of a run and of its streams began. */
export interface RunTimes {
  readonly run: readonly PhaseTime[];
  readonly streams: ReadonlyMap<string, readonly PhaseTime[]>;
}

const newId = (bytes: number) => randomBytes(bytes).toString('hex');

interface Above {
  readonly traceId: string;
  readonly spanId: string;
}

type Part = Omit<Span, 'traceId' | 'spanId' | 'parentId'>;

function below({ traceId, spanId }: Above, part: Part): Span {
  return { traceId, spanId: newId(8), parentId: spanId, ...part };
}

function failure(error: Span['error'] | null): Pick<Span, 'error'> {
  if (error == null) return {};
  const { code, message } = error;
  // Those of some guards begin with their names.
  return { error: { code, message: message.startsWith(`${code}: `) ? message : `${code}: ${message}` } };
}

/** A span for each phase; one that begins nothing (`waiting`, `done`, `failed`) has none. */
function phaseSpans(above: Above, times: readonly PhaseTime[], end: number): Span[] {
  return times.flatMap(({ phase, at }, index) => {
    if (/^(waiting|done|failed|skipped)$/.test(phase)) return [];
    return [below(above, { name: phase, from: at, to: Math.max(at, times[index + 1]?.at ?? end), facts: {} })];
  });
}

/** What was compared is done when the run commits. */
function committedAt({ run }: RunTimes, after: number, end: RunResult): number {
  return run.find(({ phase, at }) => phase === 'committing' && at >= after)?.at ?? end.finishedAt;
}

function streamSpans(run: Above, end: RunResult, times: RunTimes): Span[] {
  return end.streams.flatMap((stream) => {
    const noted = times.streams.get(stream.name) ?? [];
    const from = noted.find(({ phase }) => phase !== 'waiting')?.at ?? end.startedAt;
    const last = noted.at(-1);
    const hasEnded = last !== undefined && /^(done|failed)$/.test(last.phase);
    const { name, status, rows, inserted, updated, deleted, requests, pages, bytes } = stream;
    const counts = { rows, inserted, updated, deleted, requests, pages, bytes };
    const measured = Math.min(end.finishedAt, from + stream.seconds * 1000);
    const to = Math.max(from, hasEnded ? last.at : last === undefined ? measured : committedAt(times, last.at, end));
    const facts = {
      'cdsync.stream': name,
      'cdsync.status': status,
      ...Object.fromEntries(Object.entries(counts).map(([key, count]) => [`cdsync.${key}`, count])),
    };
    const span = below(run, { name: `stream ${name}`, from, to, facts, ...failure(errorWithoutKeys(stream)) });
    return [span, ...phaseSpans(span, noted, to)];
  });
}

/** Deliveries to one destination follow each other; those to several are at the same time. */
function destinationSpans(run: Above, end: RunResult, { run: times }: RunTimes): Span[] {
  const took = end.destinations.reduce((sum, { seconds }) => sum + seconds * 1000, 0);
  const began = times.find(({ phase }) => phase === 'delivering')?.at ?? Math.max(end.startedAt, end.finishedAt - took);
  const free = new Map<string, number>();
  return end.destinations.map(({ name, stream, status, rows, seconds, error }: DestinationReport) => {
    const from = Math.min(free.get(name) ?? began, end.finishedAt);
    const to = Math.min(from + seconds * 1000, end.finishedAt);
    free.set(name, to);
    const facts = { 'cdsync.destination': name, 'cdsync.stream': stream, 'cdsync.status': status, 'cdsync.rows': rows };
    return below(run, { name: `deliver ${stream} to ${name}`, from, to, facts, ...failure(error) });
  });
}

/** The spans of a run: the run, its phases, each stream with its phases, and each delivery. */
export function spansOf(end: RunResult, times: RunTimes): Span[] {
  const run: Span = {
    traceId: newId(16),
    spanId: newId(8),
    name: `run ${end.job}`,
    from: end.startedAt,
    to: end.finishedAt,
    facts: {
      'cdsync.job': end.job,
      'cdsync.status': end.status,
      ...(end.runId === null ? {} : { 'cdsync.run_id': end.runId }),
      ...(end.sequence === null ? {} : { 'cdsync.sequence': end.sequence }),
    },
    ...(end.error !== null
      ? failure(end.error)
      : end.status === 'failed' || end.status === 'partial'
        ? { error: { code: end.status, message: end.status } }
        : {}),
  };
  return [
    run,
    ...phaseSpans(run, times.run, end.finishedAt),
    ...streamSpans(run, end, times),
    ...destinationSpans(run, end, times),
  ];
}

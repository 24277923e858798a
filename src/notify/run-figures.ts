import type { JobReport, StreamReport } from '../core/run-report.js';

/** The totals of a run, for comparisons with other runs. Undefined if its report does not have them. */
interface RunFigures {
  readonly rows: number | undefined;
  readonly inserted: number | undefined;
  readonly updated: number | undefined;
  readonly deleted: number | undefined;
  readonly seconds: number;
  readonly requests: number;
  /** Bodies of responses, after decompression. */
  readonly bytes: number;
  /** Of the limit of requests, the part that was used while reading; 1 is all of it. */
  readonly budget: number | undefined;
}

function total(streams: readonly StreamReport[], of: (stream: StreamReport) => number | undefined): number {
  return streams.reduce((sum, stream) => sum + (of(stream) ?? 0), 0);
}

/** The part of its limit that a stream used: requests / (limit x seconds of extraction). A limit is one of whole seconds. */
export function streamBudget({ limit, requests, seconds }: StreamReport): number | undefined {
  if (limit === undefined || limit === null || !(seconds > 0)) return undefined;
  return requests / (limit.per_second * Math.max(1, seconds));
}

/** How much of the limit of one API a run used. */
interface UsedLimit extends NonNullable<StreamReport['limit']> {
  readonly part: number;
}

/** Streams are read side by side, so those of one limit are taken together, over the longest. */
export function usedLimits({ streams }: Pick<JobReport, 'streams'>): UsedLimit[] {
  const groups = new Map<string, StreamReport[]>();
  for (const stream of streams) {
    const { limit } = stream;
    if (limit) groups.set(limit.group, [...(groups.get(limit.group) ?? []), stream]);
  }
  return [...groups.values()].flatMap((group) => {
    const [first] = group as [StreamReport];
    const seconds = Math.max(...group.map((stream) => stream.seconds));
    const part = streamBudget({ ...first, requests: total(group, (stream) => stream.requests), seconds });
    return part === undefined || !first.limit ? [] : [{ ...first.limit, part }];
  });
}

/** Of several limits the fullest counts. */
export function runBudget(report: Pick<JobReport, 'streams'>): number | undefined {
  const shares = usedLimits(report).map(({ part }) => part);
  return shares.length === 0 ? undefined : Math.max(...shares);
}

/**
 * The rows that a stream's snapshot has after a run: those of the run if it committed them, or else those of the last run before that
 * did, because that snapshot is current. Undefined if these runs do not have it.
 */
export function previousRowCount(
  stream: string,
  report: Pick<JobReport, 'streams'>,
  before: readonly Pick<JobReport, 'streams'>[],
): number | undefined {
  const ofRun = ({ streams }: Pick<JobReport, 'streams'>) =>
    streams?.find(({ name, status }) => name === stream && status === 'ok')?.rows;
  const figure = ofRun(report);
  if (figure !== undefined) return figure;
  // Most streams are found in the first report: a page asks for each of them in each of its runs.
  for (const report of before) {
    const rows = ofRun(report);
    if (rows !== undefined) return rows;
  }
  return undefined;
}

/**
 * The figures of a run. Rows are those that the snapshots of the streams in `of` have after it, and only known if that is known of
 * all of them: the sum of some streams cannot be compared with that of all.
 * @param before reports of the runs before it, newest first
 */
export function runFigures(
  report: JobReport,
  of: readonly string[],
  before: readonly Pick<JobReport, 'streams'>[] = [],
): RunFigures {
  const streams = report.streams ?? [];
  const good = streams.filter(({ status }) => status === 'ok');
  const unchanged = of.flatMap((name) => previousRowCount(name, report, before) ?? []);
  const changes = (key: 'inserted' | 'updated' | 'deleted') =>
    good.length === 0 ? undefined : total(good, (stream) => stream[key]);
  return {
    rows: unchanged.length === of.length && of.length > 0 ? unchanged.reduce((sum, rows) => sum + rows, 0) : undefined,
    inserted: changes('inserted'),
    updated: changes('updated'),
    deleted: changes('deleted'),
    seconds: report.seconds ?? 0,
    requests: total(streams, ({ requests }) => requests),
    bytes: total(streams, ({ bytes }) => bytes),
    budget: runBudget({ streams }),
  };
}

import { formatCount, formatDuration, median } from '../core/quantities.js';
import type { StreamReport } from '../core/run-report.js';
import type { RunResult } from './result.js';

/** With fewer past runs, nothing is compared. */
const minRuns = 7;
/** How many runs of the past are looked at. */
export const comparedRuns = 30;
/** How many spreads away from the median a figure is unusual. Figures are compared by their ratios: they grow and shrink by factors. */
const spreads = 5;
/** Makes the median of absolute deviations of normal figures their standard deviation. */
const normalSpread = 1.4826;

/** One figure of a stream: which ones count, and how far it must be from its median at the very least. */
interface Figure {
  readonly name: 'rows' | 'inserted' | 'updated' | 'deleted' | 'seconds';
  of(stream: StreamReport): number;
  /** The least ratio to the median. */
  readonly factor: number;
  /** The least distance from the median. */
  distance(median: number): number;
  /** Only more than usual is reported: a faster run is no reason to worry. */
  readonly onlyMore: boolean;
  say(value: number): string;
}

/** Chance alone moves a count by about its square root; a dozen rows are no event. */
const chance = (median: number) => Math.max(10, 4 * Math.sqrt(median));

function changes(name: 'inserted' | 'updated' | 'deleted'): Figure {
  return { name, of: (stream) => stream[name], factor: 3, distance: chance, onlyMore: false, say: formatCount };
}

const figures: readonly Figure[] = [
  { name: 'rows', of: ({ rows }) => rows, factor: 1.1, distance: chance, onlyMore: false, say: formatCount },
  changes('inserted'),
  changes('updated'),
  changes('deleted'),
  {
    name: 'seconds',
    of: ({ seconds }) => seconds,
    factor: 2,
    distance: () => 60,
    onlyMore: true,
    say: (seconds) => formatDuration(seconds * 1000),
  },
];

/** A figure that is far from the stream's own past. */
export interface Anomaly {
  readonly stream: string;
  readonly figure: Figure['name'];
  readonly value: number;
  /** The median of the runs it was compared with, their least and their most, and their number. */
  readonly usual: number;
  readonly least: number;
  readonly most: number;
  readonly runs: number;
  /** All of it in words. */
  readonly message: string;
}

/** By how much two figures differ as a ratio: a logarithm, 0 if they are equal. */
function ratio(of: number, to: number): number {
  return Math.log1p(of) - Math.log1p(to);
}

/**
 * Whether a value is far from those of the past: beyond all of them, and further from their median than chance, their spread
 * and the figure's own least distances explain. Few numbers know little of their spread, so they must be exceeded by more.
 */
function isFar(value: number, past: readonly number[], { factor, distance, onlyMore }: Figure): boolean {
  if (past.length < minRuns) return false;
  const middle = median(past);
  const isMore = value > middle;
  if (!isMore && onlyMore) return false;
  const edge = isMore ? Math.max(...past) : Math.min(...past);
  if (isMore ? value <= edge : value >= edge) return false;
  const away = Math.abs(ratio(value, middle));
  const spread = normalSpread * median(past.map((value) => Math.abs(ratio(value, middle))));
  const reach = spreads * spread * (1 + minRuns / past.length);
  // A new record alone is nothing: it must also be well beyond the last one.
  const beyond = Math.abs(ratio(value, edge)) > Math.abs(ratio(edge, middle)) / 4;
  return beyond && away > Math.max(reach, Math.log(factor)) && Math.abs(value - middle) > distance(middle);
}

const verbs: Record<Figure['name'], string> = {
  rows: 'has rows:',
  inserted: 'inserted',
  updated: 'updated',
  deleted: 'deleted',
  seconds: 'took',
};

function anomalyOf(stream: StreamReport, past: readonly StreamReport[], figure: Figure): Anomaly | undefined {
  const values = past.map(figure.of);
  const value = figure.of(stream);
  if (!isFar(value, values, figure)) return undefined;
  const [usual, least, most] = [median(values), Math.min(...values), Math.max(...values)];
  const { name, say } = figure;
  const never = value > most ? `never above ${say(most)}` : `never below ${say(least)}`;
  const shown = name === 'seconds' ? say(usual) : say(Math.round(usual));
  const message = `${stream.name}: ${verbs[name]} ${say(value)}; usually ${shown} (in the last ${values.length} runs ${never})`;
  return { stream: stream.name, figure: name, value, usual, least, most, runs: values.length, message };
}

/** Whether the time of a reading can be compared: it was complete, and used the record cache. */
function isTimed(stream: StreamReport, resumed: boolean): boolean {
  return !resumed && stream.unrecognised === null;
}

/**
 * The figures of a run that are far from the past of their streams. Only committed figures are compared, with committed figures;
 * a stream with fewer than seven such runs has no past yet.
 * @param past reports of the job's runs, newest first; the run itself may be among them
 */
export function detectAnomalies(
  end: Pick<RunResult, 'runId' | 'streams' | 'resumed'>,
  past: readonly { readonly run_id: string; readonly resumed: boolean; readonly streams: readonly StreamReport[] }[],
): Anomaly[] {
  const earlier = past.filter(({ run_id }) => run_id !== end.runId).slice(0, comparedRuns);
  return end.streams.flatMap((stream) => {
    if (stream.status !== 'ok') return [];
    const same = earlier.flatMap(({ streams, resumed }) =>
      streams.flatMap((report) => (report.name === stream.name && report.status === 'ok' ? [{ report, resumed }] : [])),
    );
    const incrementalRuns = withoutFirst(same);
    return figures.flatMap((figure) => {
      const isTime = figure.name === 'seconds';
      if (isTime && !isTimed(stream, end.resumed)) return [];
      const compared = isTime
        ? incrementalRuns.filter(({ report, resumed }) => isTimed(report, resumed))
        : incrementalRuns;
      return (
        anomalyOf(
          stream,
          compared.map(({ report }) => report),
          figure,
        ) ?? []
      );
    });
  });
}

/** The past without the run that inserted everything: it says nothing of runs. A list that only grows inserts all it reads. */
function withoutFirst<R extends { readonly report: StreamReport }>(past: readonly R[]): readonly R[] {
  const isIncremental = ({ report }: R) => report.inserted < report.rows;
  return past.some(isIncremental) ? past.filter((run) => isIncremental(run) || run.report.rows === 0) : past;
}

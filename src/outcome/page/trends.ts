import { formatBytes, formatCount, formatDuration } from '../../core/quantities.js';
import type { PastRun } from '../past-runs.js';
import { type RunFigures, runFigures, streamsWithRows } from '../run-figures.js';
import { type Html, html } from './html.js';
import { type Plot, type Point, plotFigure } from './plot.js';
import { briefBytes, briefTime, moment, percent, shortDay } from './words.js';

/** The most runs that a page compares, the one that it is about among them. */
export const comparedRuns = 30;

type Figure = Pick<Plot, 'title' | 'what' | 'as' | 'format' | 'formatAxis'> & { readonly of: keyof RunFigures };

const count = (value: number) => formatCount(Math.round(value));
const time = (seconds: number) => formatDuration(seconds * 1000);

const figures: readonly Figure[] = [
  { title: 'Rows', what: 'rows of all streams', as: 'line', of: 'rows', format: count },
  { title: 'Inserted', what: 'inserted rows', as: 'bars', of: 'inserted', format: count },
  { title: 'Updated', what: 'updated rows', as: 'bars', of: 'updated', format: count },
  { title: 'Deleted', what: 'deleted rows', as: 'bars', of: 'deleted', format: count },
  { title: 'Time', what: 'time', as: 'bars', of: 'seconds', format: time, formatAxis: briefTime },
  { title: 'Requests', what: 'requests', as: 'bars', of: 'requests', format: count },
  { title: 'Received', what: 'received bytes', as: 'bars', of: 'bytes', format: formatBytes, formatAxis: briefBytes },
  {
    title: 'Share of the budget',
    what: 'share of the request budget',
    as: 'bars',
    of: 'budget',
    format: percent,
    formatAxis: percent,
  },
];

const bad: readonly string[] = ['failed', 'held', 'interrupted', 'partial'];

/** @param past the run, and those before it, newest first */
function pointOf(past: readonly [PastRun, ...PastRun[]], streams: readonly string[], of: keyof RunFigures): Point {
  const [{ report, startedAt }, ...before] = past;
  const { status } = report;
  const isBad = bad.includes(status);
  return {
    value: runFigures(
      report,
      streams,
      before.map((run) => run.report),
    )[of],
    label: `${moment(startedAt)}${isBad ? ` (${status})` : ''}`,
    day: shortDay(startedAt),
    isBad,
  };
}

/** How the newest of these runs compares with those before it. `past` has the newest first. */
export function trends(past: readonly PastRun[], only?: readonly (keyof RunFigures)[]): Html {
  const [newest, ...others] = past.map(({ report }) => report);
  const streams = newest === undefined ? [] : streamsWithRows(newest, others);
  const shown = figures.filter(({ of }) => only === undefined || only.includes(of));
  const oldestFirst = past.map((_, index) => past.slice(index) as [PastRun, ...PastRun[]]).reverse();
  const plots = shown.map(({ of, ...plot }) =>
    plotFigure({ ...plot, points: oldestFirst.map((run) => pointOf(run, streams, of)) }),
  );
  const hasBad = past.some(({ report }) => bad.includes(report.status));
  const note = html`<p class="note">The marked run is this one; the dashed line is the median of the runs before it.${
    hasBad ? ' A cross is a run that did not end well.' : ''
  }</p>`;
  return html`${past.length > 1 ? note : undefined}<div class="plots">${plots}</div>`;
}

import { formatCount, formatDuration } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import { previousRowCount, runFigures } from '../notify/run-figures.js';
import type { PastRun } from '../storage/reports.js';
import { changedRows, isFirstLoad } from './changes.js';
import { brief, briefTime, clockTime, moment, shortDay } from './format.js';
import { type Html, html, name } from './html.js';
import { type Plot, type Point, plotFigure } from './plot.js';

/** The most runs that a page compares, the one that it is about among them. */
export const plottedRuns = 30;
/** The most streams that have plots of their own. */
const plottedStreams = 3;

/** A figure of a run, given the reports of the runs before it, newest first. */
type Figure = (
  report: JobReport,
  before: readonly JobReport[],
) => { readonly value: number | undefined; readonly remark?: string };

/** Lines move little: their axes need all digits, as long as they fit. */
const axisRows = (value: number) => (value < 1e6 ? formatCount(Math.round(value)) : brief(value));
const count = (value: number) => formatCount(Math.round(value));
const time = (seconds: number) => formatDuration(seconds * 1000);

const bad: readonly string[] = ['failed', 'held', 'interrupted', 'partial'];

/** The rows that were changed. A first load changed none. */
function changesOf(stream: string): Figure {
  return (report, before) => {
    const streamReport = report.streams?.find((report) => report.name === stream && report.status === 'ok');
    if (streamReport === undefined) return { value: undefined };
    return isFirstLoad(streamReport, before)
      ? { value: undefined, remark: 'first load' }
      : { value: changedRows(streamReport) };
  };
}

/** The largest of the streams that changed in any of these runs. */
function plotted(report: JobReport | undefined, before: readonly JobReport[]): string[] {
  if (report === undefined) return [];
  const counts = (report.streams ?? []).flatMap(({ name: stream }) => {
    const rows = previousRowCount(stream, report, before);
    const runs = [report, ...before];
    const hasChanged = runs.some((run, index) => (changesOf(stream)(run, runs.slice(index + 1)).value ?? 0) > 0);
    return rows === undefined || !hasChanged ? [] : [{ stream, rows }];
  });
  return counts
    .sort((a, b) => b.rows - a.rows)
    .slice(0, plottedStreams)
    .map(({ stream }) => stream);
}

/** @param past the run, and those before it, newest first */
function pointOf([{ report, startedAt }, ...before]: readonly [PastRun, ...PastRun[]], of: Figure): Point {
  const { status } = report;
  const isBad = bad.includes(status);
  const { value, remark } = of(
    report,
    before.map((run) => run.report),
  );
  const said = [...(isBad ? [status] : []), ...(remark === undefined ? [] : [remark])].join(', ');
  return {
    value,
    label: `${moment(startedAt)}${said === '' ? '' : ` (${said})`}`,
    day: shortDay(startedAt),
    time: clockTime(startedAt),
    isBad,
  };
}

/** How the newest of these runs compares with those before it. `past` has the newest first. */
export function trends(past: readonly PastRun[]): Html {
  const [newest, ...others] = past.map(({ report }) => report);
  const oldestFirst = past.map((_, index) => past.slice(index) as [PastRun, ...PastRun[]]).reverse();
  const plot = (about: Omit<Plot, 'points'>, of: Figure) =>
    plotFigure({ ...about, points: oldestFirst.map((run) => pointOf(run, of)) });
  const ofStreams = plotted(newest, others).flatMap((stream) => [
    plot(
      { title: html`${name(stream)}: changes`, what: `changed rows of ${stream}`, as: 'bars', format: count },
      changesOf(stream),
    ),
    plot(
      {
        title: html`${name(stream)}: rows`,
        what: `rows of ${stream}`,
        as: 'line',
        format: count,
        formatAxis: axisRows,
      },
      (report, before) => ({ value: previousRowCount(stream, report, before) }),
    ),
  ]);
  const ofRun = [
    plot({ title: html`Time`, what: 'time', as: 'bars', format: time, formatAxis: briefTime }, (report) => ({
      value: report.seconds ?? 0,
    })),
    plot({ title: html`Requests`, what: 'requests', as: 'bars', format: count }, (report) => ({
      value: runFigures(report, []).requests,
    })),
  ];
  const hasBad = past.some(({ report }) => bad.includes(report.status));
  const note = html`<p class="note">The marked run is this one; the dashed line is the median of the runs before it. A bar with two strokes is higher than the axis.${
    hasBad ? ' A cross is a run that was not ok.' : ''
  }</p>`;
  return html`${past.length > 1 ? note : undefined}<div class="plots">${ofStreams}${ofRun}</div>`;
}

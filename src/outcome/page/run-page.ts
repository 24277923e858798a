import { type CommandPlace, completed } from '../../core/hinted-commands.js';
import { formatBytes, formatCount, formatCounted, formatDuration } from '../../core/quantities.js';
import type { JobReport } from '../../core/run.js';
import type { DestinationStatus } from '../../deliver/destination-status.js';
import type { ColumnFigures } from '../column-figures.js';
import type { PastRun } from '../past-runs.js';
import { runFigures, streamsWithRows } from '../run-figures.js';
import { columnTables } from './columns.js';
import { pageDocument } from './document.js';
import { destinationTable, freshnessTable } from './freshness.js';
import { type Html, html, name } from './html.js';
import { problemBoxes } from './problems.js';
import { streamTable } from './streams.js';
import { trends } from './trends.js';
import { moment, percent, statusWords } from './words.js';

/** All that a page about a run shows. */
export interface RunPage {
  /** The run, then the runs before it, newest first. */
  readonly past: readonly [PastRun, ...PastRun[]];
  readonly figures: ColumnFigures | undefined;
  /** The streams of this run that are still held. */
  readonly held: ReadonlySet<string>;
  /** What the destinations have now; undefined if that is not known. */
  readonly destinations: readonly DestinationStatus[] | undefined;
  /** What the commands on the page work on. */
  readonly place: CommandPlace;
  /** When the page is made, in milliseconds since the Unix epoch. */
  readonly now: number;
}

function changesSentence({ inserted, updated, deleted }: ReturnType<typeof runFigures>): string {
  if (inserted === undefined) return 'No stream was brought up to date.';
  if ((inserted ?? 0) + (updated ?? 0) + (deleted ?? 0) === 0) return 'Nothing changed.';
  return `${formatCounted(inserted, 'row')} inserted, ${formatCount(updated ?? 0)} updated, ${formatCount(deleted ?? 0)} deleted.`;
}

/** What the run did, in a sentence or two. */
function lead(report: JobReport): string {
  const streams = report.streams ?? [];
  const of = (status: string) => streams.filter((stream) => stream.status === status).length;
  const parts = [changesSentence(runFigures(report, []))];
  const [held, failed] = [of('held'), of('failed')];
  if (failed > 0)
    parts.push(`${failed} of ${formatCounted(streams.length, 'stream')} failed and kept the snapshot from before.`);
  if (held > 0)
    parts.push(
      `${held === 1 ? 'One stream is' : `${held} streams are`} held by a guard, and nothing of ${held === 1 ? 'it' : 'them'} was published.`,
    );
  const undelivered = (report.destinations ?? []).filter(({ status }) => status === 'failed' || status === 'partial');
  const late = new Set(undelivered.map((each) => each.name)).size;
  if (late > 0) parts.push(`${late === 1 ? 'One destination' : `${late} destinations`} did not get everything.`);
  if (report.status === 'interrupted') parts.push('The run was stopped; the next one resumes what it had read.');
  return parts.join(' ');
}

function fact(term: string, value: string, small?: string): Html {
  return html`<div><dt>${term}</dt><dd>${value}${small === undefined ? undefined : html`<small>${small}</small>`}</dd></div>`;
}

function facts([{ report }, ...before]: RunPage['past']): Html {
  const streams = report.streams ?? [];
  const earlier = before.map((run) => run.report);
  const counted = streamsWithRows(report, earlier);
  const figures = runFigures(report, counted, earlier);
  const sum = (of: 'retries' | 'throttled' | 'bytes' | 'pages') =>
    streams.reduce((all, stream) => all + (stream[of] ?? 0), 0);
  const limits = [...new Set(streams.flatMap(({ limit }) => (limit ? [`${formatCount(limit.per_second)}/s`] : [])))];
  const again = sum('retries');
  return html`<dl class="facts">${[
    fact('Time', formatDuration((report.seconds ?? 0) * 1000), report.resumed ? 'resumed an earlier run' : undefined),
    fact(
      'Rows',
      figures.rows === undefined ? 'not known' : formatCount(figures.rows),
      formatCounted(figures.rows === undefined ? streams.length : counted.length, 'stream'),
    ),
    fact('Snapshot', report.sequence === null ? 'none yet' : formatCount(report.sequence)),
    fact(
      'Requests',
      formatCount(figures.requests),
      again > 0 ? `${formatCount(again)} sent again, ${formatCount(sum('throttled'))} for 429` : undefined,
    ),
    fact(
      'Share of the budget',
      figures.budget === undefined ? 'not known' : percent(figures.budget),
      limits.length === 0 ? undefined : `limit ${limits.join(', ')}`,
    ),
    fact('Received', formatBytes(sum('bytes')), formatCounted(sum('pages'), 'page')),
  ]}</dl>`;
}

function section(title: string, content: Html | undefined): Html | undefined {
  return content === undefined ? undefined : html`<section><h2>${title}</h2>${content}</section>`;
}

/** The page about one run, as a self-contained file. No value of a record is in it. */
export function runPage(page: RunPage): string {
  const { past, figures, held, destinations, place, now } = page;
  const [{ report, startedAt }] = past;
  const streams = (report.streams ?? []).map((stream) => stream.name);
  const when = moment(startedAt);
  const comparison =
    past.length > 1
      ? `Compared with the ${past.length === 2 ? 'run' : `${past.length - 1} runs`} before`
      : 'The first run';
  return pageDocument({
    title: `${report.job}: ${when}`,
    header: html`<nav><a href="index.html">All runs of ${name(report.job)}</a></nav><h1>${name(report.job)}</h1><p class="when">${statusWords(report.status, { pill: true })}<span>Run of ${when} UTC</span></p><p class="lead">${lead(report)}</p>${facts(past)}`,
    main: html`${problemBoxes(report, place, held)}${section(comparison, trends(past))}${section(
      'Streams',
      streamTable(
        report.streams ?? [],
        past.slice(1).map((run) => run.report),
      ),
    )}${section('Columns', columnTables(figures, streams))}${section('Freshness', freshnessTable(streams, past, figures, now))}${section('Destinations', destinationTable(report.destinations ?? [], destinations))}`,
    footer: html`<p>Run <code>${report.run_id}</code>. Made by cdsync at ${moment(now)} UTC; ages and lags are of that time. To make it again: <code>${completed(`cdsync report ${report.run_id}`, place)}</code></p>`,
  });
}

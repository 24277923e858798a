import { type CommandPlace, completed } from '../core/command-hints.js';
import { apiNames } from '../core/deprecation.js';
import { formatBytes, formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import type { DestinationStatus } from '../delivery/lag-words.js';
import { runBudget, usedLimits } from '../notify/run-figures.js';
import type { PastRun } from '../storage/reports.js';
import { changesSection, firstLoadSection, isFirstRun } from './changes.js';
import type { ColumnFigures } from './column-figures.js';
import { changedColumns, columnTables } from './columns.js';
import { pageDocument } from './document.js';
import { moment, percent, statusWords } from './format.js';
import { destinationTable, freshnessTable } from './freshness.js';
import { type Html, html, name } from './html.js';
import { lead } from './lead.js';
import { problemBoxes } from './problems.js';
import { streamTable } from './streams.js';
import { trends } from './trends.js';

function fact(term: string, value: string, small?: string): Html {
  return html`<div><dt>${term}</dt><dd>${value}${small === undefined ? undefined : html`<small>${small}</small>`}</dd></div>`;
}

/** How the run went: time, requests, how much of the limits it used. */
function runDetails(report: JobReport): Html {
  const streams = report.streams ?? [];
  const sum = (of: 'requests' | 'retries' | 'throttled' | 'bytes' | 'pages') =>
    streams.reduce((all, stream) => all + (stream[of] ?? 0), 0);
  // The requests at both ends of a second may be those of two.
  const shown = (part: number) => percent(Math.min(1, part));
  const named = usedLimits({ streams }).map(
    ({ group, per_second: most, part }) => `${apiNames[group]}: ${shown(part)} of ${formatCount(most)} a second`,
  );
  const again = sum('retries');
  const budget = runBudget({ streams });
  return html`<dl class="details">${[
    fact('Time', formatDuration((report.seconds ?? 0) * 1000), report.resumed ? 'resumed an earlier run' : undefined),
    fact('Snapshot', report.sequence === null ? 'none yet' : formatCount(report.sequence)),
    fact(
      'Requests',
      formatCount(sum('requests')),
      again > 0 ? `${formatCount(again)} sent again, ${formatCount(sum('throttled'))} for 429` : undefined,
    ),
    fact('Received', formatBytes(sum('bytes')), formatCounted(sum('pages'), 'page')),
    fact(
      'Share of the limit',
      budget === undefined ? 'not known' : shown(budget),
      named.length === 0 ? undefined : named.join('; '),
    ),
  ]}</dl>`;
}

/** All that a page about a run shows. */
interface RunPage {
  /** The run, then the runs before it, newest first. */
  readonly past: readonly [PastRun, ...PastRun[]];
  readonly figures: ColumnFigures | undefined;
  /** The streams of this run that are still held. */
  readonly held: ReadonlySet<string>;
  /** The current state of the destinations; undefined if unknown. */
  readonly destinations: readonly DestinationStatus[] | undefined;
  /** The file and job of the commands on the page. */
  readonly place: CommandPlace;
  /** When the page is made, in milliseconds since the Unix epoch. */
  readonly now: number;
}

function section(title: string, content: Html | undefined): Html | undefined {
  return content === undefined ? undefined : html`<section><h2>${title}</h2>${content}</section>`;
}

/**
 * The page about one run, as a self-contained file: what changed, what needs attention, how fresh it is, then the details. No value
 * of a record is in it.
 */
export function runPage(page: RunPage): string {
  const { past, figures, held, destinations, place, now } = page;
  const [{ report, startedAt }, ...earlier] = past;
  const before = earlier.map((run) => run.report);
  const streams = (report.streams ?? []).map((stream) => stream.name);
  const when = moment(startedAt);
  const isFirst = isFirstRun(report, before);
  const comparison = past.length === 2 ? 'Beside the run before' : `Beside the ${past.length - 1} runs before`;
  return pageDocument({
    title: `${report.job}: ${when}`,
    header: html`<nav><a href="index.html">All runs of ${name(report.job)}</a></nav><h1>${name(report.job)}</h1><p class="when">${statusWords(report.status, { pill: true })}<span>Run of ${when} UTC</span></p>${lead(report, before)}`,
    main: html`${problemBoxes(report, place, held)}${isFirst ? firstLoadSection(report, figures) : changesSection(report, before)}${section(
      'Freshness',
      freshnessTable(streams, past, figures),
    )}${section('Destinations', destinationTable(report.destinations ?? [], destinations, now))}${section('Columns that changed', isFirst ? undefined : changedColumns(figures, streams))}${section(
      comparison,
      past.length > 1 ? trends(past) : undefined,
    )}${section('Columns', columnTables(figures, streams, isFirst))}<section><h2>How it ran</h2>${runDetails(report)}<details><summary>Requests, pages and time of each stream</summary>${streamTable(report, before)}</details></section>`,
    footer: html`<p>Run <code>${report.run_id}</code>. Made by cdsync at ${moment(now)} UTC. To make it again: <code>${completed(`cdsync report ${report.run_id}`, place)}</code></p>`,
  });
}

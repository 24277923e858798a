import { formatCount, formatDuration } from '../../core/quantities.js';
import type { PastRun } from '../past-runs.js';
import { runFigures, streamsWithRows } from '../run-figures.js';
import { pageDocument } from './document.js';
import { type Html, html, name, Html as Raw } from './html.js';
import { table } from './streams.js';
import { comparedRuns, trends } from './trends.js';
import { moment, percent, statusWords } from './words.js';

/** Raise it with every change of a row: rows of other versions are made again. */
const rowsVersion = 'rows-2';
/** The most runs that are listed: more would make the page slow to open. */
export const listedRuns = 1000;

const heads = [
  'Run (UTC)',
  'Status',
  ...['Rows', 'Inserted', 'Updated', 'Deleted', 'Requests', 'Budget', 'Time'].map((n) => ({ n })),
];

/**
 * The row of a run: one line, so that the next page can take it from this one.
 * @param before the runs before it, newest first, as far as they are at hand
 */
export function indexRow({ report, startedAt }: PastRun, hasPage: boolean, before: readonly PastRun[] = []): string {
  const earlier = before.map((run) => run.report);
  const figures = runFigures(report, streamsWithRows(report, earlier), earlier);
  const { rows, inserted, updated, deleted, requests, budget, seconds } = figures;
  const when = moment(startedAt);
  const cell = (value: number | undefined) =>
    html`<td class="n${value ? '' : ' zero'}">${value === undefined ? '–' : formatCount(value)}</td>`;
  const title = hasPage ? html`<a href="${report.run_id}.html">${when}</a>` : html`${when}`;
  return html`<tr data-run="${report.run_id}"><th scope="row">${title}</th><td>${statusWords(report.status)}</td>${[rows, inserted, updated, deleted, requests].map(cell)}<td class="n">${
    budget === undefined ? '–' : percent(budget)
  }</td><td class="n">${formatDuration(seconds * 1000)}</td></tr>`.text.replaceAll('\n', ' ');
}

/** The rows of an earlier index page, by run. None if its rows are made differently now. */
export function rowsOf(page: string): Map<string, string> {
  if (!page.includes(`<!-- ${rowsVersion} -->`)) return new Map();
  return new Map(
    [...page.matchAll(/^<tr data-run="([0-9TZa-f-]+)">.*<\/tr>$/gm)].map(([row, runId]) => [runId as string, row]),
  );
}

export interface IndexPage {
  readonly job: string;
  /** The newest runs, newest first. */
  readonly past: readonly PastRun[];
  /** Rows of {@link indexRow}, newest first. */
  readonly rows: readonly string[];
  /** Runs that are too old to be listed. */
  readonly older: number;
  /** Streams of the newest run, with the time since each was last read, in words. */
  readonly now: number;
}

function newest({ past, now }: IndexPage): Html {
  const [last] = past;
  if (last === undefined) return html`<p class="lead">No run has ended yet.</p>`;
  const good = past.find(({ report }) => report.status === 'ok');
  const age =
    good === undefined
      ? 'None of the last runs was done in full.'
      : `The last run that was done in full began ${formatDuration(Math.max(0, now - good.startedAt))} before this page was made.`;
  return html`<p class="when">${statusWords(last.report.status, { pill: true })}</p><p class="lead">The last run began on <a href="${last.report.run_id}.html">${moment(last.startedAt)}</a> UTC. ${age}</p>`;
}

/** The page that lists the runs of a job. */
export function indexPage(page: IndexPage): string {
  const { job, past, rows, older, now } = page;
  const lines = new Raw(`<!-- ${rowsVersion} -->\n${rows.join('\n')}\n`);
  return pageDocument({
    title: `${job}: runs`,
    header: html`<h1>${name(job)}</h1>${newest(page)}`,
    main: html`${past.length > 1 ? html`<section><h2>The last ${Math.min(past.length, comparedRuns)} runs</h2>${trends(past)}</section>` : undefined}<section><h2>All runs</h2>${table('Runs', heads, [lines])}${
      older > 0
        ? html`<p class="note">${formatCount(older)} older runs are not listed; their reports are in this folder.</p>`
        : undefined
    }</section>`,
    footer: html`<p>Made by cdsync at ${moment(now)} UTC, after the last run.</p>`,
  });
}

import { formatCount, formatDuration } from '../core/quantities.js';
import type { PastRun } from '../storage/past-runs.js';
import { pageDocument } from './document.js';
import { moment, statusWords } from './format.js';
import { type Html, html, name, Html as Raw } from './html.js';
import { lead } from './lead.js';
import { runSummary } from './run-summary.js';
import { table } from './streams.js';
import { comparedRuns, trends } from './trends.js';

/** Raise it with every change of a row: rows of other versions are made again. */
const rowsVersion = 'rows-3';
/** The most runs that are listed: more would make the page slow to open. */
export const listedRuns = 1000;

const heads = ['Run (UTC)', 'Status', 'What happened', { n: 'Time' }];

/**
 * The row of a run: one line, so that the next page can take it from this one.
 * @param before the runs before it, newest first, as far as they are available
 */
export function indexRow({ report, startedAt }: PastRun, hasPage: boolean, before: readonly PastRun[] = []): string {
  const summary = runSummary(
    report,
    before.map((run) => run.report),
  );
  const when = moment(startedAt);
  const title = hasPage ? html`<a href="${report.run_id}.html">${when}</a>` : html`${when}`;
  return html`<tr data-run="${report.run_id}"><th scope="row">${title}</th><td>${statusWords(report.status)}</td><td class="why">${summary}</td><td class="n">${formatDuration((report.seconds ?? 0) * 1000)}</td></tr>`.text.replaceAll(
    '\n',
    ' ',
  );
}

/** The rows of an earlier index page, by run. None if its rows are made differently now. */
export function rowsOf(page: string): Map<string, string> {
  if (!page.includes(`<!-- ${rowsVersion} -->`)) return new Map();
  return new Map(
    [...page.matchAll(/^<tr data-run="([0-9TZa-f-]+)">.*<\/tr>$/gm)].map(([row, runId]) => [runId as string, row]),
  );
}

interface IndexPage {
  readonly job: string;
  /** The newest runs, newest first. */
  readonly past: readonly PastRun[];
  /** Rows of {@link indexRow}, newest first. */
  readonly rows: readonly string[];
  /** Runs that are too old to be listed. */
  readonly older: number;
  /** When the page is made, in milliseconds since the Unix epoch. */
  readonly now: number;
}

function newest({ past }: IndexPage): Html {
  const [last, ...before] = past;
  if (last === undefined) return html`<p class="lead">No run has ended yet.</p>`;
  const good = past.find(({ report }) => report.status === 'ok');
  const lastGood =
    last.report.status === 'ok'
      ? ''
      : good === undefined
        ? ' None of the last runs was ok.'
        : ` The last run that was ok: ${moment(good.startedAt)} UTC.`;
  const summary = lead(
    last.report,
    before.map((run) => run.report),
  );
  return html`<p class="when">${statusWords(last.report.status, { pill: true })}<span>Last run: <a href="${last.report.run_id}.html">${moment(last.startedAt)}</a> UTC.${lastGood}</span></p><p class="lead">${summary}</p>`;
}

/** The page that lists the runs of a job. */
export function indexPage(page: IndexPage): string {
  const { job, past, rows, older, now } = page;
  const lines = new Raw(`<!-- ${rowsVersion} -->\n${rows.join('\n')}\n`);
  return pageDocument({
    title: `${job}: runs`,
    header: html`<h1>${name(job)}</h1>${newest(page)}`,
    main: html`<section><h2>All runs</h2>${table('Runs', heads, [lines])}${
      older > 0
        ? html`<p class="note">${formatCount(older)} older runs are not listed; their reports are in this folder.</p>`
        : undefined
    }</section>${past.length > 1 ? html`<section><h2>The last ${Math.min(past.length, comparedRuns)} runs</h2>${trends(past)}</section>` : undefined}`,
    footer: html`<p>Made by cdsync at ${moment(now)} UTC, after the last run.</p>`,
  });
}

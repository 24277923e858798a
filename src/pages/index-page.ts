import { formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import { type JobReport, withoutTries } from '../core/run-report.js';
import { countedSchemaChanges } from '../core/schema-change.js';
import { errorWithoutKeys } from '../notify/result.js';
import type { PastRun } from '../storage/reports.js';
import { changedStreams, changeWords, type EarlierReports, isFirstRun } from './changes.js';
import { pageDocument } from './document.js';
import { moment, oneLine, statusWords } from './format.js';
import { type Html, html, name, Html as Raw } from './html.js';
import { lead } from './lead.js';
import { table } from './streams.js';
import { plottedRuns, trends } from './trends.js';

/** The most characters of a reason, and the most streams that a row names. */
const maxCharacters = 160;
const maxNamed = 3;

/** Which streams and destinations are not ok, and why; one cause is named once. */
function troubles(report: JobReport): Html[] {
  const causes = new Map<string, { status: string; message: string; who: string[] }>();
  const add = (who: string, status: string, message: string | undefined) => {
    const text = oneLine(withoutTries(message ?? 'the report has no reason'), maxCharacters);
    const cause = causes.get(`${status} ${text}`) ?? { status, message: text, who: [] };
    causes.set(`${status} ${text}`, { ...cause, who: [...new Set([...cause.who, who])] });
  };
  // Another stream is the reason of such a failure, and is named itself.
  for (const stream of report.streams ?? [])
    if ((stream.status === 'held' || stream.status === 'failed') && stream.error?.code !== 'dependency')
      add(stream.name, stream.status, errorWithoutKeys(stream)?.message);
  for (const { name: who, status, error } of report.destinations ?? [])
    if (status === 'failed' || status === 'partial') add(who, status, error?.message);
  return [...causes.values()].slice(0, maxNamed).map(({ status, message, who }) => {
    const more = who.length > maxNamed ? ` and ${who.length - maxNamed} more` : '';
    const named = who.slice(0, maxNamed).map((runName, index) => html`${index === 0 ? '' : ', '}${name(runName)}`);
    return html`${named}${more} ${status}: ${message}`;
  });
}

function changes(report: JobReport, before: EarlierReports): Html[] {
  if (isFirstRun(report, before)) return [html`first load`];
  const changed = changedStreams(report, before);
  const named = changed.slice(0, maxNamed).map((stream) => html`${name(stream.name)}: ${changeWords(stream)}`);
  const more = changed.length - named.length;
  return [...named, ...(more > 0 ? [html`${formatCounted(more, 'more stream')} changed`] : [])];
}

/** The result of a run in a cell of a table: failures and why, then changes. */
function runSummary(report: JobReport, before: EarlierReports): Html {
  const columns = (report.streams ?? []).flatMap(countedSchemaChanges).length;
  const parts = [
    ...troubles(report),
    ...changes(report, before),
    ...(columns > 0 && !isFirstRun(report, before)
      ? [html`${formatCounted(columns, 'column')} new or of another type`]
      : []),
    ...((report.deprecations ?? []).length > 0 ? [html`an API version is deprecated`] : []),
  ];
  return parts.length === 0
    ? html`nothing changed`
    : html`${parts.map((part, index) => html`${index === 0 ? '' : '; '}${part}`)}`;
}

/** Raise it with every change of a row: rows of other versions are made again. */
const rowsVersion = 'rows-5';
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
  return html`<p class="when">${statusWords(last.report.status, { pill: true })}<span>Last run: <a href="${last.report.run_id}.html">${moment(last.startedAt)}</a> UTC.${lastGood}</span></p>${summary}`;
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
    }</section>${past.length > 1 ? html`<section><h2>The last ${Math.min(past.length, plottedRuns)} runs</h2>${trends(past)}</section>` : undefined}`,
    footer: html`<p>Made by cdsync at ${moment(now)} UTC, after the last run.</p>`,
  });
}

import { formatCounted } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import { countedSchemaChanges } from '../core/schema-change.js';
import { errorWithoutKeys } from '../notify/result.js';
import { changedStreams, changeWords, type EarlierReports, isFirstRun } from './changes.js';
import { type Html, html, name } from './html.js';

/** The most characters of a reason, and the most streams that a row names. */
const mostCharacters = 160;
const mostNamed = 3;

function cut(text: string): string {
  return text.length <= mostCharacters ? text : `${text.slice(0, mostCharacters)}…`;
}

/** Which streams and destinations are not ok, and why; one cause is named once. */
function troubles(report: JobReport): Html[] {
  const causes = new Map<string, { status: string; message: string; who: string[] }>();
  const add = (who: string, status: string, message: string | undefined) => {
    const text = cut(message ?? 'the report has no reason');
    const cause = causes.get(`${status} ${text}`) ?? { status, message: text, who: [] };
    causes.set(`${status} ${text}`, { ...cause, who: [...new Set([...cause.who, who])] });
  };
  // Another stream is the reason of such a failure, and is named itself.
  for (const stream of report.streams ?? [])
    if ((stream.status === 'held' || stream.status === 'failed') && stream.error?.code !== 'dependency')
      add(
        stream.name,
        stream.status,
        stream.status === 'held' && (stream.findings ?? []).length === 0
          ? stream.error?.code
          : errorWithoutKeys(stream)?.message,
      );
  for (const { name: who, status, error } of report.destinations ?? [])
    if (status === 'failed' || status === 'partial') add(who, status, error?.message);
  return [...causes.values()].slice(0, mostNamed).map(({ status, message, who }) => {
    const more = who.length > mostNamed ? ` and ${who.length - mostNamed} more` : '';
    const named = who.slice(0, mostNamed).map((each, index) => html`${index === 0 ? '' : ', '}${name(each)}`);
    return html`${named}${more} ${status}: ${message}`;
  });
}

function changes(report: JobReport, before: EarlierReports): Html[] {
  if (isFirstRun(report, before)) return [html`first load`];
  const changed = changedStreams(report, before);
  const named = changed.slice(0, mostNamed).map((stream) => html`${name(stream.name)}: ${changeWords(stream)}`);
  const more = changed.length - named.length;
  return [...named, ...(more > 0 ? [html`${formatCounted(more, 'more stream')} changed`] : [])];
}

/** The result of a run in a cell of a table: failures and why, then changes. */
export function runSummary(report: JobReport, before: EarlierReports): Html {
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

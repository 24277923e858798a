import { formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { JobReport, StreamReport } from '../core/run-report.js';
import { countedSchemaChanges, schemaLines } from '../core/schema-change.js';
import { previousRowCount } from '../notify/run-figures.js';
import type { ColumnFigures } from './column-figures.js';
import { statusWords } from './format.js';
import { type Html, html, name } from './html.js';
import { countCell, table } from './streams.js';

/** Reports of the runs before one, newest first. */
export type EarlierReports = readonly Pick<JobReport, 'streams'>[];

/** The most streams that a table lists: the report of the run has all. */
const maxStreams = 200;

/** How many rows of a stream a run changed. */
export function changedRows({ inserted, updated, deleted }: StreamReport): number {
  return inserted + updated + deleted;
}

/** Whether a run loaded a stream for the first time: its rows are no changes. */
export function isFirstLoad(stream: StreamReport, before: EarlierReports): boolean {
  const { status, rows, inserted } = stream;
  return status === 'ok' && rows === inserted && previousRowCount(stream.name, { streams: [] }, before) === undefined;
}

/** Whether a run is the first that loaded anything. */
export function isFirstRun(report: JobReport, before: EarlierReports): boolean {
  const loaded = (report.streams ?? []).filter(({ status }) => status === 'ok');
  return loaded.length > 0 && loaded.every((stream) => isFirstLoad(stream, before));
}

/** `6 inserted, 29 updated, 3 deleted`; the kinds that there are. */
export function changeWords({ inserted, updated, deleted }: StreamReport): string {
  const kinds = Object.entries({ inserted, updated, deleted }).filter(([, count]) => count > 0);
  return kinds.map(([kind, count]) => `${formatCount(count)} ${kind}`).join(', ');
}

/** Streams with most changes first; but those that have only ever grown, such as a log of events, after those with people who change. */
function byChanges(streams: readonly StreamReport[], before: EarlierReports): StreamReport[] {
  const all = [...streams, ...before.flatMap((report) => report.streams ?? [])];
  const changing = new Set(all.filter(({ updated, deleted }) => updated + deleted > 0).map((stream) => stream.name));
  return [...streams].sort(
    (a, b) => Number(changing.has(b.name)) - Number(changing.has(a.name)) || changedRows(b) - changedRows(a),
  );
}

/** Streams that changed, in the order of {@link byChanges}. First loads are left out. */
export function changedStreams(report: JobReport, before: EarlierReports): StreamReport[] {
  const changed = (report.streams ?? []).filter(
    (stream) => stream.status === 'ok' && changedRows(stream) > 0 && !isFirstLoad(stream, before),
  );
  return byChanges(changed, before);
}

/** The columns of streams that are new or have another type. */
function schemaNotes(streams: readonly StreamReport[]): Html | undefined {
  const lines = streams.flatMap((stream) =>
    schemaLines(countedSchemaChanges(stream)).map((line) => html`<li>${name(stream.name)}: ${line}</li>`),
  );
  return lines.length === 0 ? undefined : html`<ul class="news">${lines}</ul>`;
}

/** A held stream still has the rows that it had. */
function heldRows(had: number | undefined, approved: number): Html {
  return html`<td class="n">${had === undefined ? '–' : formatCount(had)}<small>${formatCount(approved)} if approved</small></td>`;
}

function changeRow(stream: StreamReport, before: EarlierReports): Html {
  const { status, inserted, updated, deleted } = stream;
  const had = previousRowCount(stream.name, { streams: [] }, before);
  const isCounted = status === 'ok' || status === 'held';
  const first = isFirstLoad(stream, before);
  const counts = first
    ? html`<td class="n" colspan="3">first load</td>`
    : html`${[inserted, updated, deleted].map((count) => countCell(isCounted ? count : undefined))}`;
  return html`<tr><th scope="row">${name(stream.name)}</th><td>${statusWords(status)}</td>${countCell(had)}${counts}${status === 'held' ? heldRows(had, stream.rows) : countCell(isCounted ? stream.rows : had)}</tr>`;
}

/** The changes of a run, stream by stream. Streams share rows, so no figure is a sum of several. */
export function changesSection(report: JobReport, before: EarlierReports): Html {
  const streams = report.streams ?? [];
  if (streams.length === 0) return html`<section><h2>What changed</h2><p>The run reached no stream.</p></section>`;
  const isQuiet = (stream: StreamReport) => stream.status === 'ok' && changedRows(stream) === 0;
  const [quiet, loud] = [streams.filter(isQuiet), streams.filter((stream) => !isQuiet(stream))];
  const heads = [
    'Stream',
    'Status',
    ...['Rows before', 'Inserted', 'Updated', 'Deleted', 'Rows now'].map((n) => ({ n })),
  ];
  const rowsOf = (some: readonly StreamReport[]) =>
    some.slice(0, maxStreams).map((stream) => changeRow(stream, before));
  const held = loud.some(({ status }) => status === 'held');
  return html`<section><h2>What changed</h2>${schemaNotes(streams)}${
    loud.length === 0 ? html`<p>No row changed.</p>` : table('What changed', heads, rowsOf(byChanges(loud, before)))
  }${held ? html`<p class="note">The counts of a held stream are what its commit would do.</p>` : undefined}${
    quiet.length === 0
      ? undefined
      : html`<details><summary>${formatCounted(quiet.length, 'stream')} without a change</summary>${table('Streams without a change', heads, rowsOf(quiet))}</details>`
  }</section>`;
}

/** The streams that the first run loaded: there is nothing to compare it with. */
export function firstLoadSection(report: JobReport, figures: ColumnFigures | undefined): Html {
  const streams = report.streams ?? [];
  const rows = streams.slice(0, maxStreams).map((stream) => {
    const columns = figures?.streams[stream.name]?.columns.length;
    return html`<tr><th scope="row">${name(stream.name)}</th><td>${statusWords(stream.status)}</td>${countCell(stream.status === 'ok' ? stream.rows : undefined)}${countCell(columns)}<td class="n">${formatDuration(stream.seconds * 1000)}</td></tr>`;
  });
  const heads = ['Stream', 'Status', ...['Rows', 'Columns', 'Time'].map((n) => ({ n }))];
  return html`<section><h2>First load</h2>${table('First load', heads, rows)}<p class="note">The next run shows here what changed.</p></section>`;
}

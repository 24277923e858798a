import { formatBytes, formatCount, formatDuration } from '../core/quantities.js';
import { type JobReport, type StreamReport, streamNotes } from '../core/run-report.js';
import { previousRowCount, streamBudget } from '../notify/run-figures.js';
import { percent, statusWords } from './format.js';
import { type Html, html, name } from './html.js';

const maxRows = 500;

/** A table that scrolls alone where the page is too narrow. */
export function table(label: string, heads: readonly (string | { readonly n: string })[], rows: readonly Html[]): Html {
  const cells = heads.map((head) =>
    typeof head === 'string' ? html`<th scope="col">${head}</th>` : html`<th scope="col" class="n">${head.n}</th>`,
  );
  return html`<div class="scroll" role="region" aria-label="${label}" tabindex="0"><table><thead><tr>${cells}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

/** A cell for a count; zero is pale, so that the others are seen. */
export function countCell(value: number | undefined | null): Html {
  if (value === undefined || value === null) return html`<td class="n zero">–</td>`;
  return html`<td class="n${value === 0 ? ' zero' : ''}">${formatCount(value)}</td>`;
}

function notes(stream: StreamReport, runId: string): string[] {
  const { recognised: cached = 0, unrecognised: reason } = stream;
  return [
    ...streamNotes(stream, runId),
    ...(cached > 0 ? [`${formatCount(cached)} unchanged, skipped`] : []),
    ...(reason ? [`all records processed: ${reason}`] : []),
  ];
}

function changeCell({ status }: StreamReport, count: number): Html {
  return countCell(status === 'ok' || status === 'held' ? count : undefined);
}

function numberCell(text: string): Html {
  return html`<td class="n">${text}</td>`;
}

function budgetCell(stream: StreamReport): Html {
  const share = streamBudget(stream);
  return numberCell(share === undefined ? '–' : percent(Math.min(1, share)));
}

/**
 * The columns after the name: the head, and the cell of a stream.
 * `currentRows`: the rows of its snapshot, if the run did not commit it.
 */
const columns: Readonly<Record<string, (stream: StreamReport, currentRows: number | undefined) => Html>> = {
  Rows: ({ status, rows }, currentRows) => countCell(status === 'ok' ? rows : currentRows),
  Inserted: (stream) => changeCell(stream, stream.inserted),
  Updated: (stream) => changeCell(stream, stream.updated),
  Deleted: (stream) => changeCell(stream, stream.deleted),
  Unchanged: (stream) => changeCell(stream, stream.unchanged),
  Requests: ({ requests }) => countCell(requests),
  Budget: budgetCell,
  Received: ({ bytes }) => numberCell(formatBytes(bytes)),
  Time: ({ seconds }) => numberCell(formatDuration(seconds * 1000)),
};
const heads = ['Stream', 'Status', ...Object.keys(columns).map((n) => ({ n }))];

function row(stream: StreamReport, currentRows: number | undefined): Html {
  const cells = Object.values(columns).map((cell) => cell(stream, currentRows));
  return html`<tr><th scope="row">${name(stream.name)}</th><td>${statusWords(stream.status)}</td>${cells}</tr>`;
}

/**
 * The result of each stream. The changes of a held stream are those of its commit. A stream that failed or is held has the rows that it had.
 * @param before reports of the runs before, newest first
 */
export function streamTable(
  { streams = [], run_id: runId }: Pick<JobReport, 'streams' | 'run_id'>,
  before: readonly Pick<JobReport, 'streams'>[],
): Html {
  if (streams.length === 0) return html`<p>The run has reached no stream.</p>`;
  const more = streams.length - maxRows;
  const shown = streams.slice(0, maxRows);
  const said = shown.flatMap((stream) => {
    const words = notes(stream, runId).join('; ');
    return words === '' ? [] : [html`<li>${name(stream.name)}: ${words}</li>`];
  });
  return html`${table(
    'Streams',
    heads,
    shown.map((stream) => row(stream, previousRowCount(stream.name, { streams: [] }, before))),
  )}${said.length === 0 ? undefined : html`<ul class="note">${said}</ul>`}${
    more > 0 ? html`<p class="note">and ${more} more streams; the report of the run has all of them.</p>` : undefined
  }`;
}

import { formatCount, formatCounted } from '../core/quantities.js';
import type { ColumnFigures, StreamFigures } from './column-figures.js';
import { percent } from './format.js';
import { type Html, html, name } from './html.js';
import { table } from './streams.js';

/** The most columns on a page: more would make it slow to open and hard to read. */
const maxColumns = 1000;

type ColumnRow = StreamFigures['columns'][number];

function shareCell(count: number | null, whole: number): Html {
  if (count === null || whole === 0) return html`<td class="n zero">not known</td>`;
  if (count === 0) return html`<td class="n zero">0 %</td>`;
  const share = count / whole;
  const step = Math.max(1, Math.round(share * 20)) * 5;
  return html`<td class="n"><i class="share w${step}"></i>${percent(share)}</td>`;
}

/** Those that changed most if there is no space for all, in their own order. */
function chosen(columns: readonly ColumnRow[], most: number): readonly ColumnRow[] {
  if (columns.length <= most) return columns;
  const byChange = columns
    .map((column, index) => ({ column, index }))
    .sort((a, b) => (b.column.changed ?? 0) - (a.column.changed ?? 0));
  return byChange
    .slice(0, most)
    .sort((a, b) => a.index - b.index)
    .map(({ column }) => column);
}

function updates({ updated }: StreamFigures): string {
  if (updated === null) return 'no row was updated';
  const { rows, compared } = updated;
  const all = `${formatCounted(rows, 'row')} updated`;
  return compared === rows ? all : `${all}; changes are of a sample of ${formatCount(compared)}`;
}

function streamColumns(
  stream: string,
  figures: StreamFigures,
  { most, isFirst, isOpen }: { readonly most: number; readonly isFirst: boolean; readonly isOpen: boolean },
): Html {
  const { rows, columns, updated } = figures;
  const shown = [...chosen(columns, most)].sort((a, b) => (b.changed ?? 0) - (a.changed ?? 0));
  const left = columns.length - shown.length;
  const cells = ({ name: column, type, nulls, changed }: ColumnRow) =>
    html`<tr><th scope="row">${name(column)}</th><td><code>${type}</code></td>${shareCell(nulls, rows)}${
      updated === null ? undefined : shareCell(changed, updated.compared)
    }</tr>`;
  const heads = ['Column', 'Type', { n: 'Without a value' }, ...(updated === null ? [] : [{ n: 'Changed' }])];
  const more =
    left > 0
      ? html`<p class="note">${formatCounted(left, 'column')} that changed less ${left === 1 ? 'is' : 'are'} left out; <code>cdsync.columns</code> of the published file has all.</p>`
      : undefined;
  const summary = html`<summary><h3>${name(stream)}</h3><span class="note">${formatCounted(columns.length, 'column')}, ${formatCounted(rows, 'row')}${isFirst ? '' : `; ${updates(figures)}`}</span></summary>`;
  const body = html`${summary}${table(`Columns of ${stream}`, heads, shown.map(cells))}${more}`;
  return isOpen ? html`<details open>${body}</details>` : html`<details>${body}</details>`;
}

/** The columns of each stream: type, share of missing values, share of changed values. */
export function columnTables(figures: ColumnFigures | undefined, streams: readonly string[], isFirst: boolean): Html {
  const counted = streams.flatMap((stream) => {
    const figuresOfStream = figures?.streams[stream];
    return figuresOfStream === undefined ? [] : [{ stream, found: figuresOfStream }];
  });
  if (counted.length === 0) return html`<p>No column statistics for this run.</p>`;
  const all = counted.reduce((sum, { found }) => sum + found.columns.length, 0);
  const most = all <= maxColumns ? maxColumns : Math.max(5, Math.floor(maxColumns / counted.length));
  const tables = counted
    .slice(0, maxColumns / 5)
    .map(({ stream, found }) =>
      streamColumns(stream, found, { most, isFirst, isOpen: isFirst && counted.length <= 3 }),
    );
  return html`${tables}`;
}

/** The most columns that changed and are listed, of all streams; those after the first few are folded. */
const maxChangedColumns = 100;
const unfolded = 12;

/** The columns in which updated rows have another value, those that changed most first. Undefined if there are none. */
export function changedColumns(figures: ColumnFigures | undefined, streams: readonly string[]): Html | undefined {
  const all = streams.flatMap((stream) => {
    const figuresOfStream = figures?.streams[stream];
    const updated = figuresOfStream?.updated ?? null;
    if (figuresOfStream === undefined || updated === null) return [];
    return figuresOfStream.columns
      .filter(({ changed }) => (changed ?? 0) > 0)
      .map((column) => ({ stream, column, share: (column.changed ?? 0) / updated.compared, updated }));
  });
  if (all.length === 0) return undefined;
  const sorted = all.sort((a, b) => b.share * b.updated.rows - a.share * a.updated.rows);
  const rows = sorted
    .slice(0, maxChangedColumns)
    .map(
      ({ stream, column, updated }) =>
        html`<tr><th scope="row">${name(column.name)}</th><td>${name(stream)}</td>${shareCell(column.changed, updated.compared)}<td class="n">${formatCount(updated.rows)}</td></tr>`,
    );
  const left = sorted.length - rows.length;
  const sampled = sorted.some(({ updated }) => updated.compared < updated.rows);
  const heads = ['Column', 'Stream', { n: 'Changed in' }, { n: 'Updated rows' }];
  const [most, others] = [rows.slice(0, unfolded), rows.slice(unfolded)];
  return html`${table('Columns that changed', heads, most)}${
    others.length === 0
      ? undefined
      : html`<details><summary>${formatCounted(others.length, 'column')} that changed less</summary>${table('Columns that changed less', heads, others)}</details>`
  }${
    sampled ? html`<p class="note">Of streams with many updated rows a sample was compared.</p>` : undefined
  }${left > 0 ? html`<p class="note">${formatCounted(left, 'more column')} changed less; see Columns.</p>` : undefined}`;
}

import { formatDuration } from '../core/quantities.js';
import type { DestinationReport } from '../core/run-report.js';
import { type DestinationStatus, lagWords } from '../delivery/lag-words.js';
import type { PastRun } from '../storage/reports.js';
import type { ColumnFigures } from './column-figures.js';
import { moment, statusWords } from './format.js';
import { type Html, html, name } from './html.js';
import { countCell, table } from './streams.js';

/** When each stream was last read and last changed. `past` has the newest run first. */
export function freshnessTable(
  streams: readonly string[],
  past: readonly PastRun[],
  figures: ColumnFigures | undefined,
): Html {
  const isWindowed = streams.some((stream) => (figures?.streams[stream]?.covered_to ?? null) !== null);
  const rows = streams.slice(0, 500).map((stream) => {
    const counted = figures?.streams[stream];
    const isRead = ({ report }: PastRun) =>
      report.streams?.some((report) => report.name === stream && report.status === 'ok');
    const checked = past.find(isRead)?.startedAt;
    const covered = counted?.covered_to;
    return html`<tr><th scope="row">${name(stream)}</th>${countCell(counted?.rows)}<td>${
      checked === undefined ? 'never' : moment(checked)
    }</td><td>${counted === undefined ? 'not known' : moment(Date.parse(counted.synced_at))}</td>${
      isWindowed ? html`<td>${covered ? moment(Date.parse(covered)) : '–'}</td>` : undefined
    }</tr>`;
  });
  const heads = [
    'Stream',
    { n: 'Rows' },
    'Last read (UTC)',
    'Last changed (UTC)',
    ...(isWindowed ? ['Complete up to (UTC)'] : []),
  ];
  return table('Freshness', heads, rows);
}

/** The deliveries of the run to its destinations, and their state now. Undefined if the job has none. */
export function destinationTable(
  delivered: readonly DestinationReport[],
  statuses: readonly DestinationStatus[] | undefined,
  nowMs: number,
): Html | undefined {
  const key = (place: { name: string; stream: string }) => `${place.name} ${place.stream}`;
  const byKey = new Map(statuses?.map((status) => [key(status), status]));
  const reports = new Map(delivered.map((report) => [key(report), report]));
  const places = [
    ...new Map([...byKey, ...reports].map(([id, { name: destination, stream }]) => [id, { destination, stream }])),
  ];
  if (places.length === 0) return undefined;
  const rows = places.slice(0, 500).map(([id, { destination, stream }]) => {
    const [status, report] = [byKey.get(id), reports.get(id)];
    return html`<tr><th scope="row">${name(destination)}</th><td>${name(stream)}</td><td>${
      report === undefined ? 'nothing sent' : statusWords(report.status)
    }</td>${countCell(report?.rows)}<td class="n">${report === undefined ? '–' : formatDuration(report.seconds * 1000)}</td><td class="n">${
      status?.sequence ?? '–'
    }</td><td>${status === undefined ? 'not known' : lagWords(status, nowMs)}</td>${countCell(status?.refused ?? report?.refused)}</tr>`;
  });
  const heads = [
    'Destination',
    'Stream',
    'This run',
    { n: 'Rows' },
    { n: 'Time' },
    { n: 'Has snapshot' },
    'Lag',
    { n: 'Refused' },
  ];
  return table('Destinations', heads, rows);
}

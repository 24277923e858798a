import { deprecationLine } from '../core/deprecation.js';
import { visible } from '../core/printable.js';
import { formatCount, formatCounted, formatDuration, formatNames } from '../core/quantities.js';
import { schemaLines } from '../core/schema-change.js';
import type { Message } from './message.js';

/** The most streams, destinations and errors that a message shows; the report has all. */
const most = 20;

/** What happened, in one line. */
export function headline({ job, status, events, previous_status: before, late, started_at: at }: Message): string {
  const recovered = events.includes('recovered') && before !== null ? `recovered: ok after ${before}` : undefined;
  const unusual = events.includes('unusual') ? ', unusual' : '';
  const columns = events.includes('schema_changed') ? ', columns changed' : '';
  const ends = events.includes('deprecated') ? ', an API version ends' : '';
  const when = late ? ` (late: of ${at.slice(0, 16).replace('T', ' ')} UTC)` : '';
  return `cdsync ${job}: ${recovered ?? status}${unusual}${columns}${ends}${when}`;
}

function streamLine({ name, status, rows, inserted, updated, deleted, seconds }: Message['streams'][number]): string {
  if (status === 'failed' || status === 'skipped') return `${name}: ${status}`;
  const changes = `${formatCount(inserted)} inserted, ${formatCount(updated)} updated, ${formatCount(deleted)} deleted`;
  const held = status === 'held' ? 'held, would have ' : '';
  return `${name}: ${held}${formatCounted(rows, 'row')}; ${changes}; ${formatDuration(seconds * 1000)}`;
}

function destinationLine({ name, stream, status, rows, refused }: Message['destinations'][number]): string {
  const left = refused === 0 ? '' : `, ${formatCounted(refused, 'reject')}`;
  return `${name} (${stream}): ${status}, ${formatCounted(rows, 'row')} delivered${left}`;
}

function cut(lines: readonly string[], noun: string): string[] {
  if (lines.length <= most) return [...lines];
  return [...lines.slice(0, most), `and ${formatCounted(lines.length - most, `more ${noun}`)}: see the report`];
}

/** Errors with their remedy; one cause that failed several streams is shown once. */
export function errorLines({ errors }: Message): string[] {
  const places = new Map<string, string[]>();
  for (const { stream, destination, code, message, hint } of errors) {
    const place = [destination, stream].filter((name) => name !== null).join(', ');
    const text = `${message} [${code}]${hint === null ? '' : `\n  ${hint}`}`;
    places.set(text, [...(places.get(text) ?? []), ...(place === '' ? [] : [place])]);
  }
  const lines = [...places].map(([text, of]) => {
    const named = formatNames(of, 3, '; ');
    return named === '' ? text : `${named}: ${text}`;
  });
  return cut(lines, 'error');
}

/** A line for each stream, and for each destination with changes or problems. */
export function resultLines({ streams, destinations }: Message): string[] {
  const changedDeliveries = destinations.filter(({ status, rows, refused }) => status !== 'ok' || rows + refused > 0);
  return [...cut(streams.map(streamLine), 'stream'), ...cut(changedDeliveries.map(destinationLine), 'delivery')];
}

/** Where to look further. */
export function footLines({ run_id: run, report, seconds }: Message): string[] {
  const took = seconds === null ? [] : [`took ${formatDuration(seconds * 1000)}`];
  const details = [...(run === null ? [] : [`run ${run}`]), ...took];
  return [...(details.length === 0 ? [] : [details.join(', ')]), ...(report === null ? [] : [`report ${report}`])];
}

function schemaNotes(changes: Message['schema_changes']): string[] {
  const streams = new Set(changes.map(({ stream }) => stream));
  return [...streams].flatMap((name) =>
    schemaLines(changes.filter(({ stream }) => stream === name)).map((line) => `${name}: ${line}`),
  );
}

/** What needs attention although nothing has failed. */
export function attentionLines({ unusual, warnings, deprecations, schema_changes: changes }: Message): string[] {
  const said = warnings.map(({ stream, message }) => `warning: ${stream === null ? '' : `${stream}: `}${message}`);
  return [
    ...cut(said, 'warning'),
    ...unusual.map((anomaly) => `unusual: ${anomaly.message}`),
    ...cut(schemaNotes(changes), 'change of columns'),
    ...deprecations.map(deprecationLine),
  ];
}

/** The same message, with each character that a program would obey or hide shown as its number: names of columns are the service's. */
export function visibleMessage(message: Message): Message {
  return JSON.parse(JSON.stringify(message), (_, value: unknown) =>
    typeof value === 'string' ? value.split('\n').map(visible).join('\n') : value,
  );
}

/** The whole message as lines of text. */
export function textOf(raw: Message): string {
  const message = visibleMessage(raw);
  const attention = attentionLines(message);
  const parts = [[headline(message)], errorLines(message), attention, resultLines(message), footLines(message)];
  return `${parts
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

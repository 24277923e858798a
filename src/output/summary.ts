import { deprecationLine } from '../core/deprecation.js';
import { causeOf } from '../core/failures.js';
import { formatBytes, formatCount, formatCounted, formatDuration, formatNames } from '../core/quantities.js';
import { type JobReport, type StreamReport, streamNotes } from '../core/run-report.js';
import { schemaLines } from '../core/schema-change.js';
import { errorWithoutKeys } from '../notify/result.js';
import { table } from './table.js';

function streamCells(stream: StreamReport): string[] {
  if (stream.status !== 'ok' && stream.status !== 'held')
    return [stream.name, stream.status, ...Array(5).fill('-'), formatCount(stream.pages)];
  const counts = [stream.rows, stream.inserted, stream.updated, stream.deleted, stream.unchanged, stream.pages];
  return [stream.name, stream.status, ...counts.map(formatCount)];
}

/** The most streams that a line names. */
const maxNamed = 10;

/** The outcome of each destination, and its errors. */
function destinationLines({ destinations }: JobReport, lineWidth: number | undefined): string[] {
  if (destinations.length === 0) return [];
  const cells = destinations.map(({ name, stream, status, action, rows, seconds }) => [
    name,
    stream,
    status,
    action,
    formatCount(rows),
    formatDuration(seconds * 1000),
  ]);
  const shown = new Set<string>();
  const notes = destinations.flatMap(({ name, error }) => {
    if (error === null || shown.has(`${name} ${error.message}`)) return [];
    shown.add(`${name} ${error.message}`);
    return [`${name}: ${error.message} [${error.code}]`, ...(error.hint === null ? [] : [`  ${error.hint}`])];
  });
  // A reload or a new table is worth a reason, as are the notes of a delivery of files; that changes are sent is not.
  const reasons: { readonly name: string; readonly reason: string; readonly of: string[] }[] = [];
  for (const { name, stream, action, why, files } of destinations) {
    if (files === undefined ? action !== 'reload' && action !== 'create' : why === '') continue;
    const reason = `${action}${files === undefined ? ', because' : ':'} ${why}`;
    const same = reasons.find((candidate) => candidate.name === name && candidate.reason === reason);
    if (same === undefined) reasons.push({ name, reason, of: [stream] });
    else same.of.push(stream);
  }
  const left = destinations.flatMap(({ name, stream, refused, error }) =>
    refused === 0 || error !== null
      ? []
      : [`${name}: ${stream} has ${formatCounted(refused, 'reject')}: cdsync rejects`],
  );
  return [
    ...table(['destination', 'stream', 'status', 'action', 'rows', 'time'], cells, lineWidth),
    '',
    ...notes,
    ...reasons.map(({ name, reason, of }) => `${name}: ${formatNames(of, maxNamed)}: ${reason}`),
    ...left,
    ...destinations.flatMap(({ stream, schema_changes: changes = [] }) =>
      schemaLines(changes).map((line) => `${stream}: ${line}`),
    ),
  ];
}

/** The cache hits and, by reason, the streams without any; nothing of first runs, which have no cache yet. */
function recognition(streams: readonly StreamReport[]): string[] {
  const cached = streams.reduce((sum, stream) => sum + stream.recognised, 0);
  const names = new Map<string, string[]>();
  for (const { name, rows, inserted, unrecognised: reason } of streams) {
    if (reason !== null && rows !== inserted) names.set(reason, [...(names.get(reason) ?? []), name]);
  }
  return [
    ...(cached === 0 ? [] : [`${formatCounted(cached, 'unchanged record')} skipped`]),
    ...[...names].map(
      ([reason, of]) => `${formatNames(of, maxNamed)}: every record was converted again, because ${reason}`,
    ),
  ];
}

function footnotes(
  { run_id: runId, streams, deprecations = [], warnings: ofRun = [] }: JobReport,
  withoutHint: string | undefined,
): string[] {
  const notes = [
    ...ofRun.map(({ message }) => `warning: ${message}`),
    ...deprecations.map(deprecationLine),
    ...recognition(streams),
  ];
  const shown = new Set<string>();
  for (const stream of streams) {
    const { name, warnings = [], schema_changes: changes = [], error } = stream;
    notes.push(
      ...streamNotes(stream, runId).map((note) => `${name}: ${note}`),
      ...warnings.map(({ message }) => `warning: ${name}: ${message}`),
      ...schemaLines(changes).map((line) => `${name}: ${line}`),
    );
    // One cause may fail every stream; it is shown once.
    const cause = error === null ? '' : causeOf(error);
    if (error !== null && !shown.has(cause)) {
      const names = streams.flatMap((stream) => (stream.error && causeOf(stream.error) === cause ? [stream.name] : []));
      shown.add(cause);
      notes.push(`${names.join(', ')}: ${error.message} [${error.code}]`);
      if (error.hint !== null && name !== withoutHint) notes.push(`  ${error.hint}`);
    }
  }
  return notes;
}

interface SummaryOptions {
  /** Of the terminal; undefined without one. */
  readonly width?: number | undefined;
  /** A stream whose hint is left out: the last line of the command has it. */
  readonly withoutHint?: string | undefined;
}

/** Lines about a job's run, for people. */
export function summarize(report: JobReport, { width, withoutHint }: SummaryOptions = {}): string[] {
  const lineWidth = width && width - 2;
  const { job, run_id, streams, status, seconds, sequence, resumed } = report;
  const bytes = streams.reduce((sum, stream) => sum + stream.bytes, 0);
  const requests = streams.reduce((sum, stream) => sum + stream.requests, 0);
  const own = streams.reduce((sum, stream) => sum + (stream.process ?? stream).requests, 0);
  const ofProcess = own === requests ? '' : ` (${formatCount(own)} of them in this process)`;
  const snapshot = sequence === null ? 'no snapshot yet' : `snapshot ${sequence}`;
  const unchanged =
    streams.length > 0 &&
    streams.every(
      ({ status: streamStatus, inserted, updated, deleted }) =>
        streamStatus === 'ok' && inserted + updated + deleted === 0,
    );
  const streamLines =
    streams.length === 0
      ? []
      : [
          ...table(
            ['stream', 'status', 'rows', 'inserted', 'updated', 'deleted', 'unchanged', 'pages'],
            streams.map(streamCells),
            lineWidth,
          ),
          '',
        ];
  const [notes, loads] = [footnotes(report, withoutHint), destinationLines(report, lineWidth)];
  // Only a run that has committed has streams that are ok.
  const hasCommitted = streams.some((stream) => stream.status === 'ok');
  const kept = status === 'interrupted' ? [hasCommitted ? 'after its commit' : 'checkpoint kept'] : [];
  const about = [`run ${run_id}`, snapshot, ...kept, ...(status === 'ok' && unchanged ? ['nothing changed'] : [])];
  return [
    `job ${job}: ${status} in ${formatDuration(seconds * 1000)}${resumed ? ', resumed' : ''} (${about.join(', ')})`,
    '',
    ...[...streamLines, ...notes, ...(notes.length > 0 && loads.length > 0 ? [''] : []), ...loads].map((line) =>
      `  ${line}`.trimEnd(),
    ),
    ...(streams.length === 0
      ? []
      : [`  ${formatCounted(requests, 'request')}${ofProcess}, ${formatBytes(bytes)} received`]),
  ];
}

/** Text in a cell of a Markdown table. */
function markdownCell(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ').replaceAll(/[\\|<>`*_[\]]/g, '\\$&');
}

function markdownTable(titles: readonly string[], rows: readonly (readonly string[])[], numbersFrom: number): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(titles), line(titles.map((_, at) => (at < numbersFrom ? '---' : '--:'))), ...rows.map(line), ''];
}

/** The result of a run as Markdown: for the summary of a job in CI. It leaves this machine, so it has no key and no value of a record. */
export function markdownSummary(report: JobReport): string {
  const { job, run_id, status, sequence, seconds, streams, destinations, warnings: ofRun = [] } = report;
  const snapshot = sequence === null ? 'no snapshot yet' : `snapshot ${sequence}`;
  const warnings = [{ name: job, warnings: ofRun }, ...streams].flatMap(({ name, warnings: itsWarnings = [] }) =>
    itsWarnings.map(({ message }) => `- warning: **${markdownCell(name)}**: ${markdownCell(message)}`),
  );
  const streamRows = streams.map((stream) => [
    markdownCell(stream.name),
    stream.status,
    ...[stream.rows, stream.inserted, stream.updated, stream.deleted, stream.rejected].map(formatCount),
  ]);
  const destinationRows = destinations.map(({ name, stream, status: of, action, rows, refused }) => [
    markdownCell(name),
    markdownCell(stream),
    of,
    action,
    formatCount(rows),
    formatCount(refused),
  ]);
  const withoutKeys = streams.map((stream) => ({ name: stream.name, error: errorWithoutKeys(stream) }));
  const errors = [...withoutKeys, ...destinations].flatMap(({ name, error }) =>
    error === null
      ? []
      : [
          `- **${markdownCell(name)}**: ${markdownCell(error.message)} (${error.code})${error.hint === null ? '' : `. ${markdownCell(error.hint)}`}`,
        ],
  );
  const requests = streams.reduce((sum, stream) => sum + stream.requests, 0);
  const lines = [
    `### cdsync: ${markdownCell(job)}: ${status}`,
    '',
    `Run \`${run_id}\`, ${snapshot}, ${formatDuration(seconds * 1000)}, ${formatCounted(requests, 'request')}.`,
    '',
    ...(streams.length === 0
      ? []
      : markdownTable(['stream', 'status', 'rows', 'inserted', 'updated', 'deleted', 'rejected'], streamRows, 2)),
    ...(destinations.length === 0
      ? []
      : markdownTable(['destination', 'stream', 'status', 'action', 'rows', 'refused'], destinationRows, 4)),
    ...(errors.length + warnings.length === 0 ? [] : [...errors, ...warnings, '']),
  ];
  return `${lines.join('\n')}\n`;
}

import { formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';

/** Text in a cell of a Markdown table. */
function cell(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ').replaceAll(/[\\|<>`*_[\]]/g, '\\$&');
}

function table(titles: readonly string[], rows: readonly (readonly string[])[], numbersFrom: number): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(titles), line(titles.map((_, at) => (at < numbersFrom ? '---' : '--:'))), ...rows.map(line), ''];
}

/** What a run did, as Markdown: for the summary of a job in CI. It has no value of a record. */
export function markdownSummary(report: JobReport): string {
  const { job, run_id, status, sequence, seconds, streams, destinations } = report;
  const snapshot = sequence === null ? 'no snapshot yet' : `snapshot ${sequence}`;
  const streamRows = streams.map((stream) => [
    cell(stream.name),
    stream.status,
    ...[stream.rows, stream.inserted, stream.updated, stream.deleted, stream.rejected].map(formatCount),
  ]);
  const destinationRows = destinations.map(({ name, stream, status: of, action, rows, refused }) => [
    cell(name),
    cell(stream),
    of,
    action,
    formatCount(rows),
    formatCount(refused),
  ]);
  const errors = [...streams, ...destinations].flatMap(({ name, error }) =>
    error === null
      ? []
      : [
          `- **${cell(name)}**: ${cell(error.message)} (${error.code})${error.hint === null ? '' : `. ${cell(error.hint)}`}`,
        ],
  );
  const requests = streams.reduce((sum, stream) => sum + stream.requests, 0);
  const lines = [
    `### cdsync: ${cell(job)}: ${status}`,
    '',
    `Run \`${run_id}\`, ${snapshot}, ${formatDuration(seconds * 1000)}, ${formatCounted(requests, 'request')}.`,
    '',
    ...(streams.length === 0
      ? []
      : table(['stream', 'status', 'rows', 'inserted', 'updated', 'deleted', 'rejected'], streamRows, 2)),
    ...(destinations.length === 0
      ? []
      : table(['destination', 'stream', 'status', 'action', 'rows', 'refused'], destinationRows, 4)),
    ...(errors.length === 0 ? [] : [...errors, '']),
  ];
  return `${lines.join('\n')}\n`;
}

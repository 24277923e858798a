import { formatCount, formatCounted } from '../core/quantities.js';
import type { JobState } from '../engine/admin/job-state.js';
import type { RemovedState } from '../engine/admin/remove-state.js';
import { table } from './table.js';

/** The sync state of a job, for people. @param width of the terminal; undefined without one */
export function stateLines(state: JobState, width?: number): string[] {
  const { job, store, sequence, streams, partitions, destinations } = state;
  const lineWidth = width && width - 2;
  const rows = streams.map((stream) => [
    stream.configured ? stream.name : `${stream.name} (no longer configured)`,
    formatCount(stream.rows),
    String(stream.sequence),
    stream.run_id,
    stream.key.join(', '),
    stream.covered.map(({ from, to }) => (from === to ? `until ${to}` : `${from} to ${to}`)).join('; ') || '-',
  ]);
  const header = ['stream', 'rows', 'snapshot', 'changed by', 'key', 'complete up to'];
  const lines = table(header, rows, lineWidth).map((line) => `  ${line}`);
  return [
    `job ${job}: snapshot ${sequence}, store ${store}`,
    '',
    ...lines,
    ...partitionLines(partitions, lineWidth),
    ...destinationLines(destinations, lineWidth),
  ];
}

/** The state of the destinations after their last delivery. */
function destinationLines(destinations: JobState['destinations'], lineWidth: number | undefined): string[] {
  if (destinations.length === 0) return [];
  const rows = destinations.map(({ name, stream, table: target, sequence, delivered_at, refused }) => [
    name,
    stream,
    target ?? '-',
    sequence === null ? '-' : String(sequence),
    delivered_at ?? '-',
    formatCount(refused),
  ]);
  const header = ['destination', 'stream', 'table', 'snapshot', 'delivered', 'rejects'];
  return ['', ...table(header, rows, lineWidth).map((line) => `  ${line}`)];
}

/** The records that interrupted runs have read, by partition. */
function partitionLines(partitions: JobState['partitions'], lineWidth: number | undefined): string[] {
  const rows = partitions.map(({ stream, name, run_id, pages, done }) => [
    stream,
    name,
    formatCount(pages),
    done ? 'to its end' : 'in part',
    run_id,
  ]);
  if (rows.length === 0) return [];
  const header = ['stream', 'partition', 'pages', 'read', 'by run'];
  return ['', '  cut short:', ...table(header, rows, lineWidth).map((line) => `  ${line}`)];
}

/** The removed state, for people. */
export function removedLines({ stream, destination, rows, destinations }: RemovedState): string[] {
  const first =
    stream === null
      ? `took out the state of destination ${destination}`
      : `took out stream ${stream}: ${formatCounted(rows, 'row')}, with its history, Parquet files and caches`;
  const left = destinations.map(
    ({ destination: name, stream: of, table: target }) =>
      `destination ${name} keeps its rows of ${of}${target === null ? '' : ` (${target})`}: delete it there`,
  );
  return [first, ...left];
}

/** The forgotten state, for people. */
export function resetLines(
  streams: readonly { name: string; checkpoints: readonly string[]; covered: boolean }[],
): string[] {
  return streams.map(({ name, checkpoints, covered }) => {
    const gone = checkpoints.map((run) => `the checkpoint of run ${run}`);
    if (covered) gone.push('the spans of time that were read');
    return `${name}: ${gone.length === 0 ? 'there was nothing to forget' : `forgot ${gone.join(', ')}`}`;
  });
}

import { formatCount, formatCounted } from './quantities.js';
import type { StreamReport } from './run-report.js';

function partitionNote({ by, chains, missed }: NonNullable<StreamReport['partitions']>): string {
  const read = `read in ${formatCounted(chains, 'part')} by ${by.join(' and ')}`;
  if (missed === null) return read;
  const added = missed === 0 ? 'nothing more' : formatCounted(missed, 'record');
  return `${read}; by the totals they left something out, and one more pass over the whole list brought ${added}`;
}

/** What a run did with a stream besides its counts: for the terminal and for the page about the run. */
export function streamNotes(stream: StreamReport): string[] {
  const { duplicates, rejected, replaced, missing, partitions, retries, throttled, discarded_values: values } = stream;
  const notes: readonly [count: number | undefined, words: string, what?: string][] = [
    [duplicates, 'came twice; the last copy counts'],
    [rejected, 'could not be kept; see cdsync.rejects'],
    [replaced, 'held text that is not Unicode; U+FFFD stands in its place'],
    [values, 'did not fit and became NULL; see cdsync.rejects', 'value'],
    [missing, 'were requested and do not exist'],
    [retries, `sent again (${formatCount(throttled ?? 0)} for status 429)`, 'request'],
  ];
  return [
    ...notes.flatMap(([count = 0, words, what = 'record']) =>
      count > 0 ? [`${formatCounted(count, what)} ${words}`] : [],
    ),
    ...(partitions == null ? [] : [partitionNote(partitions)]),
  ];
}

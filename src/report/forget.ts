import { formatCount, formatCounted } from '../core/quantities.js';

interface Forgotten {
  readonly stream: string;
  readonly keys: number;
  readonly rows: number;
  readonly history: number;
  readonly searched: number;
  readonly remains: readonly string[];
  readonly also_in: readonly string[];
}

function proof({ searched, remains, also_in: others }: Forgotten): string[] {
  if (others.length > 0) {
    return [
      `not searched: rows of ${others.join(', ')} have the key as well; forget them there too, and the files are searched`,
    ];
  }
  if (searched === 0) return ['no file was searched for it: key and values are parts of longer texts in other rows'];
  if (remains.length === 0) return [`searched every file for ${formatCounted(searched, 'text')}: none has one`];
  const waits = remains.some((file) => file.startsWith('.cdsync/deliveries/'));
  const advice = waits
    ? ['rows that wait for a destination stay until they are delivered: cdsync push, then forget again']
    : [];
  return ['these files still have a trace of it:', ...remains.map((file) => `  ${file}`), ...advice];
}

/** What was erased, for people. */
export function forgetLines(result: Forgotten): string[] {
  const { stream, keys, rows, history } = result;
  const nobody =
    rows + history === 0 ? [`${stream} had no row with such a key: is it written as the service writes it?`] : [];
  return [
    `${stream}: ${formatCounted(rows, 'row')} and ${formatCount(history)} of history erased, for ${formatCounted(keys, 'key')}`,
    ...nobody,
    `the Parquet files of earlier snapshots and changes of ${stream} are removed: any of them may have had it`,
    ...proof(result),
    'the next run brings back what the service still has: delete it there first',
  ];
}

import { formatCount, formatCounted } from '../core/quantities.js';
import type { ForgetResult } from '../engine/admin/forget-person.js';

function proof({ searched, remains, also_in: others }: ForgetResult): string[] {
  if (others.length > 0) {
    return [
      `not searched: rows of ${others.join(', ')} have the key as well; forget them there too, and the files are searched`,
    ];
  }
  if (searched === 0) return ['no file was searched for it: key and values are parts of longer texts in other rows'];
  if (remains.length === 0) return ['verified: no copy left in any file'];
  const waits = remains.some((file) => file.startsWith('.cdsync/deliveries/'));
  const advice = waits
    ? ['rows that wait for a destination stay until they are delivered: cdsync push, then forget again']
    : [];
  return ['these files still have a trace of it:', ...remains.map((file) => `  ${file}`), ...advice];
}

/** What was erased, for people. */
export function forgetLines(result: ForgetResult): string[] {
  const { stream, keys, rows, history } = result;
  const nobody = rows + history === 0 ? [`no row of ${stream} has this key`] : [];
  return [
    `${stream}: ${formatCounted(rows, 'row')} and ${formatCount(history)} of history erased, for ${formatCounted(keys, 'key')}`,
    ...nobody,
    `deleted all earlier Parquet files of ${stream}: they may have contained it`,
    ...proof(result),
    ...result.destinations.map(
      ({ name, remains }) =>
        `destination ${name}: the next delivery erases it (cdsync push)${remains === null ? '' : `; ${remains}`}`,
    ),
    'the next run brings back what the service still has: delete it there first',
  ];
}

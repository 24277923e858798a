import { formatCount } from '../../src/core/quantities.js';
import { measureRuns } from './list-runs.js';
import type { Figure } from './table.js';

/** The record at a place of the list. Each `version` changes one of a thousand. */
function record(at: number, version: number): string {
  const points = (at * 7919) % 1000;
  const changed = version > 0 && at % 1000 === 17 ? points + version : points;
  return `{"id":"p${String(at).padStart(9, '0')}","index_id":"loyalty_members","attributes":{"points":${changed}}}`;
}

/** How much memory runs take if a list is long and its records are small. */
export async function benchLongList(cdsync: string, folder: string, records: number): Promise<Figure[]> {
  const size = `${formatCount(records)} records of 75 bytes`;
  const changed = Math.floor((records - 18) / 1000) + 1;
  return measureRuns(cdsync, folder, {
    name: 'long-list',
    list: { records, pageSize: 1000, record },
    // The record cache may take half of this memory.
    memoryMb: Math.max(768, Math.ceil((records * 48) / 1e6)),
    runs: [
      { what: `${size}: a first run`, version: 0, expects: { rows: records, recognised: 0 } },
      { what: `${size}: a later run, nothing changed`, version: 0, expects: { rows: records, recognised: records } },
      {
        what: `${size}: a later run, 0.1 % changed`,
        version: 1,
        expects: { rows: records, recognised: records - changed },
      },
    ],
  });
}

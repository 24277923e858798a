import { formatCount } from '../../src/core/quantities.js';
import { measureNights } from './list-nights.js';
import type { Figure } from './table.js';

/** The record at a place of the list. Each `night` changes one of a thousand. */
function record(at: number, night: number): string {
  const points = (at * 7919) % 1000;
  const changed = night > 0 && at % 1000 === 17 ? points + night : points;
  return `{"id":"p${String(at).padStart(9, '0')}","index_id":"loyalty_members","attributes":{"points":${changed}}}`;
}

/** How much memory nights take where a list is long and its records are small: what is known of them, and what else grows. */
export async function benchLongList(cdsync: string, folder: string, records: number): Promise<Figure[]> {
  const size = `${formatCount(records)} records of 75 bytes`;
  const changed = Math.floor((records - 18) / 1000) + 1;
  return measureNights(cdsync, folder, {
    name: 'long-list',
    list: { records, pageSize: 1000, record },
    // What is known may take half of it.
    memoryMb: Math.max(768, Math.ceil((records * 48) / 1e6)),
    nights: [
      { what: `${size}: a first run`, night: 0, expects: { rows: records, recognised: 0 } },
      { what: `${size}: a night, nothing changed`, night: 0, expects: { rows: records, recognised: records } },
      { what: `${size}: a night, 0.1 % changed`, night: 1, expects: { rows: records, recognised: records - changed } },
    ],
  });
}

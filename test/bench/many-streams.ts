import { formatCount } from '../../src/core/quantities.js';
import { measureRuns } from './list-runs.js';
import type { Figure } from './table.js';

/** As many attributes as a profile of the local service has. */
const attributes = 29;
const records = 5;

function record(at: number, version: number): string {
  const values = Array.from({ length: attributes }, (_, n) => [
    `attribute_${n}`,
    n % 4 === 0 ? at * n + version : `text ${at} ${n}`,
  ]);
  return JSON.stringify({ id: `p${at}`, index_id: 'any', attributes: Object.fromEntries(values) });
}

/** The memory and time of many small streams that all change: they grow with tables, not with rows. */
export async function benchManyStreams(cdsync: string, folder: string, streams: number): Promise<Figure[]> {
  const size = `${formatCount(streams)} streams of ${records} rows`;
  return measureRuns(cdsync, folder, {
    name: 'many-streams',
    list: { records, pageSize: 50, streams, record },
    memoryMb: 768,
    runs: [
      { what: `${size}: a first run`, version: 0, expects: { rows: records } },
      { what: `${size}: a later run, all changed`, version: 1, expects: { rows: records, updated: records } },
    ],
  });
}

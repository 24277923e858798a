import { formatCount } from '../../src/core/quantities.js';
import { measureRuns } from './list-runs.js';
import type { Figure } from './table.js';

/** A record of many attributes: numbers, texts and truth values by turns. Each `version` changes some numbers of one in ten. */
function record(columns: number) {
  return (at: number, version: number): string => {
    const isChanged = at % 10 === 0;
    const values = Array.from({ length: columns }, (_, column) => {
      if (column % 3 === 1) return [`attribute_${column}`, `text ${(at * column) % 977}`];
      if (column % 3 === 2) return [`attribute_${column}`, at % 2 === 0];
      return [`attribute_${column}`, at * column + (isChanged && column % 100 === 0 ? version : 0)];
    });
    return JSON.stringify({ id: `p${at}`, index_id: 'loyalty_members', attributes: Object.fromEntries(values) });
  };
}

/** The cost of tables with very many columns: DuckDB looks at each of them in every step. */
export async function benchWide(cdsync: string, folder: string, columns: number, records: number): Promise<Figure[]> {
  const size = `${formatCount(columns)} columns x ${formatCount(records)} rows`;
  const changed = Math.ceil(records / 10);
  return measureRuns(cdsync, folder, {
    name: 'wide',
    list: { records, pageSize: 50, record: record(columns) },
    memoryMb: 768,
    runs: [
      { what: `${size}: a first run`, version: 0, expects: { rows: records } },
      { what: `${size}: a later run, nothing changed`, version: 0, expects: { rows: records, updated: 0 } },
      { what: `${size}: a later run, a tenth changed`, version: 1, expects: { rows: records, updated: changed } },
    ],
  });
}

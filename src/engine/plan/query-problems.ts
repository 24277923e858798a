import type { StreamConfig } from '../../config/config.js';
import type { LintedStream } from '../../config/linted-streams.js';
import type { ConfigProblem } from '../../config/problem.js';
import { asCdsyncError } from '../../core/errors.js';
import { Database } from '../../storage/duckdb.js';
import { KnownColumns } from '../run/query-columns.js';
import { assertKnownTables, assertNoCircle } from '../run/stream-order.js';

/** A stream as far as its query is looked at. */
function asConfig({ name, query, source }: LintedStream): StreamConfig {
  const open = source === 'sql' ? undefined : () => Promise.reject(new TypeError('no service is asked'));
  return { name, source, columns: {}, reads: { query, open } } as unknown as StreamConfig;
}

/** The problems in the SQL of a file's streams that the file alone shows. Of other streams' columns nothing is known. */
export async function queryProblems(jobs: readonly (readonly LintedStream[])[]): Promise<ConfigProblem[]> {
  const problems: ConfigProblem[] = [];
  if (!jobs.flat().some(({ query }) => query !== undefined)) return problems;
  const database = await Database.open({ memoryMb: 128, threads: 1 });
  const session = await database.connect();
  try {
    for (const streams of jobs) {
      const configs = streams.map(asConfig);
      const names = streams.map(({ name }) => name);
      const columns = new KnownColumns(session, configs, async () => undefined);
      for (const [index, { name, query, source, problem }] of streams.entries()) {
        if (query === undefined) continue;
        try {
          await assertKnownTables(session, { name, query, readsPrevious: source === 'sql' }, names);
          await assertNoCircle(session, name, configs);
          await columns.assertKnown(configs[index] as StreamConfig);
        } catch (thrown) {
          const { message, hint } = asCdsyncError(thrown);
          problems.push(problem({ message: hint === undefined ? message : `${message}; ${hint}` }));
        }
      }
    }
  } finally {
    session.close();
    database.close();
  }
  return problems;
}

import { join } from 'node:path';
import { sha256OfFile, statOrUndefined } from '../../core/durable.js';
import { formatCount, formatCounted } from '../../core/quantities.js';
import { runIdPattern } from '../../core/run-report.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import type { Feed } from '../../snapshot/feed.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { readWholeParquet } from '../../snapshot/verify-parquet.js';
import type { Session } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';
import { namesIn } from '../../storage/storage.js';

/** Adds a problem to the result. */
type AddProblem = (problem: string, at: { readonly stream: string; readonly path: string }) => void;

/** Ends the problem of an earlier run's changes: no run writes them again. */
export const brokenChanges = 'changes of an earlier run, which no run writes again';

/** The changes of one run to a stream: as `cdsync.streams` counts them, and as `__changes` has them. */
export interface RunChanges {
  readonly runId: string;
  readonly sequence: number;
  /** `insert 3, update 2, delete 1`. */
  readonly counted: string;
  /** The counts of the rows in `__changes`; undefined if it has none. */
  readonly found: string | undefined;
  readonly rows: number;
  /** A person was erased by this run or a later one, so there may be fewer rows. */
  readonly isErased: boolean;
}

const operations = ['insert', 'update', 'delete'] as const;

/**
 * The runs that changed a stream, the oldest first. An erasure (`cdsync forget`) is a commit too, which begins and ends at one
 * moment; its rows leave the changes of all runs before.
 */
async function runChanges(session: Session, stream: string, database: string): Promise<RunChanges[]> {
  const present = operations.map((op) => `count(*) FILTER (_op = '${op}') AS n_${op}`).join(', ');
  const rows = await session.rows(
    `SELECT s.run_id, s.sequence, s.inserted, s.updated, s.deleted, r.started_at = r.finished_at AS erases, c.*
     FROM ${database}.cdsync.streams AS s JOIN ${database}.cdsync.runs AS r USING (run_id)
     LEFT JOIN (SELECT _run_id, ${present} FROM ${database}.main.${quoteIdentifier(`${stream}__changes`)} GROUP BY _run_id) AS c ON c._run_id = s.run_id
     WHERE s.stream = ${sqlText(stream)} AND s.changed ORDER BY s.sequence`,
  );
  const last = Math.max(0, ...rows.filter(({ erases }) => erases === true).map(({ sequence }) => Number(sequence)));
  const text = (counts: readonly unknown[]) =>
    operations.map((op, index) => `${op} ${Number(counts[index])}`).join(', ');
  return rows
    .filter(({ erases }) => erases !== true)
    .map(({ run_id, sequence, inserted, updated, deleted, _run_id, n_insert, n_update, n_delete }) => ({
      runId: String(run_id),
      sequence: Number(sequence),
      counted: text([inserted, updated, deleted]),
      found: _run_id === null ? undefined : text([n_insert, n_update, n_delete]),
      rows: Number(inserted) + Number(updated) + Number(deleted),
      isErased: Number(sequence) <= last,
    }));
}

/**
 * Compares the rows of `<stream>__changes` with the counts of each run. The table lacks runs older than `publish.history`.
 * @param database the name of the attached store, or of its published copy
 * @returns the runs, for {@link verifyChangeFiles}
 */
export async function verifyChangeRows(
  add: AddProblem,
  { session, state, database, path }: { session: Session; state: StreamState; database: string; path: string },
): Promise<RunChanges[]> {
  const { stream } = state;
  const runs = await runChanges(session, stream, database);
  // The first load is in no table of changes.
  const load = runs.findIndex(({ runId }) => runId === state.first?.run_id);
  const from = load < 0 ? runs.findIndex(({ found }) => found !== undefined) : load + 1;
  for (const { runId, rows, counted, found, isErased } of from < 0 ? [] : runs.slice(from)) {
    if (isErased || rows === 0 || counted === found) continue;
    add(`${stream}__changes has ${found ?? 'no row'} of run ${runId}, which counted ${counted}`, { stream, path });
  }
  return runs;
}

const missingFile = 'the file is missing';

/** The problem of a file of changes, or the rows of a complete one. */
async function problemOf(
  path: string,
  state: StreamState,
  wanted: StreamState['changes'][number] | undefined,
): Promise<string | { readonly rows: number }> {
  if ((await statOrUndefined(path)) === undefined) return missingFile;
  if (wanted !== undefined && (await sha256OfFile(path)) !== wanted.sha256)
    return 'its checksum is not that of the commit';
  return readWholeParquet(path, state.key).catch(() => 'it cannot be read as Parquet');
}

/** The names in a folder; a folder that cannot be read is a problem, and has none. */
async function readableNames(folder: string, add: AddProblem, stream: string): Promise<string[]> {
  return namesIn(folder).catch((error: NodeJS.ErrnoException) => {
    add(`it cannot be read (${error.code})`, { stream, path: folder });
    return [];
  });
}

/** Reads every kept file of changes without DuckDB, and compares its rows with the counts of its run. */
export async function verifyChangeFiles(
  add: AddProblem,
  {
    layout,
    state,
    runs,
    feed,
  }: { layout: JobLayout; state: StreamState; runs: readonly RunChanges[]; feed: Feed | undefined },
): Promise<void> {
  const { stream } = state;
  const listed = new Map(feed?.changes.map((entry) => [entry.run_id, entry]));
  const last = new Map(state.changes.map((file) => [join(layout.stream(stream), file.path), file]));
  const folder = join(layout.stream(stream), 'changes');
  const kept = (await readableNames(folder, add, stream)).filter((name) => runIdPattern.test(name));
  for (const runId of new Set([...kept, ...listed.keys(), ...(state.changes.length > 0 ? [state.run_id] : [])])) {
    const isLast = runId === state.run_id;
    const all = await readableNames(join(folder, runId), add, stream);
    const names = all.filter((name) => name.endsWith('.parquet'));
    const entry = isLast ? undefined : listed.get(runId);
    const found = names.map((name) => join(folder, runId, name));
    const wanted = entry?.files.map((file) => join(layout.stream(stream), file));
    const paths = isLast ? [...last.keys()] : (wanted ?? found);
    const report = (problem: string, path: string) =>
      add(isLast ? problem : `${problem}: ${brokenChanges}`, { stream, path });
    let rows = 0;
    let isWhole = true;
    for (const path of paths) {
      const problem = await problemOf(path, state, last.get(path));
      if (typeof problem === 'string') {
        isWhole = false;
        // A full run writes the files in the feed again.
        if (problem === missingFile) add(problem, { stream, path });
        else report(problem, path);
      } else rows += problem.rows;
    }
    const run = runs.find((candidate) => candidate.runId === runId);
    if (isWhole && run !== undefined && !run.isErased && rows !== run.rows)
      report(
        `its files have ${formatCounted(rows, 'row')}, the run counted ${formatCount(run.rows)}`,
        join(folder, runId),
      );
    else if (isWhole && entry !== undefined) {
      for (const [index, path] of paths.entries())
        if ((await sha256OfFile(path)) !== entry.sha256[index]) report('its checksum is not that of the commit', path);
    }
  }
}

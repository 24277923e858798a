import { ColumnSet } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { beforeHistory } from '../sdk/duckdb/errors.js';
import type { Session } from '../storage/duckdb.js';
import { internalSchema, storeName } from './store-tables.js';
import type { StreamState } from './stream-state.js';

/*
 * The past of a stream as readers see it. All of it has one axis of time: when a run committed. Names are not qualified by the
 * database, because readers attach the published file under a name of their own.
 */

/** The names that the views of a stream need, quoted. */
interface ViewNames {
  readonly stream: string;
  /** SQL for the key of a row as text. */
  readonly key: string;
  /** The columns that have a history. */
  readonly tracked: readonly string[];
  readonly rows: string;
  readonly changes: string;
  readonly before: string;
  readonly history: string;
  /** A table expression: when each run committed the stream. */
  readonly commits: string;
  /** SQL for the time since when the history is complete. */
  readonly keptFrom: string;
}

function namesOf(state: StreamState): ViewNames {
  const { stream } = state;
  const [rows, changes, history] = [stream, `${stream}__changes`, `${stream}__history`].map(quoteIdentifier);
  return {
    stream,
    key: rowKey(state.key),
    tracked: ColumnSet.restore(state.columns)
      .list.filter(({ untracked }) => !untracked)
      .map(({ name }) => quoteIdentifier(name)),
    rows: rows as string,
    changes: changes as string,
    before: `${internalSchema}.${quoteIdentifier(`before_${stream}`)}`,
    history: history as string,
    keptFrom: `(SELECT min(kept_from) FROM ${internalSchema}.moments WHERE stream = ${sqlText(stream)})`,
    commits: `(SELECT run_id AS _cdsync_run, committed_at AS _cdsync_at FROM ${internalSchema}.moments WHERE stream = ${sqlText(stream)})`,
  };
}

/** Of the time before the horizon only some rows are there, so it has no span that begins before: no query gets less than the truth. */
function historyView({ key, tracked, rows, changes, before, history, commits, keptFrom }: ViewNames): string {
  const shown = `_run_id, _synced_at, ${tracked.join(', ')}`;
  return `CREATE OR REPLACE VIEW ${history} AS
    SELECT ${tracked.join(', ')}, _run_id, _synced_at, greatest(_cdsync_at, _cdsync_kept) AS _valid_from,
      lead(_cdsync_at) OVER (PARTITION BY ${key} ORDER BY _cdsync_at) AS _valid_to, _cdsync_at < _cdsync_kept AS _began_before
    FROM (SELECT ${keptFrom} AS _cdsync_kept) CROSS JOIN (SELECT _op, ${shown} FROM ${changes}
      UNION ALL SELECT 'insert', ${shown} FROM ${before}
      UNION ALL SELECT 'insert', ${shown} FROM ${rows} WHERE ${key} NOT IN (SELECT ${key} FROM ${changes}))
    JOIN ${commits} ON _cdsync_run = _run_id
    QUALIFY _op <> 'delete' AND (_valid_to IS NULL OR _valid_to > _cdsync_kept)`;
}

/** The present and later times have the newest rows, also if a run's clock was ahead. */
function asOfMacro(state: StreamState, { stream, tracked, history, keptFrom: first, commits }: ViewNames): string {
  const ts = parameterName(state);
  const newest = `CASE WHEN ${ts}::TIMESTAMPTZ >= now() THEN (SELECT max(_cdsync_at) FROM ${commits}) END`;
  const tooEarly = sqlText(`${stream}${beforeHistory}; the first that is kept is `);
  return `CREATE OR REPLACE MACRO ${quoteIdentifier(`${stream}_as_of`)}(${ts}) AS TABLE
    SELECT ${tracked.map((name) => `_cdsync_h.${name}`).join(', ')}, _cdsync_h._run_id, _cdsync_h._synced_at
    FROM ${history} AS _cdsync_h, (SELECT CASE WHEN ${ts}::TIMESTAMPTZ < ${first}
        THEN error(${tooEarly} || ${first}::VARCHAR)::TIMESTAMPTZ ELSE greatest(${ts}::TIMESTAMPTZ, ${newest}) END AS at) AS _cdsync_moment
    WHERE _cdsync_h._valid_from <= _cdsync_moment.at
      AND (_cdsync_h._valid_to IS NULL OR _cdsync_moment.at < _cdsync_h._valid_to)`;
}

/** The columns of the view of the last changes beside the key. */
const lastChangesColumns = new Set(['column', 'before', 'after', '_op', '_run_id', '_synced_at']);

/** The names that the columns of a key have in the view of the last changes: one is `key`, several keep their own. */
export function lastChangesKeys(keys: readonly string[]): string[] {
  if (keys.length === 1) return ['key'];
  return keys.map((name) => (lastChangesColumns.has(name.toLowerCase()) ? `key_${name}` : name));
}

/**
 * The changes of the last run that read the stream: a row for each value that an update changed, one for each insert and delete. Only
 * rows of changed keys are looked up, which the history would find by going through all.
 */
function lastChangesView({ key, tracked, changes, before, commits, stream }: ViewNames, keys: readonly string[]) {
  const idColumns = keys.map((_, at) => `_cdsync_key${at}`);
  const ids = keys.map(
    (name, at) => `${quoteIdentifier(name)}${keys.length === 1 ? '::VARCHAR' : ''} AS ${idColumns[at]}`,
  );
  const shown = lastChangesKeys(keys)
    .map((name, at) => `${idColumns[at]} AS ${quoteIdentifier(name)}`)
    .join(', ');
  const compared = tracked.filter((name) => !keys.map(quoteIdentifier).includes(name));
  const texts = (row: string) => `[${compared.map((name) => `${row}.${name}::VARCHAR`).join(', ')}]::VARCHAR[]`;
  const names = `[${compared.map((name) => sqlText(unquoted(name))).join(', ')}]::VARCHAR[]`;
  // An erasure begins and ends at one moment: it reads nothing.
  const last = `(SELECT run_id FROM cdsync.streams JOIN cdsync.runs USING (run_id)
      WHERE stream = ${sqlText(stream)} AND started_at < finished_at ORDER BY finished_at DESC LIMIT 1)`;
  const columns = tracked.join(', ');
  return `CREATE OR REPLACE VIEW ${quoteIdentifier(`${stream}__last_changes`)} AS
    WITH _cdsync_last AS (SELECT ${key} AS _cdsync_id, ${ids.join(', ')}, _op, _run_id, _synced_at, ${columns}
        FROM ${changes} WHERE _run_id = ${last}),
      _cdsync_before AS (SELECT ${key} AS _cdsync_id, ${columns}
        FROM (SELECT _run_id, _synced_at, ${columns} FROM ${changes} WHERE _run_id <> ${last}
          UNION ALL SELECT _run_id, _synced_at, ${columns} FROM ${before})
        JOIN ${commits} ON _cdsync_run = _run_id
        WHERE ${key} IN (SELECT _cdsync_id FROM _cdsync_last WHERE _op = 'update')
        QUALIFY row_number() OVER (PARTITION BY ${key} ORDER BY _cdsync_at DESC) = 1)
    SELECT ${shown}, "column", before, after, _op, _run_id, _synced_at
    FROM (SELECT ${idColumns.map((name) => `_cdsync_n.${name}`).join(', ')}, unnest(${names}) AS "column", unnest(${texts('_cdsync_o')}) AS before,
        unnest(${texts('_cdsync_n')}) AS after, _cdsync_n._op, _cdsync_n._run_id, _cdsync_n._synced_at
      FROM _cdsync_last AS _cdsync_n JOIN _cdsync_before AS _cdsync_o USING (_cdsync_id) WHERE _cdsync_n._op = 'update')
    WHERE before IS DISTINCT FROM after
    UNION ALL SELECT ${idColumns.join(', ')}, NULL, NULL, NULL, _op, _run_id, _synced_at FROM _cdsync_last WHERE _op <> 'update'`;
}

function unquoted(name: string): string {
  return name.slice(1, -1).replaceAll('""', '"');
}

/** Creates the views and the macro of a stream's past. Call it again when its columns have changed. */
export async function defineHistory(session: Session, state: StreamState): Promise<void> {
  const names = namesOf(state);
  await session.run(`USE ${storeName}`);
  try {
    await session.run(historyView(names));
    await session.run(asOfMacro(state, names));
    await session.run(lastChangesView(names, state.key));
  } finally {
    await session.run('USE memory');
  }
}

/** A name that no column has. DuckDB would confuse the parameter with a column of the same name. */
function parameterName({ columns }: StreamState): string {
  const taken = new Set(ColumnSet.restore(columns).list.map(({ name }) => name.toLowerCase()));
  let name = 'ts';
  while (taken.has(name)) name = `${name}_`;
  return name;
}

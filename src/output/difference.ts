import { CdsyncError } from '../core/errors.js';
import { formatCount, formatCounted, parseMoment } from '../core/quantities.js';
import { type SchemaChange, schemaLines } from '../core/schema-change.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { nameHint, nearest } from '../core/suggestions.js';
import type { HeldFiles } from '../engine/admin/held-files.js';
import { beforeHistory } from '../sdk/duckdb/errors.js';
import { comparable } from '../snapshot/large-rows.js';
import { hasKeys, largeSides, type Queried, type Sides, type StoredState, sidesOf } from './compared-rows.js';
import { csvLine } from './row-formats.js';
import { table } from './table.js';

interface DifferenceRequest {
  readonly stream: string;
  /** A run id or a time; undefined: the snapshot before `to`. */
  readonly from: string | undefined;
  /** Undefined: the last snapshot. */
  readonly to: string | undefined;
  /** Only updates of this column. */
  readonly column: string | undefined;
  /** Rows that are shown. */
  readonly limit: number;
  readonly showValues: boolean;
}

interface ChangedRow {
  op: 'insert' | 'update' | 'delete';
  key: string;
  /** Columns that differ; with the values before and after only if values may be shown. */
  columns: (string | { column: string; before: unknown; after: unknown })[];
}

/** What differs between two snapshots of a stream. */
export interface StreamDifference {
  stream: string;
  /** When the snapshots were committed; null before the first. */
  from: string | null;
  to: string;
  inserted: number;
  updated: number;
  deleted: number;
  /** For each column, the rows with a new value in it. */
  columns: Record<string, number>;
  rows: ChangedRow[];
  /** Columns that the runs between the snapshots added, or gave another type, as far as their reports are there. */
  schema_changes: SchemaChange[];
  /** Of a held run: how many records and values it could not keep, and as many of them as rows are shown. */
  rejected?: number;
  rejects?: HeldFiles['rejects'];
}

/** Reads the changes of a stream's columns by a run. */
type ReadSchemaChanges = (runId: string) => Promise<readonly SchemaChange[]>;

export async function stateOf(published: Queried, stream: string): Promise<StoredState> {
  const states = await published.rows('SELECT stream, state FROM private.streams');
  const state = states.find((candidate) => candidate.stream === stream);
  if (state !== undefined) return JSON.parse(String(state.state)) as StoredState;
  const names = states.map((each) => String(each.stream));
  throw new CdsyncError(`no stream "${stream}" is published`, {
    code: 'stream_not_found',
    hint: nameHint('published', stream, names),
  });
}

interface Moment {
  readonly committedAt: string;
  readonly runId: string;
}

/** @throws {CdsyncError} `run_not_found` */
function momentOf(runs: readonly Moment[], wanted: string, option: string): string {
  const run = runs.find(({ runId }) => runId === wanted);
  if (run !== undefined) return run.committedAt;
  const at = parseMoment(wanted);
  if (!Number.isNaN(at)) return new Date(at).toISOString();
  const ids = runs.map(({ runId }) => runId);
  const [near] = nearest(wanted, ids, 1);
  throw new CdsyncError(`--${option} ${wanted} is neither a time, such as 2026-01-31, nor a run that was committed`, {
    code: 'run_not_found',
    hint: near === undefined ? 'see the runs: cdsync status' : `did you mean ${near}?`,
  });
}

/**
 * The two snapshots to compare: by default the last one, and the one before it.
 * @throws {CdsyncError} `run_not_found`
 */
function spanOf(
  moments: readonly Moment[],
  runs: readonly Moment[],
  { stream, from: first, to: last }: DifferenceRequest,
): { from: string | null; to: string } {
  const all = [...moments, ...runs];
  const to = last === undefined ? moments.at(-1)?.committedAt : momentOf(all, last, 'to');
  if (to === undefined) throw new Error(`stream ${stream} is published and has no moment`);
  const earlier = moments.filter(({ committedAt }) => committedAt <= to).at(-2)?.committedAt ?? null;
  return { from: first === undefined ? earlier : momentOf(all, first, 'from'), to };
}

async function momentsIn(published: Queried, table: string, time: string, where: string): Promise<Moment[]> {
  const rows = await published.rows(
    `SELECT run_id, strftime(${time} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ') AS at FROM ${table} ${where} ORDER BY ${time}`,
  );
  return rows.map(({ run_id, at }) => ({ runId: String(run_id), committedAt: String(at) }));
}

/** SQL for what happened to each row, and the values before (`a`) and after (`b`). */
function compared(names: readonly string[], { op, key, from }: { op: string; key: string; from: string }): string {
  const flags = names.map((name, index) => `a.${name} IS DISTINCT FROM b.${name} AS d${index}`);
  const values = names.map((name, index) => `a.${name} AS a${index}, b.${name} AS b${index}`);
  return `SELECT ${op} AS op, concat_ws(' ', ${key}) AS key, ${[...flags, ...values].join(', ')} FROM ${from}`;
}

/** SQL that joins the two snapshots by key, with what happened to each row. */
function joined({ key, columns }: StoredState, { from, to }: Sides): string {
  const names = columns.map(({ name }) => quoteIdentifier(name));
  const keys = key.map((name) => `a.${quoteIdentifier(name)} = b.${quoteIdentifier(name)}`);
  const shown = key.map((name) => `coalesce(a.${quoteIdentifier(name)}, b.${quoteIdentifier(name)})::VARCHAR`);
  const first = quoteIdentifier(key[0] as string);
  return compared(names, {
    op: `CASE WHEN a.${first} IS NULL THEN 'insert' WHEN b.${first} IS NULL THEN 'delete' ELSE 'update' END`,
    key: shown.join(', '),
    from: `${from} AS a FULL OUTER JOIN ${to} AS b ON ${keys.join(' AND ')}`,
  });
}

/**
 * What differs between two snapshots of a stream, according to the published history.
 * @throws {CdsyncError} `stream_not_found`; `run_not_found`, also for a time that is not kept; `usage` for an unknown column
 */
export async function differenceOf(
  published: Queried,
  request: DifferenceRequest,
  readSchemaChanges: ReadSchemaChanges,
): Promise<StreamDifference> {
  const { stream } = request;
  const state = await stateOf(published, stream);
  const moments = await momentsIn(published, 'private.moments', 'committed_at', `WHERE stream = ${sqlText(stream)}`);
  const runs = await momentsIn(published, 'cdsync.runs', 'finished_at', 'WHERE sequence IS NOT NULL');
  const { from, to } = spanOf(moments, runs, request);
  const names = state.columns.map(({ name }) => name);
  const span = { stream, from, to };
  const shown = names.map(quoteIdentifier).join(', ');
  const source = async (keys?: readonly string[]) =>
    joined(state, state.large_texts ? await largeSides(published, state, span, keys) : sidesOf(span, shown));
  const difference = await differing(published, { source, names, request }).catch((error: unknown) => {
    throw tooEarly(error, stream) ?? error;
  });
  const between = moments.filter(({ committedAt }) => (from === null || committedAt > from) && committedAt <= to);
  const changes: SchemaChange[] = [];
  if (from !== null) for (const { runId } of between) changes.push(...(await readSchemaChanges(runId)));
  return { stream, from, to, ...difference, schema_changes: ofColumn(changes, request.column) };
}

function ofColumn(changes: readonly SchemaChange[], column: string | undefined): SchemaChange[] {
  return changes.filter((change) => column === undefined || change.column.split('.').at(-1) === column);
}

/** The error for a time before the history, which DuckDB gives as one of its query: the user wrote no SQL. */
function tooEarly(thrown: unknown, stream: string): CdsyncError | undefined {
  const [, kept] = new RegExp(`${beforeHistory}; (.*)$`, 'm').exec(thrown instanceof Error ? thrown.message : '') ?? [];
  return kept === undefined
    ? undefined
    : new CdsyncError(`${stream}: nothing is kept of that time; ${kept}`, {
        code: 'run_not_found',
        hint: 'name a later time, or a run: cdsync status; publish.history in the configuration says how much is kept',
      });
}

/** Counts and lists the rows of a join. @throws {CdsyncError} `usage` for an unknown column */
async function differing(
  { rows: ask }: Queried,
  {
    source,
    names,
    request: { stream, column, limit, showValues },
  }: {
    /** SQL of {@link compared}: of rows with these keys, with their values; or of all rows, whose values need only be comparable. */
    readonly source: (keys?: readonly string[]) => string | Promise<string>;
    readonly names: readonly string[];
    readonly request: Pick<DifferenceRequest, 'stream' | 'column' | 'limit' | 'showValues'>;
  },
): Promise<Omit<StreamDifference, 'stream' | 'from' | 'to' | 'schema_changes'>> {
  if (column !== undefined && !names.includes(column)) {
    throw new CdsyncError(`stream "${stream}" has no column "${column}"`, {
      code: 'usage',
      hint: nameHint('its columns', column, names),
    });
  }
  const differs = names.map((_, index) => `d${index}`);
  // The change that deletes a row has its last values.
  const where =
    column === undefined ? `op <> 'update' OR ${differs.join(' OR ')}` : `op = 'update' AND d${names.indexOf(column)}`;
  const chosenOf = (joined: string) => `(SELECT * FROM (${joined}) WHERE ${where})`;
  const chosen = chosenOf(await source());
  const counts = differs.map((flag) => `count(*) FILTER (op = 'update' AND ${flag}) AS ${flag}`);
  const [row = {}] = await ask(
    `SELECT count(*) FILTER (op = 'insert') AS inserted, count(*) FILTER (op = 'update') AS updated,
       count(*) FILTER (op = 'delete') AS deleted, ${counts.join(', ')} FROM ${chosen}`,
  );
  const changed = names
    .map((name, index) => [name, Number(row[`d${index}`] ?? 0)] as const)
    .filter(([name, count]) => count > 0 && (column === undefined || name === column));
  let rows = await ask(`SELECT op, key, ${differs.join(', ')} FROM ${chosen} ORDER BY op, key LIMIT ${limit}`);
  let numbers: ReadonlySet<string> = new Set();
  if (showValues) {
    const exact = await source(rows.map(({ key }) => String(key)));
    rows = await ask(`SELECT * FROM ${chosenOf(exact)} ORDER BY op, key LIMIT ${limit}`);
    numbers = await numberColumns(ask, exact);
  }
  return {
    inserted: Number(row.inserted ?? 0),
    updated: Number(row.updated ?? 0),
    deleted: Number(row.deleted ?? 0),
    columns: Object.fromEntries(changed.sort((a, b) => b[1] - a[1])),
    rows: rows.map((row) => changedRow(row, names, { showValues, column, numbers })),
  };
}

/** The columns of a query whose values JSON can hold as numbers: DuckDB's JSON has integers and decimals as texts. */
async function numberColumns(ask: Queried['rows'], source: string): Promise<ReadonlySet<string>> {
  const described = await ask(`DESCRIBE ${source}`);
  const isNumber = ({ column_type: type }: Record<string, unknown>) =>
    /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(\d+,\d+\))$/.test(String(type));
  return new Set(described.filter(isNumber).map(({ column_name }) => String(column_name)));
}

/** A number as JSON has it, if no digit is lost. */
function exactNumber(value: unknown): unknown {
  const number = Number(value);
  return typeof value === 'string' && String(number) === value ? number : (value ?? null);
}

/**
 * The changes that a commit of a held run would make to its stream.
 * @param source must give values that JSON can hold
 * @throws {CdsyncError} `usage` for an unknown column
 */
export async function heldDifferenceOf(
  ask: Queried,
  { held: { run_id: runId, key }, changes, before, rejects }: HeldFiles,
  request: Pick<DifferenceRequest, 'stream' | 'column' | 'limit' | 'showValues'>,
  readSchemaChanges: ReadSchemaChanges,
): Promise<StreamDifference> {
  const { stream } = request;
  const at = {
    stream,
    from: before === undefined ? null : 'the last snapshot',
    to: `run ${runId}, which is held`,
    schema_changes: ofColumn(await readSchemaChanges(runId), request.column),
    rejected: rejects.length,
    rejects: rejects.slice(0, request.limit),
  };
  if (changes === undefined) return { ...at, inserted: 0, updated: 0, deleted: 0, columns: {}, rows: [] };
  const columnsOf = async (sql: string) => {
    const described = await ask.rows(`DESCRIBE SELECT * FROM ${sql}`);
    return new Map(described.map(({ column_name: name, column_type: type }) => [String(name), String(type)]));
  };
  const columns = await columnsOf(changes);
  const names = [...columns.keys()].filter((name) => !['_op', '_run_id', '_synced_at'].includes(name));
  const earlierTypes = before === undefined ? new Map<string, string>() : await columnsOf(before);
  const on = key.map((name) => `a.${quoteIdentifier(name)} = b.${quoteIdentifier(name)}`);
  const source = (keys?: readonly string[]) => {
    // Large texts of all rows would be in memory together.
    const comparing = (name: string) =>
      keys === undefined && !key.includes(name) && [undefined, columns.get(name)].includes(earlierTypes.get(name));
    const shown = names.map((name) => {
      const value = quoteIdentifier(name);
      return `${comparing(name) ? comparable(columns.get(name) ?? '', value) : value} AS ${value}`;
    });
    const only = keys === undefined ? 'true' : hasKeys(key, keys);
    const old = names.map((name, index) =>
      earlierTypes.has(name) ? shown[index] : `NULL AS ${quoteIdentifier(name)}`,
    );
    const previous =
      before === undefined
        ? `(SELECT ${names.map(quoteIdentifier).join(', ')} FROM ${changes} WHERE false)`
        : `(SELECT ${old.join(', ')} FROM ${before} WHERE ${only})`;
    return compared(names.map(quoteIdentifier), {
      op: 'b._op',
      key: key.map((name) => `b.${quoteIdentifier(name)}::VARCHAR`).join(', '),
      from: `(SELECT _op, ${shown.join(', ')} FROM ${changes} WHERE ${only}) AS b LEFT JOIN ${previous} AS a ON ${on.join(' AND ')}`,
    });
  };
  return { ...at, ...(await differing(ask, { source, names, request })) };
}

function changedRow(
  row: Record<string, unknown>,
  names: readonly string[],
  { showValues, column, numbers }: Pick<DifferenceRequest, 'showValues' | 'column'> & { numbers: ReadonlySet<string> },
): ChangedRow {
  const value = (name: string) => (numbers.has(name) ? exactNumber(row[name]) : (row[name] ?? null));
  const op = String(row.op) as ChangedRow['op'];
  const all = op === 'update' ? names.flatMap((name, index) => (row[`d${index}`] ? [{ name, index }] : [])) : [];
  const differing = column === undefined ? all : all.filter(({ name }) => name === column);
  return {
    op,
    key: String(row.key),
    columns: differing.map(({ name, index }) =>
      showValues ? { column: name, before: value(`a${index}`), after: value(`b${index}`) } : name,
    ),
  };
}

/** A value as one word: quotes only where its end would not be clear. */
function shownValue(value: unknown): string {
  if (value === null) return 'NULL';
  return typeof value === 'string' && /^[^\s,;"]+$/.test(value) ? value : JSON.stringify(value);
}

function cell(column: ChangedRow['columns'][number]): string {
  if (typeof column === 'string') return column;
  return `${column.column}: ${shownValue(column.before)} -> ${shownValue(column.after)}`;
}

/** The updates of one column: a line for each key. */
function oneColumnLines(
  { stream, from, to, updated, rows, schema_changes: changes }: StreamDifference,
  column: string,
): string[] {
  const shown = rows.map(({ key, columns: [changed] }) =>
    changed === undefined || typeof changed === 'string'
      ? [key]
      : [key, `${shownValue(changed.before)} -> ${shownValue(changed.after)}`],
  );
  return [
    `${stream}: ${column} changed in ${formatCounted(updated, 'row')}`,
    `  from ${from ?? 'nothing'} to ${to}`,
    ...schemaLines(changes).map((line) => `  ${line}`),
    '',
    ...table(shown.every((cells) => cells.length > 1) ? ['key', column] : ['key'], shown).map((line) => `  ${line}`),
    ...(rows.length < updated ? [`  and ${formatCount(updated - rows.length)} more: --limit`] : []),
  ];
}

/** A difference for people. @param column the one that was asked for */
export function differenceLines(difference: StreamDifference, column?: string): string[] {
  const { stream, from, to, inserted, updated, deleted, columns, rows } = difference;
  const total = inserted + updated + deleted;
  if (column !== undefined) return oneColumnLines(difference, column);
  const counts = `${formatCount(inserted)} inserted, ${formatCount(updated)} updated, ${formatCount(deleted)} deleted`;
  const lines = [
    `${stream}: ${counts}`,
    `  from ${from ?? 'nothing'} to ${to}`,
    ...schemaLines(difference.schema_changes).map((line) => `  ${line}`),
  ];
  const byColumn = Object.entries(columns).map(([name, count]) => [name, formatCount(count)]);
  if (byColumn.length > 0) lines.push('', ...table(['column', 'updates'], byColumn).map((line) => `  ${line}`));
  if (rows.length > 0) lines.push('', ...rowLines(rows, total));
  return [...lines, ...rejectLines(difference)];
}

/** The values that a held run could not keep. */
function rejectLines({ rejected = 0, rejects = [] }: StreamDifference): string[] {
  if (rejected === 0) return [];
  const cells = rejects.map(({ key, column, reason }) => [key ?? '(no key)', column ?? '(row)', reason]);
  const more = rejected - rejects.length;
  return [
    '',
    `  ${formatCounted(rejected, 'reject')}: what could not be kept`,
    ...table(['key', 'column', 'reason'], cells).map((line) => `  ${line}`),
    ...(more === 0 ? [] : [`  and ${formatCount(more)} more: --limit`]),
  ];
}

function rowLines(rows: readonly ChangedRow[], total: number): string[] {
  const shown = rows.map(({ op, key, columns: changed }) => [op, key, changed.map(cell).join(', ')]);
  return [
    ...table(['op', 'key', 'columns'], shown).map((line) => `  ${line}`),
    ...(rows.length < total ? [`  and ${formatCount(total - rows.length)} more: --limit`] : []),
  ];
}

/** The same rows as comma-separated values. */
export function differenceCsv({ rows }: StreamDifference): string[] {
  return [['op', 'key', 'columns'], ...rows.map(({ op, key, columns }) => [op, key, columns.map(cell).join('; ')])].map(
    (cells) => csvLine(cells, 'escape'),
  );
}

import { describeMask } from '../columns/masked-value.js';
import type { StreamConfig } from '../config/config.js';
import { visibleJson } from '../core/printable.js';
import { readFeed } from '../snapshot/feed.js';
import type { Published } from '../snapshot/published.js';
import type { JobLayout } from '../storage/layout.js';

type Cell = string | null;

/** A column of a published table or view. */
interface PublishedColumn {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  /** The comment in the published file, if it has one. */
  readonly comment: string | null;
  /** Its field of the record; null for columns that cdsync adds. */
  readonly path: string | null;
  /** The first run that had it. */
  readonly since: string | null;
}

/** The tables of a published file, as dbt needs them. */
interface PublishedTables {
  readonly job: string;
  readonly columns: readonly PublishedColumn[];
  /** Comments of tables and views. */
  readonly comments: ReadonlyMap<string, string>;
  /** The key of each stream. */
  readonly keys: ReadonlyMap<string, readonly string[]>;
  /** The effect of the rules of `columns:`, by `stream.column`. */
  readonly rules: ReadonlyMap<string, string>;
}

const columnsQuery = `
  SELECT c.schema_name || '.' || c.table_name, c.column_name, c.data_type, c.comment, m.path, m.since_run
  FROM duckdb_columns() c
  LEFT JOIN cdsync.columns m ON c.schema_name = 'main' AND m.column_name = c.column_name
    AND m.stream = regexp_replace(c.table_name, '__(changes|history|last_changes)$', '')
  WHERE c.database_name = current_database() AND c.schema_name IN ('main', 'cdsync') AND NOT c.internal
  ORDER BY c.schema_name DESC, c.table_name, c.column_index`;

const commentsQuery = `
  SELECT schema_name || '.' || table_name, comment FROM duckdb_tables()
  WHERE database_name = current_database() AND comment IS NOT NULL
  UNION ALL SELECT schema_name || '.' || view_name, comment FROM duckdb_views()
  WHERE database_name = current_database() AND comment IS NOT NULL`;

async function rowsOf(published: Published, sql: string): Promise<Cell[][]> {
  return (await published.jsonRows(sql)).map((row) => Object.values(row) as Cell[]);
}

function rulesOf(streams: readonly StreamConfig[]): Map<string, string> {
  const rules = new Map<string, string>();
  for (const { name: stream, columns } of streams) {
    for (const [column, rule] of Object.entries(columns)) {
      const text = describeMask(rule);
      if (text !== undefined) rules.set(`${stream}.${rule.rename ?? column}`, text);
    }
  }
  return rules;
}

/**
 * @param streams those of the configuration; the file may have others, of earlier runs
 * @throws {CdsyncError} `sql_failed`, `state_unreadable`
 */
export async function publishedTables(
  published: Published,
  layout: JobLayout,
  streams: readonly StreamConfig[],
): Promise<PublishedTables> {
  const rows = (await rowsOf(published, columnsQuery)) as [string, string, string, Cell, Cell, Cell][];
  const columns = rows.map(([table, name, type, comment, path, since]) => ({
    table,
    name,
    type,
    comment,
    path,
    since,
  }));
  const comments = new Map((await rowsOf(published, commentsQuery)) as [string, string][]);
  const keys = new Map<string, readonly string[]>();
  for (const { table } of columns) {
    const [schema, stream = ''] = table.split('.');
    if (schema !== 'main' || keys.has(stream) || stream.includes('__')) continue;
    const feed = await readFeed(layout, stream);
    if (feed !== undefined) keys.set(stream, feed.key);
  }
  return { job: layout.job, columns, comments, keys, rules: rulesOf(streams) };
}

/** The columns that cdsync adds, and the tables about its work. */
const properties: Readonly<Record<string, string>> = {
  _op: 'what happened to the row: insert, update or delete',
  _run_id: 'the run that last changed the row',
  _synced_at: 'when that run began',
  _first_seen_at: 'when the first run that had the row began',
  _valid_from: 'from when on the row was like this',
  _valid_to: 'until when; null for the present version',
};
const tableTexts: Readonly<Record<string, string>> = {
  'cdsync.runs': 'Each run: number of its snapshot, status, times.',
  'cdsync.streams': 'Each run of each stream.',
  'cdsync.columns': 'The field of the record for each column, and the first run that had it.',
  'cdsync.rejects': 'Records that could not be kept, and why.',
  'cdsync.freshness': 'When each stream was last read, and last changed.',
};
const ofStream: readonly (readonly [RegExp, (stream: string) => string])[] = [
  [/__changes$/, (stream) => `Inserts, updates and deletes of ${stream} after its first load, with the new row.`],
  [/__last_changes$/, (stream) => `The changes of the last run that read ${stream}, by key and column.`],
  [/__history$/, (stream) => `Every version of every row of ${stream}.`],
  [/$/, (stream) => `The present rows of ${stream}.`],
];

function tableText(table: string): string {
  const [, name = ''] = table.split('.');
  const [ending, text] = ofStream.find(([end]) => end.test(name)) as (typeof ofStream)[number];
  return tableTexts[table] ?? text(name.replace(ending, ''));
}

/** `20261103T021500Z-9f3a1c` began on 2026-11-03. */
function dayOf(runId: string): string {
  return runId.replace(/^(\d{4})(\d{2})(\d{2})T.*$/, '$1-$2-$3');
}

function columnText(
  { table, name, path, since, comment }: PublishedColumn,
  { rules }: PublishedTables,
): string | undefined {
  if (comment !== null) return comment;
  if (path === null) return properties[name];
  const [, stream = ''] = /^main\.(.*?)(__changes|__history|__last_changes)?$/.exec(table) ?? [];
  const rule = rules.get(`${stream}.${name}`);
  return [path, ...(since === null ? [] : [`since ${dayOf(since)}`]), ...(rule === undefined ? [] : [rule])].join(', ');
}

/** dbt quotes no column alone. */
const isPlain = (name: string) => /^[a-z_][a-z0-9_]*$/.test(name);

function dbtColumn(column: PublishedColumn, key: readonly string[], published: PublishedTables) {
  const { name, type } = column;
  const description = columnText(column, published);
  const isKey = key.includes(name);
  const tests = isKey ? (key.length === 1 ? ['unique', 'not_null'] : ['not_null']) : [];
  return {
    name,
    ...(description === undefined ? {} : { description }),
    data_type: type,
    ...(isPlain(name) ? {} : { quote: true }),
    ...(tests.length === 0 ? {} : { data_tests: tests }),
  };
}

/** Runs may be as old as this. */
const freshness = { warn_after: { count: 36, period: 'hour' }, error_after: { count: 3, period: 'day' } };

function loadedAt(job: string, table: string, isStream: boolean) {
  const [, name = ''] = table.split('.');
  // Its own `_synced_at` moves only with its rows, which may rest for weeks. A query, because dbt asks a table without rows for the
  // greatest value of a field without a result.
  const query = `select checked_at from "${job}"."cdsync"."freshness" where stream = '${name}'`;
  if (isStream) return { loaded_at_query: query, freshness };
  return table === 'cdsync.freshness' ? { loaded_at_field: 'checked_at', freshness } : {};
}

function dbtTable(table: string, published: PublishedTables) {
  const { job, columns, comments, keys } = published;
  const [schema, name = ''] = table.split('.');
  const key = schema === 'main' ? keys.get(name) : undefined;
  return {
    name,
    description: comments.get(table) ?? tableText(table),
    ...loadedAt(job, table, key !== undefined),
    columns: columns
      .filter((column) => column.table === table)
      .map((column) => dbtColumn(column, key ?? [], published)),
  };
}

/** The `sources.yml` of a job's published file, as an object: one source for its streams, one for the tables about its runs. */
export function dbtSources(published: PublishedTables) {
  const { job, columns } = published;
  const tables = [...new Set(columns.map(({ table }) => table))];
  const source = (schema: string, name: string, description: string) => ({
    name,
    description,
    database: job,
    schema,
    tables: tables.filter((table) => table.startsWith(`${schema}.`)).map((table) => dbtTable(table, published)),
  });
  return {
    version: 2,
    sources: [
      source('main', job, `The published tables of job ${job}.`),
      source('cdsync', `${job}_cdsync`, `The tables about the runs of job ${job}.`),
    ],
  };
}

/** A document for dbt, which reads YAML 1.1: an attribute `no` or `12:30:45` without quotes is no text there. */
export async function dbtYaml(document: object): Promise<string> {
  const { stringify } = await import('yaml');
  const quotes = { defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' } as const;
  return visibleJson(stringify(document, { lineWidth: 0, aliasDuplicateObjects: false, ...quotes }));
}

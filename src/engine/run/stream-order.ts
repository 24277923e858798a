import type { StreamConfig } from '../../config/config.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { quoteIdentifier, sqlText } from '../../core/sql.js';
import { nameHint, nearest } from '../../core/suggestions.js';
import type { Session } from '../../storage/duckdb.js';
import type { RunContext } from '../run-context.js';

/** The streams that a run reads. @throws {CdsyncError} `stream_not_found`, `usage` */
export function chosenStreams(context: RunContext): readonly StreamConfig[] {
  const named = namedStreams(context);
  if (context.range === undefined) return named;
  const byTime = named.filter(({ reads }) => reads.windows !== undefined);
  if (byTime.length > 0) return byTime;
  throw new CdsyncError('no stream of the run is read by time, so there is nothing to read again', {
    code: 'usage',
    hint: '--from and --to are for the sources that have the option `since`',
  });
}

function namedStreams({ job, only }: RunContext): readonly StreamConfig[] {
  if (only === undefined) return job.streams;
  const streams = new Map(job.streams.map((stream) => [stream.name, stream]));
  return [...new Set(only)].map((name) => {
    const stream = streams.get(name);
    if (stream !== undefined) return stream;
    throw new CdsyncError(`job "${job.name}" has no stream "${name}"`, {
      code: 'stream_not_found',
      hint: nameHint('its streams', name, [...streams.keys()]),
    });
  });
}

function collectTables(node: unknown, tables: Set<string>): void {
  if (Array.isArray(node)) for (const item of node) collectTables(item, tables);
  else if (typeof node === 'object' && node !== null) {
    const { type, table_name: table, schema_name: schema } = node as Record<string, unknown>;
    if (type === 'BASE_TABLE' && typeof table === 'string' && !schema) tables.add(table.toLowerCase());
    for (const part of Object.values(node)) collectTables(part, tables);
  }
}

/**
 * Names of the tables that a query reads, in lower case; they may include those of the query's WITH clauses.
 * @throws {CdsyncError} `sql_failed` if it is not a single SELECT
 */
export async function referencedTables(session: Session, stream: string, query: string): Promise<Set<string>> {
  return tablesIn(await parsedQuery(session, stream, query));
}

/** Names of the tables in parsed statements, as {@link referencedTables}. */
export function tablesIn(statements: readonly unknown[]): Set<string> {
  const tables = new Set<string>();
  collectTables(statements, tables);
  return tables;
}

/** The statements of a query, from DuckDB's parser. @throws {CdsyncError} `sql_failed` if it is not a single SELECT */
export async function parsedQuery(session: Session, stream: string, query: string): Promise<unknown[]> {
  const [row] = await session.rows(`SELECT json_serialize_sql(${sqlText(query)})::VARCHAR AS tree`);
  const tree = JSON.parse(String(row?.tree)) as { error: boolean; error_message?: string; statements?: unknown[] };
  const { error, error_message: message, statements = [] } = tree;
  if (error || statements.length !== 1) {
    const count = statements.length === 0 ? 'no statement' : 'more than one statement';
    throw new CdsyncError(`the query of stream "${stream}" is not a SELECT: ${message ?? count}`, {
      code: 'sql_failed',
      kind: 'configuration',
      stream,
      hint: 'one SELECT over the names of streams and local files',
    });
  }
  return statements;
}

function collectNamed(node: unknown, names: Set<string>): void {
  if (typeof node !== 'object' || node === null) return;
  const { cte_map: named } = node as { cte_map?: { map?: readonly { key?: unknown }[] } };
  for (const { key } of named?.map ?? []) names.add(String(key).toLowerCase());
  for (const part of Object.values(node)) collectNamed(part, names);
}

/** Names of the WITH clauses of a query, in lower case. */
export function withNames(statements: readonly unknown[]): Set<string> {
  const names = new Set<string>();
  for (const statement of statements) collectNamed(statement, names);
  return names;
}

/**
 * Refuses a query that reads an unknown table: not a stream of the job, a name of a WITH clause, or a table of DuckDB.
 * @param reader a stream; `readsPrevious` if its query may read the previous rows of streams
 * @param streams names of the job's streams
 * @throws {CdsyncError} `sql_failed`
 */
export async function assertKnownTables(
  session: Session,
  {
    name,
    query,
    readsPrevious = false,
  }: { readonly name: string; readonly query: string; readonly readsPrevious?: boolean },
  streams: readonly string[],
): Promise<void> {
  const statements = await parsedQuery(session, name, query);
  const previous = readsPrevious ? streams.map(previousOf) : [];
  const knownNames = new Set([...streams, ...previous, ...withNames(statements)]);
  for (const table of [...tablesIn(statements)].filter(
    (table) => /^[a-z_]\w*$/.test(table) && !knownNames.has(table),
  )) {
    const rows = await session.rows(`SELECT 1 FROM ${quoteIdentifier(table)} LIMIT 0`).catch(() => undefined);
    if (rows !== undefined) continue;
    const others = streams.filter((stream) => stream !== name);
    const [near] = nearest(table, others, 1);
    throw new CdsyncError(`the query of stream "${name}" reads "${table}", which is not a stream of the job`, {
      code: 'sql_failed',
      kind: 'configuration',
      stream: name,
      hint: near === undefined ? `its other streams: ${others.join(', ') || 'none'}` : `did you mean "${near}"?`,
    });
  }
}

/** How a query calls the rows of a stream that it saw in its last run with a commit. */
export function previousOf(stream: string): string {
  return `${stream}__previous`;
}

/** A stream, with the streams of its job that its query names. */
export interface OrderedStream {
  readonly config: StreamConfig;
  readonly needs: readonly string[];
  /** Those of them whose previous rows it reads. */
  readonly previous: readonly string[];
  /** Why its query cannot be run: it is not a SELECT, or reads a table that no one gives. The stream fails, and no other that does not need it. */
  readonly error?: CdsyncError;
}

async function withNeeds(
  session: Session,
  configs: readonly StreamConfig[],
  all: readonly StreamConfig[],
): Promise<OrderedStream[]> {
  const orderedStreams: OrderedStream[] = [];
  for (const config of configs) {
    const { query } = config.reads;
    const names = all.map(({ name }) => name);
    // The keys that other sources ask for are those of one moment.
    const readsPrevious = config.reads.open === undefined;
    let tables = new Set<string>();
    try {
      if (query !== undefined) {
        await assertKnownTables(session, { name: config.name, query, readsPrevious }, names);
        tables = await referencedTables(session, config.name, query);
      }
    } catch (error) {
      orderedStreams.push({ config, needs: [], previous: [], error: asCdsyncError(error) });
      continue;
    }
    const previous = readsPrevious ? names.filter((name) => tables.has(previousOf(name))) : [];
    orderedStreams.push({
      config,
      needs: names.filter((name) => tables.has(name) || previous.includes(name)),
      previous,
    });
  }
  return orderedStreams;
}

/** The streams that depend on others, directly or by way of more. */
export interface Dependants {
  /** Queries over snapshots: no request is needed. */
  readonly computed: readonly string[];
  /** Streams that ask the service for the keys that a query finds, and queries over such streams. */
  readonly requested: readonly string[];
}

/** @throws {CdsyncError} `stream_circle` */
export async function dependants(
  session: Session,
  streams: readonly StreamConfig[],
  changed: readonly string[],
): Promise<Dependants> {
  const ordered = (await orderStreams(session, streams, streams)).flat();
  const asking = new Set<string>();
  const computed = new Set<string>();
  for (const { config, needs } of ordered) {
    const { name, source } = config;
    if (
      changed.includes(name) ||
      !needs.some((need) => changed.includes(need) || asking.has(need) || computed.has(need))
    )
      continue;
    (source === 'sql' && !needs.some((need) => asking.has(need)) ? computed : asking).add(name);
  }
  return { computed: [...computed], requested: [...asking] };
}

/** The streams that need themselves, directly or by way of others. */
function circular(streams: readonly OrderedStream[]): string[] {
  const needs = new Map(streams.map((stream) => [stream.config.name, stream.needs]));
  const reached = (name: string) => {
    const reached = new Set(needs.get(name));
    for (const name of reached) for (const next of needs.get(name) ?? []) reached.add(next);
    return reached;
  };
  return [...needs.keys()].filter((name) => reached(name).has(name));
}

function circleError(names: readonly string[]): CdsyncError {
  const who = names.length === 1 ? `stream ${names[0]} needs itself` : `streams ${names.join(', ')} need each other`;
  return new CdsyncError(`the ${who}`, {
    code: 'stream_circle',
    hint: 'change one of the queries, so that it reads another stream',
  });
}

/**
 * Refuses a query that needs itself by way of others. A query that is not a SELECT needs nothing.
 * @throws {CdsyncError} `stream_circle`
 */
export async function assertNoCircle(session: Session, name: string, streams: readonly StreamConfig[]): Promise<void> {
  const names = circular(await withNeeds(session, streams, streams));
  if (names.includes(name)) throw circleError(names);
}

/**
 * The streams in stages. Those of the first stage need no other stream; those of a later one need only streams of earlier
 * stages. A needed stream that is not in the list is read from the last snapshot.
 * @throws {CdsyncError} `stream_circle`
 */
export async function orderStreams(
  session: Session,
  configs: readonly StreamConfig[],
  all: readonly StreamConfig[],
): Promise<OrderedStream[][]> {
  let waiting = await withNeeds(session, configs, all);
  const names = circular(waiting);
  if (names.length > 0) throw circleError(names);
  const stages: OrderedStream[][] = [waiting.filter(({ needs }) => needs.length === 0)];
  waiting = waiting.filter(({ needs }) => needs.length > 0);
  while (waiting.length > 0) {
    const unread = new Set(waiting.map(({ config }) => config.name));
    const stage = waiting.filter(({ needs }) => !needs.some((name) => unread.has(name)));
    stages.push(stage);
    waiting = waiting.filter((stream) => !stage.includes(stream));
  }
  return stages;
}

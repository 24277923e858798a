import pLimit from 'p-limit';
import type { LocalConfig } from '../config/config.js';
import { callAfter } from '../core/clock.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { z } from '../core/zod.js';
import { readJobFiles } from '../engine/job-files.js';
import { stateOf } from '../output/difference.js';
import { jobStatus } from '../output/status.js';
import { openPublished, type Published } from '../snapshot/published.js';
import type { JobLayout } from '../storage/layout.js';
import { allRows, boundedRows, limits } from './bounded-answer.js';

/** The job whose published file the tools read. */
interface ToolsContext {
  readonly config: Pick<LocalConfig, 'storage' | 'bucket' | 'resources'>;
  readonly job: string;
  readonly streams: readonly string[];
  readonly destinations: readonly { readonly name: string; readonly streams: readonly string[] }[];
  /** Whether the tool `query` is there: its rows are values, and they go to the person who runs the model. */
  readonly showsValues: boolean;
  readonly notice: (line: string) => void;
}

/** A tool, as the protocol names it. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly arguments: z.ZodType;
  /** @param signal the caller no longer waits @throws {CdsyncError} without stored values */
  call(parameters: unknown, signal: AbortSignal): Promise<unknown>;
}

/** Calls that read the published file at one time. They share the memory that the configuration gives. */
const callsAtOnce = 2;

type Read<T> = (published: Published) => Promise<T>;

/** Reads the newest published file: it is opened for each call, so that no run waits, and the next call has the next snapshot. */
function reader({ config, job, notice }: ToolsContext) {
  const turns = pLimit(callsAtOnce);
  const memoryMb = Math.floor(config.resources.memoryMb / callsAtOnce);
  const { memoryMb: processMb } = config.resources;
  const open = (layout: JobLayout) => openPublished(layout, { ...config.resources, memoryMb, processMb });
  return <T>(signal: AbortSignal, read: Read<T>): Promise<T> =>
    turns(() =>
      readJobFiles({ config, job, need: 'published', notice, signal }, async ({ layout }) =>
        withinLimits(await open(layout), signal, read),
      ),
    );
}

/** Ends a call that takes too long, or for which no client waits. */
async function withinLimits<T>(published: Published, signal: AbortSignal, read: Read<T>): Promise<T> {
  let isLate = false;
  const stop = () => published.interrupt();
  const cancel = callAfter(limits.queryMs, () => {
    isLate = true;
    stop();
  });
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (signal.aborted) stop();
    return await read(published);
  } catch (error) {
    if (!isLate) throw error;
    throw new CdsyncError(`the query took longer than ${limits.queryMs / 1000} s, and was ended`, {
      code: 'sql_failed',
      hint: 'ask for less: aggregate, filter, or read one stream',
      cause: asCdsyncError(error),
      causeQuotesValues: true,
    });
  } finally {
    cancel();
    signal.removeEventListener('abort', stop);
    published.close();
  }
}

const freshnessSql = `SELECT stream, rows, run_id, checked_at, changed_at, age::VARCHAR AS age, kept_from
  FROM cdsync.freshness ORDER BY stream`;

async function streamsOf(published: Published): Promise<unknown> {
  const fresh = await allRows(await published.rows(freshnessSql));
  const columns = await published.jsonRows(
    `SELECT table_name AS stream, column_name AS name, data_type AS type, comment FROM duckdb_columns()
     WHERE schema_name = 'main' ORDER BY table_name, column_index`,
  );
  return fresh.map(({ stream, rows, kept_from }) => ({
    stream,
    rows,
    kept_from,
    also: ['__changes', '__last_changes', '__history']
      .map((ending) => `${stream}${ending}`)
      .concat(`${stream}_as_of(time)`),
    columns: columns
      .filter((column) => column.stream === stream)
      .map(({ name, type, comment }) => ({ name, type, comment })),
  }));
}

/** Days that `changes` goes back. */
const days = 90;

/** SQL for the days on which a stream changed, with the operations of each and, of the updates, how many changed each column. */
function changesSql(stream: string, key: readonly string[], columns: readonly string[]): string {
  const history = quoteIdentifier(`${stream}__history`);
  const changes = quoteIdentifier(`${stream}__changes`);
  const keys = key.map(quoteIdentifier).join(', ');
  const differs = columns.map((name, at) => {
    const column = quoteIdentifier(name);
    // By hashes, so that the window keeps no large values.
    return `hash(${column}) <> lag(hash(${column})) OVER versions AS d${at}`;
  });
  const sums = columns.map((name, at) => `${sqlText(name)}: count(*) FILTER (is_update AND d${at})`);
  const day = (time: string) => `(${time} AT TIME ZONE 'UTC')::DATE`;
  return `WITH counted AS (
      SELECT ${day('committed_at')} AS day, count(*) FILTER (_op = 'insert') AS inserted,
        count(*) FILTER (_op = 'update') AS updated, count(*) FILTER (_op = 'delete') AS deleted
      FROM ${changes} JOIN (SELECT run_id, committed_at FROM private.moments WHERE stream = ${sqlText(stream)}) ON run_id = _run_id
      GROUP BY 1),
    compared AS (
      SELECT ${day('_valid_from')} AS day, lag(_valid_to) OVER versions = _valid_from AS is_update${differs.map((column) => `, ${column}`).join('')}
      FROM ${history} WHERE (${keys}) IN (SELECT (${keys}) FROM ${changes})
      WINDOW versions AS (PARTITION BY ${keys} ORDER BY _valid_from)),
    by_column AS (SELECT day, ${sums.length === 0 ? "'{}'::JSON" : `to_json({${sums.join(', ')}})`} AS columns FROM compared GROUP BY 1)
    SELECT day::VARCHAR AS day, inserted, updated, deleted, columns::VARCHAR AS columns
    FROM counted LEFT JOIN by_column USING (day) ORDER BY day DESC LIMIT ${days}`;
}

async function changesOf(published: Published, stream: string): Promise<unknown> {
  const { key, columns } = await stateOf({ rows: (sql) => published.jsonRows(sql) }, stream);
  const names = columns.map(({ name }) => name).filter((name) => !key.includes(name));
  const rows = await allRows(await published.rows(changesSql(stream, key, names)));
  const [fresh] = await published.jsonRows(`SELECT kept_from FROM cdsync.freshness WHERE stream = ${sqlText(stream)}`);
  const changed = rows.map((row) => {
    const counts = JSON.parse(String(row.columns ?? '{}')) as Record<string, number>;
    return { ...row, columns: Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)) };
  });
  return { stream, days_are: 'of the commit, in UTC', kept_from: fresh?.kept_from ?? null, days: changed };
}

const nothing = z.strictObject({});
const ofStream = z.strictObject({ stream: z.string().max(100) });
const ofSql = z.strictObject({ sql: z.string().min(1).max(20_000) });

/** The tools over a job's published file. None changes anything, or reaches the service or a destination. */
export function toolsOf(context: ToolsContext): Tool[] {
  const read = reader(context);
  const tools: Tool[] = [
    {
      name: 'status',
      description: 'The last runs of the job, its streams, and its destinations: committed, held or failed.',
      arguments: nothing,
      call: (_, signal) => {
        const { config, job, streams, destinations, notice } = context;
        return readJobFiles({ config, job, need: 'small', notice, signal }, ({ layout }) =>
          jobStatus(layout, streams, destinations, { namesKeys: false }),
        );
      },
    },
    {
      name: 'streams',
      description:
        'The tables of the published file: each stream with its rows, its columns, their types and comments, and since when its history is complete (kept_from).',
      arguments: nothing,
      call: (_, signal) => read(signal, streamsOf),
    },
    {
      name: 'changes',
      description: `How many rows of a stream were inserted, updated and deleted, by day, and how many updates changed each column; ${days} days at most.`,
      arguments: ofStream,
      call: (parameters, signal) =>
        read(signal, (published) => changesOf(published, ofStream.parse(parameters).stream)),
    },
    {
      name: 'freshness',
      description:
        'How fresh each stream is: when it was last read, when it last changed, its rows, and since when its history is complete.',
      arguments: nothing,
      call: (_, signal) => read(signal, async (published) => allRows(await published.rows(freshnessSql))),
    },
  ];
  if (!context.showsValues) return tools;
  const description = `Runs one query in DuckDB's SQL over the published tables, read-only: ${limits.rows} rows, ${limits.bytes / 1024} KiB and ${limits.queryMs / 1000} s at most. The tool streams names the tables.`;
  return [
    ...tools,
    {
      name: 'query',
      description,
      arguments: ofSql,
      call: (parameters, signal) => read(signal, (published) => boundedRows(published, ofSql.parse(parameters).sql)),
    },
  ];
}

import { ColumnSet, type StoredColumn } from '../../columns/columns.js';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError, reworded } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { nearest } from '../../core/suggestions.js';
import { queryError } from '../../sdk/duckdb/errors.js';
import type { Session } from '../../storage/duckdb.js';
import { writtenRule } from '../column-rules.js';
import { previousOf, referencedTables } from './stream-order.js';

/** Hint about the names that a query may use. */
const queryHint =
  'a query can read the streams of its job by their names, and files by paths relative to the YAML file';

/** A query's text as a subquery: without semicolons at its end. */
export const asSubquery = (query: string) => query.trim().replace(/;\s*$/, '');

/** DuckDB's words about a column that no table of the query has. */
const unknownColumn =
  /Referenced column "(.+?)" (?:was )?not found|does not have a column named "(.+?)"|Column "(.+?)" (?:does not exist|in \w+ list not found)/i;

/** The column that DuckDB did not find in the streams that the query reads; undefined if the error is another. */
function columnMissing(error: CdsyncError): string | undefined {
  if (error.code !== 'sql_failed') return undefined;
  const match = unknownColumn.exec(error.cause instanceof Error ? error.cause.message : error.message);
  return match?.slice(1).find((name) => name !== undefined);
}

/**
 * The error of a stream whose query DuckDB refused, in words of streams and columns.
 * @param columns names of the columns that the query can read
 */
export function streamQueryError(thrown: unknown, stream: string, columns: readonly string[]): CdsyncError {
  const error = queryError(thrown, queryHint);
  const column = columnMissing(error);
  if (column === undefined) {
    // The line is that of a statement around the query.
    const message = error.message.replace(/\s*LINE \d+:[\s\S]*$/, '');
    return reworded(error, message, { hint: error.hint, cause: error.cause, causeQuotesValues: true });
  }
  const [near] = nearest(column, columns, 1);
  return new CdsyncError(`the query of stream "${stream}" reads column "${column}", which nothing that it reads has`, {
    code: 'sql_failed',
    stream,
    hint: near === undefined ? `its columns: ${columns.join(', ') || 'none'}` : `did you mean "${near}"?`,
    cause: error.cause,
    causeQuotesValues: true,
  });
}

interface NamedColumn {
  readonly name: string;
  readonly type: string;
}

/** Where the columns of a stream are looked up; undefined if it has no snapshot. */
type ColumnsOf = (stream: StreamConfig) => Promise<readonly StoredColumn[] | undefined>;

/** The columns of streams before a run: of a query those that it returns, of another stream those of its last snapshot. */
export class KnownColumns {
  readonly #session: Session;
  readonly #streams: ReadonlyMap<string, StreamConfig>;
  readonly #stored: ColumnsOf;
  readonly #known = new Map<string, Promise<readonly NamedColumn[] | undefined>>();

  constructor(session: Session, streams: readonly StreamConfig[], stored: ColumnsOf) {
    this.#session = session;
    this.#streams = new Map(streams.map((stream) => [stream.name, stream]));
    this.#stored = stored;
  }

  /**
   * Refuses a query that reads a column which nothing that it reads has. It says nothing where columns are not known yet.
   * @param sampled the columns that the next run would keep, asked for where the last snapshot lacks one
   * @throws {CdsyncError} `sql_failed`
   */
  async assertKnown({ name, reads }: Pick<StreamConfig, 'name' | 'reads'>, sampled?: ColumnsOf): Promise<void> {
    if (reads.query === undefined) return;
    try {
      await this.#described(name, reads.query, new Set([name]));
    } catch (error) {
      if (sampled === undefined) throw error;
      await new KnownColumns(this.#session, [...this.#streams.values()], sampled).assertKnown({ name, reads });
    }
  }

  /**
   * @param above the queries for which it is looked at: streams may need each other
   * @returns undefined if it cannot be known
   */
  async #described(
    name: string,
    query: string,
    above: ReadonlySet<string>,
  ): Promise<readonly NamedColumn[] | undefined> {
    const tables = await referencedTables(this.#session, name, query);
    const inputs: string[] = [];
    const names = new Set<string>();
    for (const stream of this.#streams.keys()) {
      const used = [stream, previousOf(stream)].filter((table) => tables.has(table));
      if (used.length === 0) continue;
      const columns = above.has(stream) ? undefined : await this.#columns(stream, above);
      if (columns === undefined || columns.length === 0) return undefined;
      for (const column of columns) names.add(column.name);
      const values = columns.map((column) => `NULL::${column.type} AS ${quoteIdentifier(column.name)}`).join(', ');
      for (const table of used) inputs.push(`${quoteIdentifier(table)} AS (SELECT ${values} WHERE false)`);
    }
    const withInputs = inputs.length === 0 ? '' : `WITH ${inputs.join(', ')} `;
    try {
      const rows = await this.#session.rows(`DESCRIBE ${withInputs}FROM (${asSubquery(query)})`);
      return rows.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }));
    } catch (thrown) {
      const error = streamQueryError(thrown, name, [...names]);
      // Another error may come of what only the run has: a file, a salt, the type that a column will have.
      if (columnMissing(error) !== undefined) throw error;
      return undefined;
    }
  }

  #columns(name: string, above: ReadonlySet<string>): Promise<readonly NamedColumn[] | undefined> {
    const stream = this.#streams.get(name);
    const { query, open } = stream?.reads ?? {};
    const columns =
      this.#known.get(name) ??
      (query !== undefined && open === undefined
        ? this.#described(name, query, new Set([...above, name])).catch(() => undefined)
        : this.#storedColumns(stream));
    this.#known.set(name, columns);
    return columns;
  }

  /** The columns of the last snapshot, and the names that rules will give. */
  async #storedColumns(stream: StreamConfig | undefined): Promise<readonly NamedColumn[] | undefined> {
    if (stream === undefined) return undefined;
    const stored = await this.#stored(stream);
    if (stored === undefined) return undefined;
    const kept = ColumnSet.restore(stored).list.filter((column) => writtenRule(stream, column)?.drop !== true);
    const list = kept.map((column) => ({ name: column.name, type: column.type }));
    const renamed = Object.values(stream.columns).flatMap(({ rename }) => rename ?? []);
    const added = renamed.filter((name) => !list.some((column) => column.name === name));
    return [...list, ...added.map((name) => ({ name, type: 'VARCHAR' }))];
  }
}

import type { ColumnType } from '../column-type.js';
import { loadRefused } from '../errors.js';
import type {
  DataFile,
  LoadColumn,
  LoadData,
  RefusedValue,
  TableColumn,
  TargetColumn,
  TargetTable,
  Write,
} from '../load.js';
import type { RowHashing } from './row-sum.js';

export type SqlRow = Readonly<Record<string, unknown>>;

/** A statement that changes rows of the target. */
export interface Change {
  readonly sql: string;
  /**
   * The effect of each row that it reports as changed on the number of rows; left out if the report does not show it. `balance`: the
   * database reports how many rows it inserted and deleted (see {@link SqlSession.netRowChange}).
   */
  readonly rowEffect?: 1 | -1 | 0 | 'balance';
}

/** A merge of staged rows into a table. */
export interface MergeTask {
  readonly table: TargetTable;
  /** The table as it was found, with columns of others. */
  readonly found: FoundColumns;
  /** The version of the record's row: with each attempt a higher one. */
  readonly version: number;
  /** SQL of the table's name, and of the staged rows: a name, or a query in brackets. */
  readonly target: string;
  readonly stage: string;
  /** Aliases that no column of the two has: some databases take a column for the table of the same name. */
  readonly t: string;
  readonly s: string;
  readonly write: Extract<Write, { readonly type: 'merge' }>;
  readonly empty: readonly string[];
  readonly clear: readonly string[];
  /** SQL of the moment that marks rows as deleted. */
  readonly moment: string;
}

/** A table for staged rows. */
export interface Stage {
  /** SQL of its name. */
  readonly name: string;
  /** SQL of its rows in the types of the target, if it holds them in others: a query in brackets. Default: the name. */
  readonly reads?: string;
  readonly create: readonly string[];
  readonly drop: readonly string[];
  /** It stays if no statement drops it: the commit has that as owed. Default: it ends with the session. */
  readonly outlives?: boolean;
}

/** The SQL that one database writes differently. No member runs a statement. */
export interface SqlDialect {
  /**
   * - `transaction`: rows and record commit together; DDL commits at once, or would lock readers out, so it precedes, announced
   *   by an intent.
   * - `transaction_with_ddl`: DDL is a part of the transaction too.
   * - `steps`: nothing is rolled back: intent first, record last, every step repeatable.
   */
  readonly commit: 'transaction' | 'transaction_with_ddl' | 'steps';
  /** Whether each load stamps the table in its commit, or only a reload does, because stamping is DDL. */
  readonly stamps: 'load' | 'reload';
  /** Whether names of tables that differ only in case are one. */
  readonly foldsTables: boolean;
  readonly hashing: RowHashing;
  /**
   * Whether rows of `_cdsync_state` are added, never changed, so that the one with the highest version counts: for stores in which a
   * transaction that changes rows of a table excludes others that add some, or that report no number of changed rows. With
   * transactions, two loads of one table must exclude each other by other means, such as the stamp. Default: false.
   */
  readonly addsState?: boolean;
  /**
   * Whether the first record of a table is added by MERGE, which two deliveries cannot do at once: for databases that enforce no keys.
   * Default: false.
   */
  readonly mergesState?: boolean;
  /** Whether rows of a new table are staged too: for databases that load no files within a transaction. Default: false. */
  readonly stagesAll?: boolean;
  /** Types of cdsync's own tables, and what follows the columns of `_cdsync_state`, such as its key. */
  readonly own: {
    readonly text: string;
    readonly integer: string;
    readonly stateTail?: string;
    readonly tail?: string;
  };
  /** Quotes a name. */
  identifier(name: string): string;
  /** SQL of a table's name in the place that is loaded. */
  table(name: string): string;
  literal(text: string): string;
  /** SQL of a moment, in the type of `_deleted_at`. @param iso ISO 8601, UTC */
  moment(iso: string): string;
  /**
   * SQL of a value's text, the same as {@link canonicalText}; undefined if the database cannot give it: the staged value is then
   * compared by {@link differs}.
   * @param column SQL of the column
   */
  canonical(column: string, kind: ColumnType): string | undefined;
  /** How many rows of a table to hash together, for a DuckDB whose rows are large: {@link DestinationContext.rowsTogether}. Default: all. */
  readonly rowsTogether?: number | undefined;
  /** SQL of NULL in a type of {@link TableConnector.mapColumn}. Default: CAST. */
  noValue?(type: string): string;
  /** SQL that calls the other functions of the server that loads rest on, for {@link tryFunctions}. Default: none. */
  readonly functions?: readonly string[];
  /** SQL that is true if two values differ, NULL being a value. Default: `IS DISTINCT FROM`. */
  differs?(one: string, other: string, kind: ColumnType | undefined): string;
  /** Default: CREATE TABLE with names and types. */
  create?(table: TargetTable): readonly string[];
  /** Default: ADD COLUMN IF NOT EXISTS, a statement for each column. */
  add?(table: TargetTable, columns: readonly TargetColumn[]): readonly string[];
  /** Default: SET DATA TYPE. */
  widen?(table: TargetTable, column: TargetColumn): readonly string[];
  /** The table for staged rows, seen by this session only if the database has such tables. */
  stage(table: TargetTable, columns: readonly LoadColumn[]): Stage;
  /** Whether a column of the table has a type that holds fewer values than the mapped one, written alike. Default: never. */
  isNarrower?(actual: string, mapped: string): boolean;
  /** Default: {@link deleteUpdateInsert}. */
  merge?(task: MergeTask): readonly Change[];
  /** Sets columns to NULL in all rows. Default: UPDATE. */
  clear?(target: string, columns: readonly string[]): string;
  /** What follows a `fill`: a key, statistics. Default: nothing. */
  afterFill?(table: TargetTable): readonly string[];
  /** What follows staging: statistics. Default: nothing. */
  afterStage?(stage: string): readonly string[];
  /** Replaces the comment of a table. Default: COMMENT ON TABLE. */
  comment?(table: string, text: string): readonly string[];
  /**
   * For databases in which a comment waits for readers, and later readers wait for it: statements that make it give up early, and
   * wait as usual again. Such a stamp is tried once more after the load, then left out. Default: a comment waits for no reader.
   */
  readonly briefly?: {
    readonly begin: string;
    readonly end: string;
    /** Whether the comment gave up. */
    isInUse(error: unknown): boolean;
  };
}

/** A connection. Its errors are classified already: see `errors.ts`. */
export interface SqlSession {
  rows(sql: string): Promise<readonly SqlRow[]>;
  /** @returns the number of rows that it changed */
  run(sql: string): Promise<number>;
  /** Runs a change whose {@link Change.rowEffect} is `balance`. @returns the number of rows that it inserted, less those that it deleted */
  netRowChange?(sql: string): Promise<number>;
  /** Loads all files, or batches, into a table. @param target SQL of its name @returns the number of rows that arrived */
  fill(target: string, data: LoadData, signal: AbortSignal): Promise<number>;
  /** These three are left out where nothing is rolled back. */
  begin?(): Promise<void>;
  commit?(): Promise<void>;
  rollback?(): Promise<void>;
  /** Stops the statement under way, which then fails. */
  stop(): void;
  /** Runs a statement also after a stop; left out if a stop ends the session, and its staged rows with it. */
  cleanUp?(sql: string): Promise<number>;
  close(): Promise<void>;
}

/** A table as a session finds it. */
export interface FoundColumns {
  readonly columns: readonly TableColumn[];
  /** Null if it has none; undefined if this user may not comment on the table. */
  readonly comment: string | null | undefined;
  /** Whether it has an index or a unique key, if the dialect asks for that. */
  readonly isIndexed?: boolean;
}

/** Columns from rows of a catalog, which have them as `name` and `type`. */
export function columnsIn(rows: readonly SqlRow[]): TableColumn[] {
  return rows.map(({ name, type }) => ({ name: String(name), type: String(type) }));
}

/** If the server refuses values more often than this in one load, the load fails: each time, a file is sent again. */
const maxRefusals = 100;

/** A connection that begins and ends transactions by statements. */
export abstract class TransactionalSession {
  #isInTransaction = false;

  /** While a statement lasts, the server is asked this often whether it responds; undefined: as usual. */
  askMs: number | undefined;

  abstract run(sql: string): Promise<number>;

  /** Cuts the connection. */
  abstract stop(): void;

  async begin(): Promise<void> {
    await this.run('START TRANSACTION');
    this.#isInTransaction = true;
  }

  async commit(): Promise<void> {
    await this.run('COMMIT');
    this.#isInTransaction = false;
  }

  async rollback(): Promise<void> {
    this.#isInTransaction = false;
    await this.run('ROLLBACK');
  }

  /** Works in the open transaction, or in a new one: savepoints need one. */
  async #inTransaction<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isInTransaction) return work();
    await this.begin();
    try {
      const result = await work();
      await this.commit();
      return result;
    } catch (error) {
      await this.rollback().catch(() => undefined);
      throw error;
    }
  }

  /**
   * Loads every file. One with values that the server refuses is sent again without them.
   * @param send returns how many rows arrived, or the values that the server has refused
   * @returns how many rows arrived
   */
  protected loadFiles(
    data: LoadData,
    send: (file: DataFile) => Promise<number | readonly RefusedValue[]>,
  ): Promise<number> {
    return this.#inTransaction(async () => {
      let [arrived, refused] = [0, 0];
      for await (const first of data.files()) {
        for (let file = first; ; ) {
          await this.run('SAVEPOINT cdsync_file');
          const result = await send(file);
          if (typeof result === 'number') {
            await this.run('RELEASE SAVEPOINT cdsync_file');
            arrived += result;
            break;
          }
          await this.run('ROLLBACK TO SAVEPOINT cdsync_file');
          refused += 1;
          if (refused > maxRefusals)
            throw loadRefused(`the destination refused values ${maxRefusals} times: ${result[0]?.reason}`);
          file = await file.refuseAll(result);
        }
      }
      return arrived;
    });
  }
}

import type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBPreparedStatement,
  DuckDBResult,
  DuckDBType,
  DuckDBValue,
} from '@duckdb/node-api';
import { CdsyncError } from '../../core/errors.js';
import { ResultReturnType } from './node-api.js';

/** Errors of DuckDB about the second execution, and not about the query. */
const ofSecondExecution = /^(Parser|TransactionContext) Error/;

/**
 * A result whose rows arrive while DuckDB works. If DuckDB fails after the first rows, its client ends such a result like a whole one,
 * without an error; only the result's type is no longer valid then. So no other file reads a result that is not complete.
 */
export class StreamedResult {
  readonly #connection: DuckDBConnection;
  readonly #sql: string;
  readonly #result: DuckDBResult;

  private constructor(connection: DuckDBConnection, sql: string, result: DuckDBResult) {
    this.#connection = connection;
    this.#sql = sql;
    this.#result = result;
  }

  /** @param last the last statement of `sql`, if the ones before it were executed */
  static async begin(
    connection: DuckDBConnection,
    sql: string,
    last?: DuckDBPreparedStatement,
  ): Promise<StreamedResult> {
    return new StreamedResult(connection, sql, await (last?.stream() ?? connection.stream(sql)));
  }

  /** Names of the columns; those of one name are numbered. */
  get names(): string[] {
    return this.#result.deduplicatedColumnNames();
  }

  get types(): DuckDBType[] {
    return this.#result.columnTypes();
  }

  /**
   * DuckDB's chunks, each of at most 2048 rows. To end without an error is the proof that there are no more.
   * @throws DuckDB's error; a {@link CdsyncError} if it is not known
   */
  async *chunks(): AsyncGenerator<DuckDBDataChunk> {
    for (;;) {
      const chunk = await this.#result.fetchChunk();
      if (chunk === null || chunk.rowCount === 0) break;
      yield chunk;
    }
    if (this.#result.returnType === ResultReturnType.INVALID) throw await this.#failure();
  }

  /** Why DuckDB failed. The client does not say, so the query is executed again, without giving out rows. */
  async #failure(): Promise<unknown> {
    try {
      if ((await this.#connection.extractStatements(this.#sql)).count === 1)
        await this.#connection.run(`EXPLAIN ANALYZE\n${this.#sql}`);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!ofSecondExecution.test(message)) return new Error(ofOwnLines(message), { cause: error });
    }
    return new CdsyncError('DuckDB failed before the end of a result, and its reason is not known', {
      code: 'database_failed',
      hint: 'try again; if it fails again, cdsync verify says if a file is damaged',
    });
  }
}

/**
 * The rows of each chunk, to be taken before the next ones are asked for. A row is made when it is taken: all large rows of a chunk may not
 * fit into the memory.
 */
export async function* rowsInTurn(chunks: AsyncIterable<DuckDBDataChunk>): AsyncGenerator<Iterable<DuckDBValue[]>> {
  for await (const chunk of chunks) {
    yield rowsOf(chunk);
    // Frees the texts: megabytes that the garbage collector does not count.
    chunk.reset();
  }
}

function* rowsOf(chunk: DuckDBDataChunk): Generator<DuckDBValue[]> {
  const { rowCount } = chunk;
  for (let row = 0; row < rowCount; row += 1) yield chunk.getRowValues(row);
}

/** A message whose line number is that in the query: the first line is that of the second execution. */
function ofOwnLines(message: string): string {
  return message.replace(/\bLINE (\d+): /, (place, line) => (line === '1' ? place : `LINE ${Number(line) - 1}: `));
}

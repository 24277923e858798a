import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import type { ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import { type DataFile, type LoadColumn, type LoadData, loadRefused } from '../../src/sdk/index.js';
import { type DeepRow, deepRows, mariadbDepth } from './deep-json.js';
import { dataReason } from './errors.js';
import { identifier } from './types.js';

/** If the server refuses more rows than this in one load, the load fails: the cause is not a few odd rows. */
const mostRefused = 100;
/** What MariaDB says of JSON that is nested too deep: a failed check of its own, or the error itself. */
const depthErrors = new Set([4025, 4038]);
const tooDeep = 4038;
const chunkBytes = 1 << 20;

/** What a bulk load needs of the connection. */
interface LoadingSession {
  rows(sql: string): Promise<RowDataPacket[]>;
  run(sql: string): Promise<number>;
  send(sql: string, values: readonly unknown[], infile: Readable): Promise<ResultSetHeader>;
}

interface Warning {
  readonly errno: number;
  readonly row: number | undefined;
  readonly column: string | undefined;
}

function asWarning({ Level, Code, Message }: RowDataPacket): Warning | undefined {
  // A note without a row only adds to the warning beside it.
  const row = / at row (\d+)$/.exec(String(Message))?.[1];
  if (Level === 'Note' && row === undefined) return undefined;
  const column = / column [`'](?:.*`\.`)?([^`']+)[`'] at row/.exec(String(Message))?.[1];
  return { errno: Number(Code), row: row === undefined ? undefined : Number(row), column };
}

/** Loads rows into a table by LOAD DATA LOCAL, inside of the caller's transaction. */
export class BulkLoad {
  readonly #session: LoadingSession;
  readonly #statement: string;
  readonly #columns: readonly LoadColumn[];
  #refused = 0;

  /** @param target SQL of the table's name */
  constructor(session: LoadingSession, target: string, data: LoadData) {
    this.#session = session;
    this.#columns = data.columns;
    const columns = data.columns.map(({ name }) => identifier(name)).join(', ');
    this.#statement = `LOAD DATA LOCAL INFILE 'rows' INTO TABLE ${target} CHARACTER SET utf8mb4
      FIELDS TERMINATED BY ',' ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\\n' (${columns})`;
  }

  /**
   * Loads every file. Sets aside values that the server refuses (`DataFile.refuse`), and sends the file again without them.
   * @returns the number of rows that arrived
   */
  async all(data: LoadData): Promise<number> {
    let arrived = 0;
    for await (const file of data.files()) arrived += await this.#file(file);
    return arrived;
  }

  async #file(first: DataFile): Promise<number> {
    for (let file = first; ; ) {
      await this.#session.run('SAVEPOINT cdsync_file');
      const { affectedRows, warningStatus } = await this.#send(file);
      // LOCAL turns all errors into warnings, and changes or leaves out the rows concerned.
      const warnings = warningStatus === 0 ? [] : await this.#warnings();
      if (warnings.length === 0) {
        await this.#session.run('RELEASE SAVEPOINT cdsync_file');
        return affectedRows;
      }
      await this.#session.run('ROLLBACK TO SAVEPOINT cdsync_file');
      file = await this.#refuse(file, warnings);
    }
  }

  #send({ path }: DataFile): Promise<ResultSetHeader> {
    // The server gets this file, whichever one it asks for.
    return this.#session.send(this.#statement, [], createReadStream(path, { highWaterMark: chunkBytes }));
  }

  async #warnings(): Promise<Warning[]> {
    const rows = await this.#session.rows('SHOW WARNINGS');
    return rows.map(asWarning).filter((warning) => warning !== undefined);
  }

  /** The rows that an error without a row can only be about. */
  async #deep(file: DataFile, errno: number): Promise<(Warning & DeepRow)[]> {
    const deep = depthErrors.has(errno) ? await deepRows(file.path, this.#columns, mariadbDepth) : [];
    if (deep.length === 0) throw loadRefused(`MySQL refuses rows: ${dataReason(errno)}`);
    return deep.map((each) => ({ ...each, errno: tooDeep }));
  }

  async #refuse(file: DataFile, warnings: readonly Warning[]): Promise<DataFile> {
    const rows = new Map<number, Warning>();
    for (const warning of warnings) {
      const { row, errno } = warning;
      if (row === undefined) {
        for (const deep of await this.#deep(file, errno)) rows.set(deep.row, deep);
      } else if (!rows.has(row)) rows.set(row, warning);
    }
    let left = file;
    // From the last row to the first, so that the numbers of earlier rows stay right.
    for (const [row, { column, errno }] of [...rows].sort(([a], [b]) => b - a)) {
      this.#refused += 1;
      if (this.#refused > mostRefused)
        throw loadRefused(`MySQL refuses more than ${mostRefused} rows: ${dataReason(errno)}`);
      left = await left.refuse(row, { column, reason: dataReason(errno) });
    }
    return left;
  }
}

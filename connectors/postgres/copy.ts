import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type DataFile, type LoadData, quoteIdentifier } from '../../src/sdk/index.js';
import { dataReason, type ServerError } from './errors.js';

/** If the server refuses more rows than this in one load, the load fails: the cause is not a few odd rows. */
const mostRefused = 100;
const quote = 0x22;
const newline = 0x0a;

/** The number of the row of a CSV file that holds a line; both count from 1. The server counts lines inside of quotes too. */
async function rowOfLine(path: string, line: number): Promise<number> {
  let [row, at, quoted] = [1, 1, false];
  for await (const chunk of createReadStream(path)) {
    for (const byte of chunk as Buffer) {
      if (at === line) return row;
      if (byte === quote) quoted = !quoted;
      if (byte !== newline) continue;
      at += 1;
      if (!quoted) row += 1;
    }
  }
  return row;
}

/** The line and column of a COPY that the server refuses; undefined if it does not say. */
function refusedLine({ code = '', where = '' }: ServerError): { line: number; column: string | undefined } | undefined {
  const match = /^(22|54)/.test(code) ? /, line (\d+)(?:, column ([^:]*))?/.exec(where) : null;
  return match === null ? undefined : { line: Number(match[1]), column: match[2] };
}

/** Loads rows into a table by COPY, inside of the caller's transaction. */
export class Copy {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #statement: string;
  #refused = 0;

  constructor(client: Client, target: string, data: LoadData, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    const columns = data.columns.map(({ name }) => quoteIdentifier(name)).join(', ');
    this.#statement = `COPY ${target} (${columns}) FROM STDIN (FORMAT csv, NULL '', ENCODING 'UTF8')`;
  }

  /**
   * Copies every file. Sets aside values that the server refuses (`DataFile.refuse`), and sends the file again without them.
   * @returns the number of rows that arrived
   */
  async all(data: LoadData): Promise<number> {
    let arrived = 0;
    for await (const file of data.files()) arrived += await this.#file(file);
    return arrived;
  }

  async #file(first: DataFile): Promise<number> {
    for (let file = first; ; ) {
      await this.#client.query('SAVEPOINT cdsync_file');
      try {
        const rows = await this.#send(file);
        await this.#client.query('RELEASE SAVEPOINT cdsync_file');
        return rows;
      } catch (error) {
        const refused = refusedLine(error as ServerError);
        this.#refused += 1;
        if (refused === undefined || this.#refused > mostRefused) throw error;
        await this.#client.query('ROLLBACK TO SAVEPOINT cdsync_file');
        const row = await rowOfLine(file.path, refused.line);
        file = await file.refuse(row, { column: refused.column, reason: dataReason(error as ServerError) });
      }
    }
  }

  async #send({ path }: DataFile): Promise<number> {
    const stream = this.#client.query(copyFrom(this.#statement));
    await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), stream, { signal: this.#signal });
    return stream.rowCount;
  }
}

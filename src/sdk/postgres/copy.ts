import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { quoteIdentifier } from '../../core/sql.js';
import type { DataFile, LoadData, RefusedValue } from '../load.js';
import { dataReason, type ServerError } from './errors.js';

const quote = 0x22;
const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * The number of the row of a CSV file that holds a line; both count from 1. The server counts lines inside of quotes too: before it has
 * met the first end of a row those that end in CR, then those that end in LF.
 */
async function rowOfLine(path: string, line: number): Promise<number> {
  let [row, at, quoted] = [1, 1, false];
  for await (const chunk of createReadStream(path)) {
    for (const byte of chunk as Buffer) {
      if (at === line) return row;
      if (byte === quote) quoted = !quoted;
      if (quoted && byte === (row === 1 ? carriageReturn : newline)) at += 1;
      if (quoted || byte !== newline) continue;
      at += 1;
      row += 1;
    }
  }
  return row;
}

/** The line and column of a COPY that the server refuses; undefined if it does not say. Its words about JSON count lines too. */
function refusedLine(
  { code = '', where = '' }: ServerError,
  columns: LoadData['columns'],
): { line: number; column: string | undefined } | undefined {
  // Rows that are too large are noticed later: the line is then one of another row.
  const match = code.startsWith('22') ? /^COPY .*?, line (\d+)(?:, column ([\s\S]*))?/m.exec(where) : null;
  if (match === null) return undefined;
  const [, line, rest = ''] = match;
  // Its name, then perhaps the value: a name may have a colon too.
  const names = columns.map(({ name }) => name).filter((name) => rest === name || rest.startsWith(`${name}: `));
  return { line: Number(line), column: names.sort((one, other) => other.length - one.length)[0] };
}

/** Copies a file into a table, inside of a transaction. @returns how many rows arrived, or the value that the server refuses */
export async function copyFile(
  client: Client,
  { path }: DataFile,
  {
    target,
    columns,
    signal,
  }: { readonly target: string; readonly columns: LoadData['columns']; readonly signal: AbortSignal },
): Promise<number | RefusedValue[]> {
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const stream = client.query(copyFrom(`COPY ${target} (${names}) FROM STDIN (FORMAT csv, NULL '', ENCODING 'UTF8')`));
  try {
    await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), stream, { signal });
    return stream.rowCount;
  } catch (error) {
    const refused = refusedLine(error as ServerError, columns);
    if (refused === undefined) throw error;
    const row = await rowOfLine(path, refused.line);
    return [{ row, column: refused.column, reason: dataReason(error as ServerError) }];
  }
}

import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import type { ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import { type DataFile, type LoadColumn, loadRefused, type RefusedValue } from '../../src/sdk/index.js';
import { dataReason, errnoOf } from './errors.js';
import { refusedJson } from './refused-json.js';
import { identifier } from './types.js';

/** MariaDB's errors for JSON that is nested too deep: a failed check of the column, or the error itself. */
const failedCheck = 4025;
const tooDeep = 4038;
const maxChunkBytes = 1 << 20;

/** The part of the connection that a bulk load needs. */
interface LoadingSession {
  /** `max_allowed_packet` of the server. */
  readonly packetBytes: number;
  rows(sql: string): Promise<RowDataPacket[]>;
  send(sql: string, values: readonly unknown[], infile: Readable): Promise<ResultSetHeader>;
}

interface Warning {
  readonly errno: number;
  readonly row: number | undefined;
  readonly column: string | undefined;
}

/** The column that a message is about, which is in quotes there: a name may have quotes too. */
function columnIn(message: string, columns: readonly LoadColumn[]): string | undefined {
  const [, words] = / column (.*) at row \d+$/s.exec(message) ?? [];
  const quoted = words?.slice(0, -1) ?? '';
  const names = columns.map(({ name }) => name);
  const found = names.filter((name) => quoted.endsWith(`'${name}`) || quoted.endsWith(`\`${name}`));
  return found.sort((one, other) => other.length - one.length)[0];
}

function asWarning({ Level, Code, Message }: RowDataPacket, columns: readonly LoadColumn[]): Warning | undefined {
  // A note without a row only adds to the warning beside it.
  const row = / at row (\d+)$/.exec(String(Message))?.[1];
  if (Level === 'Note' && row === undefined) return undefined;
  const column = columnIn(String(Message), columns);
  return { errno: Number(Code), row: row === undefined ? undefined : Number(row), column };
}

/** The values that an error without a row can only be about. */
async function placedValues(path: string, columns: readonly LoadColumn[], errno: number): Promise<RefusedValue[]> {
  const reason = dataReason(errno === failedCheck ? tooDeep : errno);
  return (await refusedJson(path, columns, errno)).map((place) => ({ ...place, reason }));
}

/**
 * Loads a file into a table by LOAD DATA LOCAL, inside of a transaction.
 * @param target SQL of the table's name
 * @returns how many rows arrived, or the values that the server refuses
 */
export async function loadFile(
  session: LoadingSession,
  { path }: DataFile,
  { target, columns }: { readonly target: string; readonly columns: readonly LoadColumn[] },
): Promise<number | RefusedValue[]> {
  const statement = `LOAD DATA LOCAL INFILE 'rows' INTO TABLE ${target} CHARACTER SET utf8mb4
    FIELDS TERMINATED BY ',' ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\\n' (${columns.map(({ name }) => identifier(name)).join(', ')})`;
  // The server gets this file, whichever one it asks for. Each chunk is a packet.
  const infile = createReadStream(path, { highWaterMark: Math.min(maxChunkBytes, session.packetBytes >> 1) });
  let result: ResultSetHeader;
  try {
    result = await session.send(statement, [], infile);
  } catch (error) {
    // MySQL refuses a value of JSON so, and names no row.
    const placed = await placedValues(path, columns, errnoOf(error));
    if (placed.length === 0) throw error;
    return placed;
  }
  // LOCAL turns all other errors into warnings, and changes or leaves out the rows concerned.
  const rows = result.warningStatus === 0 ? [] : await session.rows('SHOW WARNINGS');
  const warnings = rows.map((warning) => asWarning(warning, columns)).filter((warning) => warning !== undefined);
  if (warnings.length === 0) return result.affectedRows;
  const refused = new Map<number, RefusedValue>();
  for (const { row, column, errno } of warnings) {
    if (row !== undefined) {
      if (!refused.has(row)) refused.set(row, { row, column, reason: dataReason(errno) });
      continue;
    }
    const placed = await placedValues(path, columns, errno);
    if (placed.length === 0) throw loadRefused(`MySQL refuses rows: ${dataReason(errno)}`);
    for (const value of placed) if (!refused.has(value.row)) refused.set(value.row, value);
  }
  return [...refused.values()];
}

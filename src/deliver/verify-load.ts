import { CdsyncError } from '../core/errors.js';
import { quoteIdentifier } from '../core/sql.js';
import type { Mode } from '../sdk/capabilities.js';
import { columnSums, type SummedColumn } from '../sdk/column-sums.js';
import type { ColumnType } from '../sdk/column-type.js';
import type { ColumnSum, TableDestination } from '../sdk/destination.js';
import type { Session } from '../store/duckdb.js';
import type { DeliveredColumn } from './delivered-columns.js';
import type { Piece } from './input.js';

export interface VerifyTask {
  readonly destination: TableDestination;
  readonly stream: string;
  readonly table: string;
  readonly mode: Mode;
  readonly verify: 'count' | 'checksum' | 'none';
  /** Deleted rows stay, marked. */
  readonly isSoft: boolean;
  /** Rows of the snapshot. */
  readonly rows: number;
  /** Rows that the destination refused: each may be there in an older image, or not at all. */
  readonly rejected: number;
  /** The first load of an empty table. */
  readonly isFirst: boolean;
  readonly columns: readonly DeliveredColumn[];
  readonly session: Session;
  /** All rows of the snapshot; left out where they are no longer at hand: rows are then only counted. */
  readonly everything: (() => Promise<readonly Piece[]>) | undefined;
}

function differs({ stream, table }: VerifyTask, what: string): CdsyncError {
  return new CdsyncError(`table "${table}" differs from stream "${stream}": ${what}`, {
    code: 'delivery_differs',
    stream,
    hint: `does anything else write there? Send everything once more: cdsync push --full --stream ${stream}`,
  });
}

async function verifyCount(task: VerifyTask): Promise<void> {
  const { mode, rows, rejected } = task;
  if (mode === 'append' && !task.isFirst) return;
  const found = await task.destination.count(task.table, task.isSoft);
  const enough = found >= rows - rejected;
  if (enough && (found <= rows || mode === 'upsert')) return;
  throw differs(task, `it has ${found} rows, the snapshot ${rows}`);
}

/** SQL for the text of a value whose MD5 is summed up; undefined for types that are only counted. */
function checkedText(value: string, { kind }: ColumnType): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `(${value})::VARCHAR`;
  if (kind === 'date') return `strftime(${value}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `epoch_us(${value})::VARCHAR` : undefined;
}

/** What {@link TableDestination.checksum} should find. */
async function expectedSums(
  { session, columns }: VerifyTask,
  pieces: readonly Piece[],
): Promise<ReadonlyMap<string, ColumnSum>> {
  const rows = pieces.map(({ query }) => query).join(' UNION ALL BY NAME ');
  return columnSums(columns.map(summed), quoteIdentifier, async (selected) => {
    const [found] = rows === '' ? [] : await session.rows(`SELECT ${selected} FROM (${rows})`);
    return found;
  });
}

function summed({ name, value, type }: VerifyTask['columns'][number]): SummedColumn {
  const text = checkedText(value, type);
  const sum = text === undefined ? undefined : `sum(('0x' || substr(md5(${text}), 1, 8))::UBIGINT)::VARCHAR`;
  return { name, value, sum };
}

async function verifyChecksum(task: VerifyTask): Promise<void> {
  const { destination, stream, rejected, mode, table, isSoft, everything } = task;
  if (destination.checksum === undefined) {
    throw new CdsyncError('this destination has no checksums', {
      code: 'checksum_unsupported',
      kind: 'configuration',
      stream,
      hint: 'verify: count',
    });
  }
  // What is not the whole snapshot has other sums.
  if (everything === undefined || rejected > 0 || mode === 'append' || mode === 'upsert') return;
  // Of rows that have not changed the time may be another one; of types that were changed there, the text.
  const checked = task.columns.filter(({ value }) => /^"/.test(value));
  const expected = await expectedSums({ ...task, columns: checked }, await everything());
  const columns = checked.map(({ name, type, mapping }) => ({ name, type: mapping.type, of: type }));
  const found = await destination.checksum(table, columns, isSoft);
  const different = checked.flatMap(({ name }) => {
    const [wanted, there] = [expected.get(name), found.get(name)];
    const same = there !== undefined && wanted?.values === there.values && (wanted.sum ?? '') === (there.sum ?? '');
    return same ? [] : [`"${name}"`];
  });
  if (different.length > 0) throw differs(task, `the checksums of ${different.join(', ')}`);
}

/**
 * Compares what a destination has after a load with the snapshot.
 * @throws {CdsyncError} `delivery_differs`, `checksum_unsupported`
 */
export async function verifyLoad(task: VerifyTask): Promise<void> {
  if (task.verify === 'none') return;
  await verifyCount(task);
  if (task.verify === 'checksum') await verifyChecksum(task);
}

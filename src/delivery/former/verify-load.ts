import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import type { Mode } from '../../sdk/capabilities.js';
import type { ColumnType } from '../../sdk/column-type.js';
import { columnSums, type SummedColumn } from '../../sdk/former/column-sums.js';
import type { ColumnSum, TableDestination } from '../../sdk/former/destination.js';
import type { Session } from '../../storage/duckdb.js';
import type { LoadChunk } from '../input.js';
import type { DeliveredColumn } from './delivered-columns.js';

export interface VerifyTask {
  readonly destination: TableDestination;
  readonly stream: string;
  readonly table: string;
  readonly mode: Mode;
  readonly verify: 'count' | 'checksum' | 'none';
  /** Whether deleted rows stay, with a mark. */
  readonly isSoft: boolean;
  /** Rows of the snapshot. */
  readonly rows: number;
  /** Rows that the destination refused: the table may have an older version of each, or none. */
  readonly rejected: number;
  /** Whether this was the first load of an empty table. */
  readonly isFirst: boolean;
  readonly columns: readonly DeliveredColumn[];
  readonly session: Session;
  /** All rows of the snapshot; undefined if they are no longer available. Rows are then only counted. */
  readonly everything: (() => Promise<readonly LoadChunk[]>) | undefined;
}

function differs({ stream, table }: VerifyTask, what: string): CdsyncError {
  return new CdsyncError(`table "${table}" differs from stream "${stream}": ${what}`, {
    code: 'delivery_differs',
    stream,
    hint: `does anything else write to the table? To send everything again: cdsync push --full --stream ${stream}`,
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

/** SQL for the text of a value that goes into the MD5 sum; undefined for types whose values are only counted. */
function checkedText(value: string, { kind }: ColumnType): string | undefined {
  if (kind === 'boolean' || kind === 'int64' || kind === 'int128' || kind === 'text') return `(${value})::VARCHAR`;
  if (kind === 'date') return `strftime(${value}, '%Y-%m-%d')`;
  return kind === 'timestamp' ? `epoch_us(${value})::VARCHAR` : undefined;
}

/** What {@link TableDestination.checksum} should find. */
async function expectedSums(
  { session, columns }: VerifyTask,
  pieces: readonly LoadChunk[],
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
      stream,
      hint: 'verify: count',
    });
  }
  // Checksums compare only if the table is the whole snapshot.
  if (everything === undefined || rejected > 0 || mode === 'append' || mode === 'upsert') return;
  // Columns with a computed value are left out: unchanged rows may have another time, and a changed type another text.
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
 * Compares the table of a destination with the snapshot after a load.
 * @throws {CdsyncError} `delivery_differs`, `checksum_unsupported`
 */
export async function verifyLoad(task: VerifyTask): Promise<void> {
  if (task.verify === 'none') return;
  await verifyCount(task);
  if (task.verify === 'checksum') await verifyChecksum(task);
}

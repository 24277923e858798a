import { rowKey } from '../../columns/row-hash.js';
import { CdsyncError } from '../../core/errors.js';
import { internalName, quoteIdentifier, sqlTexts } from '../../core/sql.js';
import { nearest } from '../../core/suggestions.js';
import type { FileOp, FilePolicy } from '../../sdk/file-destination.js';
import type { Feed } from '../../snapshot/feed.js';
import type { Session } from '../../storage/duckdb.js';
import type { Reject } from '../delivery-state.js';
import { type ExportColumns, exportSql, hasRefusals, rejectsSql } from '../handover.js';
import { rejectError } from '../load-data.js';
import type { DeliveredColumn, SourceColumn } from '../table/columns.js';

const opNames: Readonly<Record<FileOp, string>> = { inserted: 'insert', updated: 'update', deleted: 'delete' };

/** The columns of a file, in the order of `select`. @throws {CdsyncError} `column_unknown` */
export function selectedColumns(feed: Feed, sources: readonly SourceColumn[], { select, content }: FilePolicy) {
  const present = sources.filter(({ isDropped }) => !isDropped);
  if (select === undefined) return present;
  const chosen = select.map((name) => {
    const column = present.find((source) => source.name === name);
    if (column !== undefined) return column;
    const names = sources.map((source) => source.name);
    const [near] = nearest(name, names, 1);
    const isDropped = names.includes(name);
    throw new CdsyncError(
      isDropped
        ? `\`select\` names "${name}", which \`columns\` drops`
        : `stream "${feed.stream}" has no column "${name}"`,
      {
        code: 'column_unknown',
        stream: feed.stream,
        hint:
          near === undefined || isDropped
            ? 'correct `select`; nothing was written'
            : `did you mean "${near}"? Nothing was written`,
      },
    );
  });
  const missing = feed.key.find((key) => !select.includes(key));
  if (content === 'changes' && missing !== undefined)
    throw new CdsyncError(`\`select\` leaves out "${missing}", which is part of the key of stream "${feed.stream}"`, {
      code: 'destination_columns',
      stream: feed.stream,
      hint: 'with `content: changes` the receiver needs the key: add it to `select`',
    });
  return chosen;
}

const text = { type: { kind: 'text' }, duckdbType: 'VARCHAR', path: undefined, isTracked: true, isKey: false } as const;

/** The rows of a delivery as files have them. */
export class FileRows {
  readonly columns: readonly DeliveredColumn[];
  readonly #handover: ExportColumns;
  readonly #rows: string;
  /** SQL of the key: a total order. */
  readonly order: string;

  /** @param rows SQL of rows, each key once, with `_op` and the stream's columns */
  constructor(feed: Feed, policy: FilePolicy, sources: readonly SourceColumn[], rows: string) {
    const refusesRow = policy.refusesRows;
    const delivered: DeliveredColumn[] = sources.map(({ as, source, path, isTracked, isKey }) => {
      const { type, duckdbType, value } = source;
      const column = { name: as, type, duckdbType };
      return { ...column, value, path, isTracked, isKey: isKey || refusesRow, mapping: policy.mapColumn(column) };
    });
    const plain = { mapping: { type: '' } };
    const op = { name: '_op', value: '_op', ...text, ...plain };
    this.columns = policy.content === 'changes' ? [op, ...delivered] : delivered;
    const keys = feed.key.map((name, index) => ({
      ...{ name: internalName(`order_${index}`), value: quoteIdentifier(name), ...text, ...plain },
    }));
    const ops = { name: internalName('op'), value: '_op', ...text, ...plain };
    const named = this.columns.map((column, index) => ({ ...column, name: `c${index}` }));
    this.#handover = {
      ...{ columns: [...named, ...keys, ops], opType: undefined, key: feed.key, marksDeletes: false },
      ...{ needsKey: policy.content === 'changes' || refusesRow, keyBytes: undefined },
    };
    this.#rows = rows;
    this.order = keys.map(({ name }) => quoteIdentifier(name)).join(', ');
  }

  /** SQL of the rows, in no order. */
  query(op: FileOp | undefined, looksForNul: boolean): string {
    const names = this.columns.map((_, index) => `c${index}`);
    const task = { query: this.#rows, search: { nul: looksForNul }, late: [] };
    const where = op === undefined ? '' : ` WHERE ${quoteIdentifier(internalName('op'))} = '${opNames[op]}'`;
    return `SELECT ${[...names, this.order].join(', ')} FROM (${exportSql(this.#handover, task)})${where}`;
  }

  /**
   * The values that the files cannot hold.
   * @param before the ones of earlier files
   * @throws {CdsyncError} `values_refused` if the job says `on_reject: fail`
   */
  async rejects(
    session: Session,
    onReject: 'continue' | 'fail',
    search: { readonly nul: boolean },
    before: readonly Reject[],
  ): Promise<Reject[]> {
    if (!hasRefusals(this.#handover, search)) return [];
    const rows = await session.rows(rejectsSql(this.#handover, { query: this.#rows, search }));
    // Rows that no file had: their deletes change nothing. Any other delete is owed to the receiver, who has the row.
    const absent = new Set(before.filter(({ op }) => op === 'insert').map(({ key }) => key));
    const textOf = (value: unknown) => (value === null ? null : String(value));
    const live = rows.filter(({ key, is_delete }) => is_delete !== true || !absent.has(textOf(key)));
    const named = live.map(({ column, reason, run_id, is_row, ...row }): Reject => {
      const [key, index] = [textOf(row.key), /^c(\d+)$/.exec(String(column))?.[1]];
      const name = index === undefined ? String(column) : (this.columns[Number(index)]?.name ?? null);
      const op = absent.has(key) ? 'insert' : (row.op as Reject['op']);
      const reject = { key, column: name, reason: String(reason), run_id: String(run_id) };
      return is_row === true ? { ...reject, op } : reject;
    });
    if (onReject === 'fail' && named[0] !== undefined) throw rejectError(named[0]);
    return named;
  }

  /** The entries of a list whose keys have no row among these. */
  async without(session: Session, listed: readonly Reject[]): Promise<Reject[]> {
    const keys = sqlTexts(listed.flatMap(({ key }) => key ?? []));
    const key = rowKey(this.#handover.key);
    const rows = await session.rows(
      `SELECT DISTINCT ${key} AS key FROM (${this.#rows}) WHERE ${key} IN (SELECT unnest(${keys}::VARCHAR[]))`,
    );
    const present = new Set(rows.map((row) => String(row.key)));
    return listed.filter((reject) => reject.key === null || !present.has(reject.key));
  }

  /** About how many bytes the rows have as text: of the first thousand, for all. */
  async bytes(session: Session, op: FileOp | undefined, rows: number): Promise<number> {
    const texts = this.columns.map((_, index) => `coalesce(strlen(c${index}::VARCHAR), 0) + 1`).join(' + ');
    const sample = `SELECT ${texts === '' ? '0' : texts} AS n FROM (${this.query(op, false)}) LIMIT 1000`;
    return Math.round((await session.number(`SELECT coalesce(avg(n), 0)::DOUBLE FROM (${sample})`)) * rows);
  }
}

/** The rows of a plan, and how many each of its files has. */
export interface PlannedRows {
  readonly rows: FileRows;
  readonly parts: readonly { readonly op: FileOp | undefined; readonly rows: number }[];
}

/** Runs a statement that writes rows. @returns their number. One thread sorts large ones in the memory that is too little for several. */
export async function writtenRows(session: Session, sql: string): Promise<number> {
  try {
    return await session.number(sql);
  } catch (error) {
    if (!(error instanceof CdsyncError && error.code === 'memory_exceeded')) throw error;
    const threads = await session.number("SELECT current_setting('threads')");
    if (threads < 2) throw error;
    await session.run('SET threads = 1');
    try {
      return await session.number(sql);
    } finally {
      await session.run(`SET threads = ${threads}`);
    }
  }
}

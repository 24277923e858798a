import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { storeShape } from '../../columns/column-shape.js';
import {
  type Column,
  ColumnSet,
  columnPath,
  holdNegativeZero,
  isMasked,
  type StoredColumn,
} from '../../columns/columns.js';
import { fitting, shapedText } from '../../columns/masked-value.js';
import { rowKey } from '../../columns/row-hash.js';
import { textMismatchSql } from '../../columns/text-format.js';
import { widenedColumn } from '../../columns/widen.js';
import type { StreamConfig } from '../../config/config.js';
import { openFlags } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { sealedLines } from '../../core/sealed-json.js';
import { fileText, quoteIdentifier } from '../../core/sql.js';
import type { ReadResult } from '../../extract/read-result.js';
import type { Session } from '../../storage/duckdb.js';
import { type ParquetCompression, writeParquet } from '../../storage/parquet.js';
import { type DroppedRows, type Part, writeKeys } from '../../storage/part.js';

type Contract = StreamConfig['contract'];

interface ContractTask {
  readonly contract: Contract;
  readonly stream: string;
  /** Columns of the last snapshot; undefined if there is none. */
  readonly before: readonly StoredColumn[] | undefined;
  readonly read: ReadResult;
  readonly key: readonly string[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/** A column with values that do not fit its present type. */
interface Widened {
  readonly from: Column;
  readonly to: Column;
}

interface Violations {
  /** Columns that the last snapshot does not have. */
  readonly added: readonly Column[];
  readonly widened: readonly Widened[];
}

/** The type that a column must keep: that of the last snapshot. Before the first one, the type that a rule asks for. */
function keptType(column: Column, before: ColumnSet | undefined): Column | undefined {
  const knownColumn = before?.get(column.place, column.field);
  if (knownColumn !== undefined)
    return knownColumn.shape.kinds === 0 && knownColumn.declared === undefined ? undefined : knownColumn;
  const cast = column.rule?.cast;
  return cast === undefined ? undefined : { ...column, declared: cast, type: cast, fileType: cast };
}

/** Whether a column has values that its earlier type does not hold. Another choice of `strings` alone changes no value. */
function hasWidened(kept: Column, current: Column): boolean {
  const isText = (column: Column) => column.form !== undefined || column.type === 'VARCHAR';
  if (!isText(kept) || !isText(current)) return kept.type !== current.type;
  return kept.form !== undefined && current.text !== undefined && current.form?.type !== kept.type;
}

/** How the columns of a reading differ from those of the last snapshot. */
export function violations(
  currentColumns: readonly StoredColumn[],
  before: readonly StoredColumn[] | undefined,
): Violations {
  const previousColumns = before === undefined ? undefined : ColumnSet.restore(before);
  const { list } = ColumnSet.restore(currentColumns);
  const widened = list.flatMap((column): Widened[] => {
    const kept = isMasked(column.rule) ? undefined : keptType(column, previousColumns);
    const isOther = kept !== undefined && !isMasked(kept.rule) && hasWidened(kept, column);
    return isOther && kept.rule?.cast === column.rule?.cast ? [{ from: kept, to: column }] : [];
  });
  const added =
    previousColumns === undefined
      ? []
      : list.filter(({ place, field }) => previousColumns.get(place, field) === undefined);
  return { added, widened };
}

/** Each violation in words. */
export function describeViolations({ added, widened }: Violations): string[] {
  return [
    ...added.map((column) => `${columnPath(column)} is new (${column.type})`),
    ...widened.map(({ from, to }) => `${columnPath(to)} has values that ${from.type} does not hold (${to.type})`),
  ];
}

function assertNotFrozen({ contract, stream }: ContractTask, { added, widened }: Violations): void {
  const frozen = {
    added: contract.columns === 'freeze' ? added : [],
    widened: contract.types === 'freeze' ? widened : [],
  };
  const texts = describeViolations(frozen);
  if (texts.length === 0) return;
  throw new CdsyncError(`its contract is broken: ${texts.join('; ')}`, {
    code: 'contract_violated',
    stream,
    hint: 'the last snapshot stays; allow it with `contract: { columns: evolve, types: evolve }`, or have it corrected at the source',
  });
}

/** SQL for a value that is a text; NULL for any other. */
function textIn({ type, form }: Column, value: string): string {
  if (form !== undefined) return form.text(value);
  if (type === 'VARCHAR') return value;
  return type === 'JSON' ? `(CASE WHEN json_type(${value}) = 'VARCHAR' THEN ${value} ->> '$' END)` : 'NULL::VARCHAR';
}

/** SQL for a value in the type of the last snapshot; NULL if that type cannot hold it exactly. */
function narrowed(from: Column, wanted: Column): string {
  const { fileType: type, shape, declared, form } = wanted;
  const value = quoteIdentifier(from.name);
  if (form !== undefined) {
    const text = textIn(from, value);
    return `CASE WHEN NOT (${textMismatchSql(text, form)}) THEN ${form.typed(text, 'file')} END`;
  }
  if (from.type === 'VARCHAR' && declared !== undefined) {
    return fitting(value, type);
  }
  if (type === 'VARCHAR') return textIn(from, value);
  const text = from.type === 'JSON' ? `${value}::VARCHAR` : shapedText(value, from.shape);
  const cast = `TRY_CAST((${text})::JSON AS ${type})`;
  return `CASE WHEN (${shapedText(cast, shape)}) = (${text}) THEN ${cast} END`;
}

/** A column of a part with values that the contract forbids. */
interface Fault {
  readonly column: Column;
  readonly reason: string;
  /** SQL for whether a row has such a value. */
  readonly isFaulty: string;
  readonly takesRow: boolean;
  /** SQL for the value to keep, if the row stays. */
  readonly kept: string | undefined;
}

function faultsOf({ columns }: Part, { types, columns: ofColumns }: Contract, violations: Violations): Fault[] {
  const own = ColumnSet.restore(columns);
  const misfitting = types === 'evolve' ? [] : violations.widened;
  const added = ofColumns === 'discard_row' ? violations.added : [];
  return [
    ...misfitting.flatMap(({ from: wanted }): Fault[] => {
      const column = own.get(wanted.place, wanted.field);
      if (column === undefined || (column.fileType === wanted.fileType && column.form === wanted.form)) return [];
      const kept = narrowed(column, wanted);
      const value = quoteIdentifier(column.name);
      const isEmpty = wanted.form === undefined ? 'false' : `coalesce(${textIn(column, value)} = '', false)`;
      const isFaulty = `${value} IS NOT NULL AND (${kept}) IS NULL AND NOT ${isEmpty}`;
      return [
        { column, reason: `the value does not fit ${wanted.type}`, isFaulty, takesRow: types === 'discard_row', kept },
      ];
    }),
    ...added.flatMap(({ place, field }): Fault[] => {
      const column = own.get(place, field);
      const isFaulty = `${quoteIdentifier(column?.name ?? '')} IS NOT NULL`;
      return column === undefined
        ? []
        : [{ column, reason: 'the column is new', isFaulty, takesRow: true, kept: undefined }];
    }),
  ];
}

/** The columns that the contract allows, with the types that it keeps. */
function remaining({ read, contract }: ContractTask, violations: Violations): StoredColumn[] {
  const added = new Set(contract.columns === 'discard_row' ? violations.added.map(columnPath) : []);
  const kept = new Map(
    contract.types === 'evolve' ? [] : violations.widened.map(({ from, to }) => [columnPath(to), from] as const),
  );
  const columns = ColumnSet.restore(read.columns.filter((column) => !added.has(columnPath(column))));
  return columns.store().map((column) => {
    const from = kept.get(columnPath(column));
    if (from === undefined) return column;
    const { declared: _, former: __, text: ___, ...rest } = column;
    const declared = from.declared === undefined ? {} : { declared: from.declared };
    const text = from.text === undefined ? {} : { text: from.text };
    return { ...rest, shape: storeShape(from.shape), ...declared, ...text };
  });
}

/** A reading without the rows, columns and values that the contract forbids. */
export interface Enforced {
  readonly read: ReadResult;
  /** Number of rows that are left out. */
  readonly discarded: number;
  /** Number of values that are NULL instead. */
  readonly discardedValues: number;
  /** Keys of the rows that are left out. */
  readonly keys: ReadonlySet<string>;
}

class Enforcement {
  readonly #session: Session;
  readonly #task: ContractTask;
  readonly #found: Violations;
  readonly #columns: StoredColumn[];
  readonly #rejects: object[] = [];
  readonly #keys = new Set<string>();
  #dropped: DroppedRows[];
  #discarded = 0;
  #discardedValues = 0;

  constructor(session: Session, task: ContractTask, violations: Violations) {
    this.#session = session;
    this.#task = task;
    this.#found = violations;
    this.#columns = remaining(task, violations);
    this.#dropped = [...task.read.dropped];
  }

  async enforce(): Promise<Enforced> {
    const { read, folder } = this.#task;
    const parts: Part[] = [];
    for (const part of read.parts) parts.push(await this.#part(part));
    const file = join(folder, 'parts', 'contract.rejects.jsonl');
    if (this.#rejects.length > 0)
      await writeFile(file, sealedLines(this.#rejects), { mode: 0o600, flag: openFlags.replace });
    const rejects = this.#rejects.length > 0 ? [...read.rejects, file] : read.rejects;
    const counters = { ...read.counters, rejected: read.counters.rejected + this.#discarded };
    const kept = new Set(this.#columns.map(columnPath));
    const leftOut = [...read.leftOut, ...read.columns.filter((column) => !kept.has(columnPath(column)))];
    const result = { ...read, parts, columns: this.#columns, leftOut, counters, rejects, dropped: this.#dropped };
    const discardedValues = this.#discardedValues;
    return { read: result, discarded: this.#discarded, discardedValues, keys: this.#keys };
  }

  /** The part without forbidden rows, columns and values; the same part if it has none. */
  async #part(part: Part): Promise<Part> {
    const { contract, key, folder, compression } = this.#task;
    const faults = faultsOf(part, contract, this.#found);
    if (faults.length === 0) return part;
    const source = `read_parquet(${fileText(part.path)}, file_row_number = true)`;
    for (const { column, reason, isFaulty, takesRow } of faults) {
      const keys = `SELECT ${rowKey(key)} AS key FROM ${source} WHERE ${isFaulty}`;
      for await (const row of this.#session.stream(keys)) {
        if (takesRow) this.#keys.add(String(row.key));
        else this.#discardedValues += 1;
        this.#rejects.push({ key: String(row.key), column: column.name, reason, isKept: true });
      }
    }
    const partColumns = ColumnSet.restore(part.columns);
    const selected = ColumnSet.restore(this.#columns).list.map((column) => {
      const fault = faults.find((candidate) => columnPath(candidate.column) === columnPath(column));
      return `${fault?.kept ?? widenedColumn(partColumns, column, 'file')} AS ${quoteIdentifier(column.name)}`;
    });
    const leaving = faults.filter(({ takesRow }) => takesRow).map(({ isFaulty }) => `(${isFaulty})`);
    const dropped = this.#dropped.filter(({ part: number }) => number === part.number);
    const away = dropped.map(({ from, to }) => `(file_row_number >= ${from} AND file_row_number < ${to})`);
    const out = [...leaving, ...away];
    const where = out.length === 0 ? 'true' : `NOT (${out.join(' OR ')})`;
    const query = `SELECT ${selected.join(', ')} FROM (SELECT * FROM ${source} WHERE ${where} ORDER BY file_row_number)`;
    const path = join(folder, 'parts', `contract-${part.number}.parquet`);
    const file = await writeParquet(this.#session, query, path, {
      compression,
      keepsZeroSigns: holdNegativeZero(this.#columns),
    });
    const rowsAway = dropped.reduce((sum, { from, to }) => sum + to - from, 0);
    this.#discarded += part.rows - file.rows - rowsAway;
    // The new file does not contain the dropped rows. They still count, so they get positions after its last row.
    if (rowsAway > 0) this.#dropped = this.#dropped.filter(({ part: number }) => number !== part.number);
    if (rowsAway > 0) this.#dropped.push({ part: part.number, from: file.rows, to: file.rows + rowsAway });
    const keysPath = join(folder, 'parts', `contract-${part.number}.keys`);
    const { list } = ColumnSet.restore(this.#columns);
    await writeKeys(this.#session, { number: part.number, path, columns: list, key }, keysPath);
    return { ...part, ...file, keysPath, columns: this.#columns };
  }
}

const none: ReadonlySet<string> = new Set();

/**
 * Enforces the stream's contract on a reading, before it is compared with the snapshot.
 * @throws {CdsyncError} `contract_violated`, with all violations at once
 */
export async function enforceContract(session: Session, task: ContractTask): Promise<Enforced> {
  const { contract, read, before } = task;
  const unchanged = { read, discarded: 0, discardedValues: 0, keys: none };
  if (contract.columns === 'evolve' && contract.types === 'evolve') return unchanged;
  const found = violations(read.columns, before);
  assertNotFrozen(task, found);
  const discards = (contract.types !== 'evolve' && found.widened.length > 0) || found.added.length > 0;
  return discards ? new Enforcement(session, task, found).enforce() : unchanged;
}

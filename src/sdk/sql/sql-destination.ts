import type { TableDestination, TableSums, TableTypes } from '../destination.js';
import { ColumnNotWidened, tableMoved } from '../errors.js';
import type {
  Finished,
  FoundTable,
  Load,
  LoadLine,
  LoadOutcome,
  StateKey,
  StateRow,
  TableState,
  TargetColumn,
} from '../load.js';
import type { FoundColumns, MergeTask, SqlDialect, SqlSession, Stage } from './dialect.js';
import { dropLeftovers, dropTable } from './leftovers.js';
import { countRows, deleteRows, fillTable, loadColumn, RowWriter } from './row-writer.js';
import {
  addedColumnLists,
  assertVersion,
  loadsTable,
  recordLoad,
  removeOlder,
  removeRecords,
  type SqlStore,
  stateRows,
  stateTable,
  stateTableSql,
  tableState,
  writeRecord,
} from './state-rows.js';
import { deleteUpdateInsert, isLive, stageOf, withDefaults } from './statements.js';
import { sumRows } from './sum-rows.js';
import { tryFunctions } from './try-functions.js';

/** The stamp in a comment, behind whatever the user has written there. */
const stamped = /(?<!\s)\s*\[cdsync ([^[\]]*)\]\s*$/;

/** A table once nothing but its rows will change. @param isDue it has its former stamp, because readers use it */
type Shape = Pick<LoadOutcome, 'columns' | 'stamp'> & { readonly isDue?: boolean };

/** A load whose record is written. */
interface Committed extends Finished {
  readonly outcome: LoadOutcome;
  readonly after: StateRow;
}

/**
 * Tables of a SQL database, from its dialect and a session. It carries out the steps of a delivery in their order; what differs
 * between databases is in the dialect, and in {@link find} and {@link createPlace}.
 */
export abstract class SqlDestination<S extends SqlSession = SqlSession> implements TableDestination {
  readonly types?: TableTypes;
  protected readonly dialect: ReturnType<typeof withDefaults>;
  protected readonly session: S;
  /** Of each table, as last found. */
  readonly #existing = new Map<string, FoundColumns>();
  readonly #store: SqlStore;
  readonly #isStepwise: boolean;
  /** Statements that drop the leftovers of loads, this one included. */
  #left: readonly string[] = [];

  constructor(dialect: SqlDialect, session: S) {
    this.dialect = withDefaults(dialect);
    this.session = session;
    this.#store = { dialect, session };
    this.#isStepwise = dialect.commit === 'steps';
  }

  /** The columns and the comment of a table; undefined if there is none. @throws {CdsyncError} if it is no table that can be loaded */
  protected abstract find(table: string): Promise<FoundColumns | undefined>;

  /** Makes one of cdsync's own tables; deliveries of other streams may do so at the same time. */
  protected async createOwn(sql: string): Promise<void> {
    await this.session.run(sql);
  }

  /** Makes the schema or database that the tables are in, if it is missing. */
  protected async createPlace(): Promise<void> {}

  /** SQL that drops the tables beside one that killed loads have left. Default: they die with their session. */
  protected async leftovers(_table: string): Promise<readonly string[]> {
    return [];
  }

  async removeLeft({ table }: StateKey): Promise<void> {
    await this.#runAll([...this.#left, ...(await this.leftovers(table))]);
    this.#left = [];
  }

  async #find(table: string): Promise<FoundColumns | undefined> {
    const existing = await this.find(table);
    if (existing !== undefined) this.#existing.set(table, existing);
    return existing;
  }

  async state(key: StateKey): Promise<TableState> {
    const folded = (name: string) => (this.dialect.foldsTables ? name.toLowerCase() : name);
    const rows = (await this.#find(stateTable)) && (await stateRows(this.#store));
    return tableState(key, rows ?? [], folded);
  }

  async describe(table: string): Promise<FoundTable | undefined> {
    const existing = await this.#find(table);
    if (existing === undefined) return undefined;
    const rows = await this.#count(table);
    const stamp = existing.comment === undefined ? undefined : (stamped.exec(existing.comment ?? '')?.[1] ?? null);
    return { columns: existing.columns, rows, stamp };
  }

  async addedColumns(key: StateKey): Promise<string[]> {
    if ((await this.#find(loadsTable)) === undefined) return [];
    const { columns = [] } = this.#existing.get(key.table) ?? (await this.#find(key.table)) ?? {};
    const lists = await addedColumnLists(this.#store, key);
    // A name may have a comma too.
    const isAdded = (name: string) => lists.some((list) => `, ${list}, `.includes(`, ${name}, `));
    return columns.map(({ name }) => name).filter(isAdded);
  }

  /** The number of rows. */
  protected async number(sql: string): Promise<number> {
    const [row] = await this.session.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  #count(table: string): Promise<number> {
    return countRows(this.#store, table);
  }

  async load(load: Load): Promise<void> {
    await this.carryOut(load);
  }

  /** Carries out a load. */
  protected async carryOut(load: Load): Promise<Finished> {
    const stop = () => this.session.stop();
    const inTurn = load.inTurn ?? ((work) => work());
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    try {
      await inTurn(() => this.#createOwn());
      this.#left = await this.leftovers(load.table.name);
      await this.#drop(load.signal);
      // Before the intent, which names this load in place of the one that was cut short.
      const undone = await this.#undo(load);
      const isFilled = load.write.type === 'fill' && this.dialect.stagesAll !== true;
      const stage = isFilled ? undefined : stageOf(this.dialect, load, this.#existing.get(load.table.name));
      let committed: Committed;
      try {
        this.#left = [...this.#left, ...(stage?.drop ?? [])];
        if (stage !== undefined) await this.#stage(stage, load);
        committed = await inTurn(() => this.#written({ ...load, rows: load.rows - undone }, stage));
      } finally {
        await this.#drop(load.signal);
      }
      return await inTurn(() => this.#settled(load, committed));
    } finally {
      load.signal.removeEventListener('abort', stop);
    }
  }

  /** Writes the intent and the changes that no transaction holds, then the transaction. */
  async #written(load: Load, stage: Stage | undefined): Promise<Committed> {
    const { session, dialect } = this;
    const isAnnounced = this.#isStepwise || (dialect.commit === 'transaction' && this.#hasDdl(load));
    const stateRow = isAnnounced ? await writeRecord(this.#store, load.state, load.before, load.intent) : load.before;
    if (dialect.commit !== 'transaction_with_ddl') await this.#change(load, stateRow);
    // Where a stamp is DDL, it would commit the rows before their record.
    const isStamped = dialect.commit === 'transaction' && dialect.stamps === 'reload';
    const shape = isStamped ? await this.#stamp(load) : undefined;
    try {
      await session.begin?.();
      const committed = await this.#commit(load, { found: stateRow, stage, shape });
      return shape?.isDue === true ? await this.#stampLater(load, committed) : committed;
    } catch (error) {
      await session.rollback?.().catch(() => undefined);
      throw error;
    }
  }

  #hasDdl({ table, change: { drop, create, add, widen }, isReload }: Load): boolean {
    const isStamped =
      isReload && this.dialect.stamps === 'reload' && this.#existing.get(table.name)?.comment !== undefined;
    return drop || create || add.length > 0 || widen.length > 0 || isStamped;
  }

  async #drop(signal: AbortSignal): Promise<void> {
    this.#left = await dropLeftovers(this.session, this.#left, signal);
  }

  /** Everything that counts only together; without transactions, step by step, and the record last. */
  async #commit(
    load: Load,
    { found, stage, shape }: { found: StateRow | undefined; stage: Stage | undefined; shape: Shape | undefined },
  ): Promise<Committed> {
    const before = await this.#takeRecord(load, found);
    if (this.dialect.commit === 'transaction_with_ddl') await this.#change(load);
    const outcome = await this.#writtenRows(load, { stage, shape, version: before?.version ?? 0 });
    const { record, line } = load.finish(outcome);
    const after = await this.#writeState(load, before, record, line);
    await this.session.commit?.();
    return { record, line, outcome, after };
  }

  /**
   * Takes the record's row before anything else: an older delivery that is still under way can then no longer finish.
   * @returns the row as it is then
   */
  async #takeRecord({ state, intent }: Load, stateRow: StateRow | undefined): Promise<StateRow | undefined> {
    if (this.dialect.addsState !== true && !this.#isStepwise)
      return writeRecord(this.#store, state, stateRow, stateRow?.record ?? intent);
    await assertVersion(this.#store, state, stateRow?.version ?? 0);
    return stateRow;
  }

  /** Writes the rows, and counts and stamps the table. @throws {CdsyncError} `table_moved` if others have changed the number of rows */
  async #writtenRows(
    load: Load,
    { stage, shape, version }: { stage: Stage | undefined; shape: Shape | undefined; version: number },
  ): Promise<LoadOutcome> {
    const { table, change, state } = load;
    const rows = change.create || change.drop ? 0 : load.rows;
    const found = this.#existing.get(table.name);
    const clear = (target: string, names: readonly string[]) => this.clear(target, names);
    const merge = (task: MergeTask, before: number) => this.merge(task, before);
    const staged = stage && (stage.reads ?? stage.name);
    const writer = new RowWriter(this.#store, { ...load, rows }, { found, stage: staged, version, clear, merge });
    const expected = await writer.write();
    const { columns, stamp } = shape ?? (await this.#stamp(load));
    const after = await this.#count(table.name);
    if (expected !== undefined && after !== expected) throw tableMoved(state, expected, after);
    // Where nothing is rolled back, before the record, which has as owed what could not be dropped.
    if (this.#isStepwise) await this.#drop(load.signal);
    return {
      rows: after,
      columns,
      stamp,
      owes: (this.#isStepwise && this.#left.length > 0) || stage?.outlives === true,
    };
  }

  /** Replaces the record, those that it replaces, and adds the line about the load. */
  async #writeState(load: Load, before: StateRow | undefined, record: string, line: LoadLine): Promise<StateRow> {
    const store = this.#store;
    for (const other of load.supersedes) await removeRecords(store, other);
    const after = await writeRecord(store, load.state, before, record);
    await recordLoad(store, line, load.moment);
    if (this.#isStepwise) await removeOlder(store, load.state, after.version);
    return after;
  }

  /** Makes cdsync's own tables. Only if they are missing: a user may load tables without the right to create them. */
  async #createOwn(): Promise<void> {
    const { state, loads } = stateTableSql(this.dialect);
    if (!this.#existing.has(stateTable)) {
      await this.createPlace();
      await this.createOwn(state);
    }
    if ((await this.#find(loadsTable)) === undefined) await this.createOwn(loads);
  }

  async #runAll(statements: readonly string[]): Promise<void> {
    for (const sql of statements) await this.session.run(sql);
  }

  async #change({ table, change, state, before }: Load, announced?: StateRow): Promise<void> {
    const { dialect } = this;
    if (change.drop) await dropTable(this.#store, table.name, { state, before, announced });
    if (change.create) await this.#runAll(dialect.create(table));
    if (change.add.length > 0) await this.#runAll(dialect.add(table, change.add));
    for (const column of change.widen)
      await this.#runAll(dialect.widen(table, column)).catch(ColumnNotWidened.rethrow(column.name));
  }

  async #stage({ name, create, drop }: Stage, load: Load): Promise<void> {
    await this.#runAll(drop);
    await this.#runAll(create);
    await fillTable(this.session, name, load);
    await this.#runAll(this.dialect.afterStage?.(name) ?? []);
  }

  /** Sets columns to NULL in every row. @param target SQL of the table's name */
  protected async clear(target: string, columns: readonly string[]): Promise<void> {
    await this.session.run(this.dialect.clear(target, columns));
  }

  /**
   * Merges the staged rows.
   * @param rows of the table before
   * @returns the rows that it must have afterwards; undefined if a statement does not report them
   */
  protected async merge(task: MergeTask, rows: number): Promise<number | undefined> {
    let expected: number | undefined = rows;
    for (const { sql, rowEffect: counts } of this.dialect.merge?.(task) ?? deleteUpdateInsert(this.dialect, task)) {
      const isBalance = counts === 'balance';
      const changed = isBalance ? await this.session.netRowChange?.(sql) : await this.session.run(sql);
      if (expected === undefined || counts === undefined || changed === undefined) expected = undefined;
      else expected += isBalance ? changed : counts * changed;
    }
    return expected;
  }

  /** Deletes the rows of a load that was cut short. @returns how many */
  async #undo({ table, undo }: Load): Promise<number> {
    const { columns = [] } = this.#existing.get(table.name) ?? {};
    if (undo === undefined || !columns.some(({ name }) => name === loadColumn)) return 0;
    const where = `${this.dialect.identifier(loadColumn)} = ${this.dialect.literal(undo)}`;
    return deleteRows(this.#store, table.name, [where]);
  }

  sums(table: string, columns: readonly TargetColumn[], live: boolean): Promise<TableSums> {
    const where = live ? isLive(this.dialect) : undefined;
    return sumRows(this.#store, { table: this.dialect.table(table), alias: '', where }, columns);
  }

  tryFunctions(types: Pick<TableTypes, 'mapColumn'>): Promise<void> {
    return tryFunctions(this.#store, types);
  }

  /** Says on the table itself which load it is of, if that can be said. */
  async #stamp({ table, id, isReload, change }: Load): Promise<Shape> {
    const { columns = [], comment } = (await this.#find(table.name)) ?? {};
    if (comment === undefined) return { columns, stamp: null };
    const before = stamped.exec(comment ?? '')?.[1] ?? null;
    const isChanged = isReload || change.create || change.add.length > 0 || change.widen.length > 0;
    if (this.dialect.stamps === 'reload' && !isChanged) return { columns, stamp: before };
    const isDone = await this.#comment(table.name, comment ?? '', id);
    return isDone ? { columns, stamp: id } : { columns, stamp: before, isDue: true };
  }

  /** Stamps a table. @returns false if readers use it, and would keep others waiting */
  async #comment(table: string, comment: string, id: string): Promise<boolean> {
    const { dialect } = this;
    const text = comment.replace(stamped, '');
    const statements = dialect.comment(table, `${text}${text === '' ? '' : ' '}[cdsync ${id}]`);
    if (dialect.briefly === undefined) {
      await this.#runAll(statements);
      return true;
    }
    await this.session.run(dialect.briefly.begin);
    try {
      await this.#runAll(statements);
      return true;
    } catch (error) {
      if (dialect.briefly.isInUse(error)) return false;
      throw error;
    } finally {
      await this.session.run(dialect.briefly.end).catch(() => undefined);
    }
  }

  /** A second try to stamp a table, once its rows are committed. If readers still use it, its former stamp stays. */
  async #stampLater(load: Load, committed: Committed): Promise<Committed> {
    const { table, id } = load;
    const { comment } = (await this.#find(table.name)) ?? {};
    if (!(await this.#comment(table.name, comment ?? '', id))) return committed;
    return this.#withOutcome(load, committed, { stamp: id });
  }

  /** Writes the record again, with the parts that are known only after the commit. */
  async #withOutcome(load: Load, committed: Committed, change: Partial<LoadOutcome>): Promise<Committed> {
    const outcome = { ...committed.outcome, ...change };
    const { record } = load.finish(outcome);
    return {
      ...committed,
      record,
      outcome,
      after: await writeRecord(this.#store, load.state, committed.after, record),
    };
  }

  /** Once the stage is dropped, it is no longer owed; if that has failed, it is. */
  async #settled(load: Load, committed: Committed): Promise<Finished> {
    const owes = this.#left.length > 0;
    if (owes === committed.outcome.owes) return committed;
    const settled = this.#withOutcome(load, committed, { owes });
    // A session that can write no more has taken its stage with it.
    return owes ? settled.catch(() => committed) : settled;
  }

  async replaceRecord(before: StateRow, record: string): Promise<void> {
    await writeRecord(this.#store, before, before, record);
  }

  close(): Promise<void> {
    return this.session.close();
  }
}

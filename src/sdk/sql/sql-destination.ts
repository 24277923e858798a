import type { TableDestination, TableSums, TableTypes } from '../destination.js';
import { ColumnNotWidened, countDiffers, tableMoved } from '../errors.js';
import type {
  Finished,
  FoundTable,
  LegacyWatermark,
  Load,
  LoadOutcome,
  StateKey,
  StateRow,
  TableState,
  TargetColumn,
  TargetTable,
} from '../load.js';
import type { FoundColumns, MergeTask, SqlDialect, SqlSession, Stage } from './dialect.js';
import { dropLeftovers } from './leftovers.js';
import {
  legacyRows,
  legacyWatermarks,
  loadsTable,
  noteLoad,
  refuseMoved,
  removeLegacy,
  removeOlder,
  removeRecords,
  type SqlStore,
  stateRows,
  stateTable,
  stateTableSql,
  tableState,
  writeRecord,
} from './state-rows.js';
import { deleteUpdateInsert, erasedSql, freeAlias, isLive, nameList, withDefaults } from './statements.js';
import { foundRows, hashedColumns, type Summed, sumRows, unmerged } from './sum-rows.js';

/** The column of mode `append` that names the load of a row, where loads cannot be rolled back. */
const loadColumn = '_cdsync_load';
/** The stamp in a comment, behind whatever the user has written there. */
const stamped = /\s*\[cdsync ([^\]]*)\]\s*$/;

/** A table once nothing but its rows will change. */
type Shape = Pick<LoadOutcome, 'columns' | 'stamp'>;

/**
 * Tables of a SQL database, from its dialect and a session. It carries out the steps of a delivery in their order; what differs
 * between databases is in the dialect, and in {@link find} and {@link createPlace}.
 */
export abstract class SqlDestination<S extends SqlSession = SqlSession> implements TableDestination {
  readonly types?: TableTypes;
  protected readonly dialect: ReturnType<typeof withDefaults>;
  protected readonly session: S;
  /** Of each table, as last found. */
  readonly #found = new Map<string, FoundColumns>();
  readonly #store: SqlStore;
  readonly #isStepwise: boolean;
  #legacy: LegacyWatermark | undefined;
  /** Statements that drop what loads have left, this one included. */
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
    await this.#runAll(await this.leftovers(table));
  }

  protected legacy(): Promise<LegacyWatermark[]> {
    return legacyRows(this.#store);
  }

  async #find(table: string): Promise<FoundColumns | undefined> {
    const found = await this.find(table);
    if (found !== undefined) this.#found.set(table, found);
    return found;
  }

  async state(key: StateKey): Promise<TableState> {
    const folded = (name: string) => (this.dialect.foldsTables ? name.toLowerCase() : name);
    const rows = (await this.#find(stateTable)) && (await stateRows(this.#store));
    const legacy = (await this.#find(legacyWatermarks)) && (await this.legacy());
    const state = tableState(key, rows ?? [], legacy ?? [], folded);
    this.#legacy = state.legacy;
    return state;
  }

  async describe(table: string): Promise<FoundTable | undefined> {
    const found = await this.#find(table);
    if (found === undefined) return undefined;
    const rows = await this.#count(table);
    const stamp = found.comment === undefined ? undefined : (stamped.exec(found.comment ?? '')?.[1] ?? null);
    return { columns: found.columns, rows, stamp };
  }

  /** The number of rows. */
  protected async number(sql: string): Promise<number> {
    const [row] = await this.session.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  #count(table: string, where = ''): Promise<number> {
    return this.number(`SELECT count(*) AS n FROM ${this.dialect.table(table)}${where}`);
  }

  async load(load: Load): Promise<void> {
    await this.carryOut(load);
  }

  /** Carries out a load. */
  protected async carryOut(load: Load): Promise<Finished> {
    const stop = () => this.session.stop();
    load.signal.throwIfAborted();
    load.signal.addEventListener('abort', stop);
    try {
      await this.#createOwn();
      this.#left = await this.leftovers(load.table.name);
      await this.#drop(load.signal);
      // Before the intent, which names this load in place of the one that was cut short.
      const undone = await this.#undo(load);
      const isFilled = load.write.type === 'fill' && this.dialect.stagesAll !== true;
      const stage = isFilled ? undefined : this.dialect.stage(load.table, load.data.columns);
      try {
        this.#left = [...this.#left, ...(stage?.drop ?? [])];
        if (stage !== undefined) await this.#stage(stage, load);
        return await this.#written({ ...load, rows: load.rows - undone }, stage && (stage.reads ?? stage.name));
      } finally {
        await this.#drop(load.signal);
      }
    } finally {
      load.signal.removeEventListener('abort', stop);
    }
  }

  /** Writes the intent and the changes that no transaction holds, then the transaction. */
  async #written(load: Load, stage: string | undefined): Promise<Finished> {
    const { session, dialect } = this;
    const isAnnounced = this.#isStepwise || (dialect.commit === 'transaction' && this.#hasDdl(load));
    const found = isAnnounced ? await writeRecord(this.#store, load.state, load.before, load.intent) : load.before;
    if (dialect.commit !== 'transaction_with_ddl') await this.#change(load);
    // Where a stamp is DDL, it would commit the rows before their record.
    const isStamped = dialect.commit === 'transaction' && dialect.stamps === 'reload';
    const shape = isStamped ? await this.#stamp(load) : undefined;
    try {
      await session.begin?.();
      return await this.#commit(load, { found, stage, shape });
    } catch (error) {
      await session.rollback?.().catch(() => undefined);
      throw error;
    }
  }

  #hasDdl({ table, change: { drop, create, add, widen }, isReload }: Load): boolean {
    const isStamped =
      isReload && this.dialect.stamps === 'reload' && this.#found.get(table.name)?.comment !== undefined;
    return drop || create || add.length > 0 || widen.length > 0 || isStamped;
  }

  async #drop(signal: AbortSignal): Promise<void> {
    this.#left = await dropLeftovers(this.session, this.#left, signal);
  }

  /** Everything that counts only together; without transactions, step by step, and the record last. */
  async #commit(
    load: Load,
    { found, stage, shape }: { found: StateRow | undefined; stage: string | undefined; shape: Shape | undefined },
  ): Promise<Finished> {
    const { session, dialect } = this;
    const { table, state } = load;
    // The record's row is taken first: an older delivery that is still under way can then no longer finish.
    const isTaken = dialect.addsState === true || this.#isStepwise;
    const before = isTaken ? found : await writeRecord(this.#store, state, found, found?.record ?? load.intent);
    if (isTaken) await refuseMoved(this.#store, state, before?.version ?? 0);
    if (dialect.commit === 'transaction_with_ddl') await this.#change(load);
    const rows = load.change.create || load.change.drop ? 0 : load.rows;
    const expected = await this.#writeRows({ ...load, rows }, stage, before?.version ?? 0);
    const { columns, stamp } = shape ?? (await this.#stamp(load));
    const after = await this.#count(table.name);
    if (expected !== undefined && after !== expected) throw tableMoved(state, expected, after);
    // Where nothing is rolled back, before the record, which has as owed what could not be dropped.
    if (this.#isStepwise) await this.#drop(load.signal);
    const owes = this.#isStepwise && this.#left.length > 0;
    const { record, line } = load.finish({ rows: after, columns, stamp, owes });
    for (const other of load.supersedes) await removeRecords(this.#store, other);
    if (this.#legacy !== undefined) await removeLegacy(this.#store, this.#legacy);
    const { version } = await writeRecord(this.#store, state, before, record);
    await noteLoad(this.#store, line, load.moment);
    if (this.#isStepwise) await removeOlder(this.#store, state, version);
    await session.commit?.();
    return { record, line };
  }

  /** Makes cdsync's own tables. Only if they are missing: a user may load tables without the right to create them. */
  async #createOwn(): Promise<void> {
    const { state, loads } = stateTableSql(this.dialect);
    if (!this.#found.has(stateTable)) {
      await this.createPlace();
      await this.createOwn(state);
    }
    if ((await this.#find(loadsTable)) === undefined) await this.createOwn(loads);
  }

  async #runAll(statements: readonly string[]): Promise<void> {
    for (const sql of statements) await this.session.run(sql);
  }

  async #change({ table, change }: Load): Promise<void> {
    const { dialect } = this;
    if (change.drop) await this.session.run(`DROP TABLE IF EXISTS ${dialect.table(table.name)}`);
    if (change.create) await this.#runAll(dialect.create(table));
    if (change.add.length > 0) await this.#runAll(dialect.add(table, change.add));
    for (const column of change.widen)
      await this.#runAll(dialect.widen(table, column)).catch(ColumnNotWidened.rethrow(column.name));
  }

  async #stage({ name, create, drop }: Stage, load: Load): Promise<void> {
    await this.#runAll(drop);
    await this.#runAll(create);
    await this.#fill(name, load, load.signal);
    await this.#runAll(this.dialect.afterStage?.(name) ?? []);
  }

  async #fill(target: string, { data }: Load, signal: AbortSignal): Promise<void> {
    const arrived = await this.session.fill(target, data, signal);
    if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
  }

  /** Writes the rows, and looks at them. @returns the number of rows that the table must have now; undefined if that is not known */
  async #writeRows(load: Load, stage: string | undefined, version: number): Promise<number | undefined> {
    const { table, write, clear } = load;
    const { dialect } = this;
    const target = dialect.table(table.name);
    const rows = load.rows - (await this.#delete(table, erasedSql(dialect, table, load.erase)));
    if (write.type === 'append') {
      if (clear.length > 0) await this.clear(target, clear);
      return this.#append(load, stage as string, rows);
    }
    if (write.type === 'fill') {
      if (stage === undefined) await this.#fill(target, load, load.signal);
      else await this.#insert(load, stage);
      await this.#runAll(dialect.afterFill?.(table) ?? []);
      await this.#readBack(
        load,
        stage === undefined || !table.isKeyed ? undefined : this.#mergeTask(load, stage, version),
      );
      return rows + load.data.handedOver;
    }
    // How many rows a merge adds is not reported everywhere; so they are counted before it.
    const present = this.#isStepwise ? await this.#count(table.name) : rows;
    if (present !== rows) throw tableMoved(load.state, rows, present);
    const task = this.#mergeTask(load, stage as string, version);
    const expected = await this.merge(task, rows);
    await this.#readBack(load, task);
    return expected;
  }

  /** Sets columns to NULL in every row. @param target SQL of the table's name */
  protected async clear(target: string, columns: readonly string[]): Promise<void> {
    await this.session.run(this.dialect.clear(target, columns));
  }

  /** @param rows of the table before @returns the rows that it must have afterwards; undefined if that is not known */
  protected async merge(task: MergeTask, rows: number): Promise<number | undefined> {
    let expected: number | undefined = rows;
    for (const { sql, counts } of this.dialect.merge?.(task) ?? deleteUpdateInsert(this.dialect, task)) {
      const isBalance = counts === 'balance';
      const changed = isBalance ? await this.session.balance?.(sql) : await this.session.run(sql);
      if (expected === undefined || counts === undefined || changed === undefined) expected = undefined;
      else expected += isBalance ? changed : counts * changed;
    }
    return expected;
  }

  /** Deletes rows. @returns how many; a store without transactions need not report it, so its rows are counted */
  async #delete({ name }: TargetTable, conditions: readonly string[]): Promise<number> {
    let deleted = 0;
    for (const condition of conditions) {
      const there = this.#isStepwise ? await this.#count(name, ` WHERE ${condition}`) : undefined;
      const sql = `DELETE FROM ${this.dialect.table(name)} WHERE ${condition}`;
      const changed = there === 0 ? 0 : await this.session.run(sql);
      deleted += there ?? changed;
    }
    return deleted;
  }

  /** Deletes the rows of a load that was cut short. @returns how many */
  async #undo({ table, undo }: Load): Promise<number> {
    const { columns = [] } = this.#found.get(table.name) ?? {};
    if (undo === undefined || !columns.some(({ name }) => name === loadColumn)) return 0;
    return this.#delete(table, [`${this.dialect.identifier(loadColumn)} = ${this.dialect.literal(undo)}`]);
  }

  async #append(load: Load, stage: string, rows: number): Promise<number> {
    const { table, data, readBack, write } = load;
    const { dialect } = this;
    const target = dialect.table(table.name);
    const runs = write.type === 'append' ? write.runs : [];
    // Rows of these runs may be there already, if everything is appended once more.
    const where = `${dialect.identifier('_run_id')} IN (${['', ...runs].map((run) => dialect.literal(run)).join(', ')})`;
    const summed: Summed = { from: target, alias: '', where };
    const before = readBack && (await sumRows(this.#store, summed, readBack.columns));
    await this.#insert(load, stage);
    if (readBack !== undefined && before !== undefined) {
      await readBack.check(before.hashed, async () => {
        const after = await sumRows(this.#store, summed, readBack.columns);
        const sum = String(BigInt(after.sum) - BigInt(before.sum));
        return { rows: after.rows - before.rows, sum, sums: async () => new Map(), ...unmerged };
      });
    }
    return rows + data.handedOver;
  }

  /** Inserts all staged rows. */
  async #insert({ table, id }: Load, stage: string): Promise<void> {
    const { dialect } = this;
    const names = table.columns.map(({ name }) => name);
    const values = names.map((name) => (name === loadColumn ? dialect.literal(id) : dialect.identifier(name)));
    await this.session.run(
      `INSERT INTO ${dialect.table(table.name)} (${nameList(dialect, names)}) SELECT ${values.join(', ')} FROM ${stage} AS cdsync_staged`,
    );
  }

  #mergeTask({ table, write, empty, clear, moment }: Load, stage: string, version: number): MergeTask {
    const { dialect } = this;
    const { columns = table.columns, comment } = this.#found.get(table.name) ?? {};
    const names = new Set([...columns, ...table.columns].map(({ name }) => name.toLowerCase()));
    const [t, s] = [freeAlias('t', names), freeAlias('s', names)];
    const task = { table, version, target: dialect.table(table.name), stage, t, s, empty, clear };
    const found = { columns, comment };
    return { ...task, found, write: write as MergeTask['write'], moment: dialect.moment(moment) };
  }

  /** @param staged if the table may have other rows than the staged ones, or if these can be compared by their key */
  async #readBack(load: Load, staged?: MergeTask): Promise<void> {
    const { readBack } = load;
    if (readBack === undefined) return;
    const { columns } = readBack;
    await readBack.check(hashedColumns(this.dialect, columns), async () => {
      if (staged !== undefined) return foundRows(this.#store, load, staged, columns);
      const target = this.dialect.table(load.table.name);
      return { ...(await sumRows(this.#store, { from: target, alias: '' }, columns)), ...unmerged };
    });
  }

  sums(table: string, columns: readonly TargetColumn[], live: boolean): Promise<TableSums> {
    const where = live ? isLive(this.dialect) : undefined;
    return sumRows(this.#store, { from: this.dialect.table(table), alias: '', where }, columns);
  }

  /** Says on the table itself which load it is of, if that can be said. */
  async #stamp({ table, id, isReload, change }: Load): Promise<Shape> {
    const { columns = [], comment } = (await this.#find(table.name)) ?? {};
    if (comment === undefined) return { columns, stamp: null };
    if (this.dialect.stamps === 'reload' && !isReload && !change.create)
      return { columns, stamp: stamped.exec(comment ?? '')?.[1] ?? null };
    const own = (comment ?? '').replace(stamped, '');
    await this.#runAll(this.dialect.comment(table.name, `${own}${own === '' ? '' : ' '}[cdsync ${id}]`));
    return { columns, stamp: id };
  }

  async keep(before: StateRow, record: string): Promise<void> {
    await writeRecord(this.#store, before, before, record);
  }

  close(): Promise<void> {
    return this.session.close();
  }
}

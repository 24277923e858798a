import { countDiffers, tableMoved } from '../errors.js';
import type { Load } from '../load.js';
import type { FoundColumns, MergeTask, SqlSession } from './dialect.js';
import type { SqlStore } from './state-rows.js';
import { erasedSql, freeAlias, nameList } from './statements.js';
import { foundRows, hashedColumns, type Summed, sumRows, unmerged } from './sum-rows.js';

/** The column of mode `append` that names the load of a row, where loads cannot be rolled back. */
export const loadColumn = '_cdsync_load';

/** The number of rows of a table. @param where with the word WHERE */
export async function countRows({ dialect, session }: SqlStore, table: string, where = ''): Promise<number> {
  const [row] = await session.rows(`SELECT count(*) AS n FROM ${dialect.table(table)}${where}`);
  return Number(Object.values(row ?? {})[0] ?? 0);
}

/** Deletes rows. @returns how many; a store without transactions need not report it, so its rows are counted */
export async function deleteRows(store: SqlStore, table: string, conditions: readonly string[]): Promise<number> {
  const { dialect, session } = store;
  let deleted = 0;
  for (const condition of conditions) {
    const counted = dialect.commit === 'steps' ? await countRows(store, table, ` WHERE ${condition}`) : undefined;
    if (counted === 0) continue;
    const changed = await session.run(`DELETE FROM ${dialect.table(table)} WHERE ${condition}`);
    deleted += counted ?? changed;
  }
  return deleted;
}

/** Loads all rows into a table. @param target SQL of its name */
export async function fillTable(session: SqlSession, target: string, { data, signal }: Load): Promise<void> {
  const arrived = await session.fill(target, data, signal);
  if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
}

interface WriterContext {
  /** The table as it was found. */
  readonly found: FoundColumns | undefined;
  /** SQL of the staged rows; undefined if they are loaded into the table itself. */
  readonly stage: string | undefined;
  /** The version of the record's row. */
  readonly version: number;
  /** Sets columns to NULL in every row. */
  clear(target: string, columns: readonly string[]): Promise<void>;
  /** @returns the rows that the table must have after a merge; undefined if that is not known. @param rows of the table before */
  merge(task: MergeTask, rows: number): Promise<number | undefined>;
}

/** Writes the rows of one load into its table, and has them compared with those that were handed over. */
export class RowWriter {
  readonly #store: SqlStore;
  readonly #load: Load;
  readonly #context: WriterContext;
  /** SQL of the table's name. */
  readonly #target: string;

  /** @param load its `rows` are those of the table before */
  constructor(store: SqlStore, load: Load, context: WriterContext) {
    this.#store = store;
    this.#load = load;
    this.#context = context;
    this.#target = store.dialect.table(load.table.name);
  }

  /** @returns the number of rows that the table must have now; undefined if that is not known */
  async write(): Promise<number | undefined> {
    const { table, erase, write, rows } = this.#load;
    const left = rows - (await deleteRows(this.#store, table.name, erasedSql(this.#store.dialect, table, erase)));
    switch (write.type) {
      case 'append':
        return this.#append(left, write.runs);
      case 'fill':
        return this.#fill(left);
      case 'merge':
        return this.#merge(left);
    }
  }

  async #append(rows: number, runs: readonly string[]): Promise<number> {
    const { clear, readBack, data } = this.#load;
    const { dialect } = this.#store;
    if (clear.length > 0) await this.#context.clear(this.#target, clear);
    // Rows of these runs may be there already, if everything is appended once more.
    const where = `${dialect.identifier('_run_id')} IN (${['', ...runs].map((run) => dialect.literal(run)).join(', ')})`;
    const summed: Summed = { table: this.#target, alias: '', where };
    const before = readBack && (await sumRows(this.#store, summed, readBack.columns));
    await this.#insertStaged();
    if (readBack !== undefined && before !== undefined) {
      await readBack.check(
        before.hashed,
        async () => {
          const after = await sumRows(this.#store, summed, readBack.columns);
          const sum = String(BigInt(after.sum) - BigInt(before.sum));
          return { rows: after.rows - before.rows, sum, sums: async () => new Map(), ...unmerged };
        },
        before.digest,
      );
    }
    return rows + data.handedOver;
  }

  async #fill(rows: number): Promise<number> {
    const { dialect, session } = this.#store;
    const { table, data } = this.#load;
    const isStaged = this.#context.stage !== undefined;
    if (isStaged) await this.#insertStaged();
    else await fillTable(session, this.#target, this.#load);
    for (const sql of dialect.afterFill?.(table) ?? []) await session.run(sql);
    await this.#readBack(isStaged && table.isKeyed ? this.#mergeTask() : undefined);
    return rows + data.handedOver;
  }

  async #merge(rows: number): Promise<number | undefined> {
    const { dialect } = this.#store;
    const { table, state } = this.#load;
    // Without a transaction, others may have changed rows since the table was described.
    const present = dialect.commit === 'steps' ? await countRows(this.#store, table.name) : rows;
    if (present !== rows) throw tableMoved(state, rows, present);
    const task = this.#mergeTask();
    const expected = await this.#context.merge(task, rows);
    await this.#readBack(task);
    return expected;
  }

  /** Inserts all staged rows. */
  async #insertStaged(): Promise<void> {
    const { dialect, session } = this.#store;
    const { table, id } = this.#load;
    const names = table.columns.map(({ name }) => name);
    const values = names.map((name) => (name === loadColumn ? dialect.literal(id) : dialect.identifier(name)));
    await session.run(
      `INSERT INTO ${this.#target} (${nameList(dialect, names)}) SELECT ${values.join(', ')} FROM ${this.#context.stage} AS cdsync_staged`,
    );
  }

  #mergeTask(): MergeTask {
    const { table, write, empty, clear, moment } = this.#load;
    const { dialect } = this.#store;
    const { stage, version, found = { columns: table.columns, comment: undefined } } = this.#context;
    const names = new Set([...found.columns, ...table.columns].map(({ name }) => name.toLowerCase()));
    const [t, s] = [freeAlias('t', names), freeAlias('s', names)];
    const task = { table, version, target: this.#target, stage: stage as string, t, s, empty, clear };
    return { ...task, found, write: write as MergeTask['write'], moment: dialect.moment(moment) };
  }

  /** @param staged if the table may have other rows than the staged ones, or if these can be compared by their key */
  async #readBack(staged?: MergeTask): Promise<void> {
    const { readBack } = this.#load;
    if (readBack === undefined) return;
    const { columns } = readBack;
    await readBack.check(
      hashedColumns(this.#store.dialect, columns),
      async () => {
        if (staged !== undefined) return foundRows(this.#store, this.#load, staged, columns);
        return { ...(await sumRows(this.#store, { table: this.#target, alias: '' }, columns)), ...unmerged };
      },
      this.#store.dialect.hashing.digest,
    );
  }
}

import { createHash, randomUUID } from 'node:crypto';
import { countDiffers, type Load, type TargetTable } from '../../src/sdk/index.js';
import type { Session } from './session.js';
import { columnDefinition, deletedColumn, identifier, names, versionColumn } from './types.js';

/** How many insert tokens a table remembers, so that a repeated insert counts once. */
const deduplication = 'SETTINGS non_replicated_deduplication_window = 1000';
const own = `${versionColumn} UInt64 DEFAULT 0, ${deletedColumn} UInt8 DEFAULT 0`;
const never = new AbortController().signal;

/** Columns and engine of a table. With a key, the engine keeps the last row of each key. */
export function definition({ columns, key }: TargetTable): string {
  const parts = columns.map((column) => columnDefinition(column, key.includes(column.name)));
  const engine =
    key.length > 0
      ? `ReplacingMergeTree(${versionColumn}, ${deletedColumn}) ORDER BY (${key.map(identifier).join(', ')})`
      : 'MergeTree ORDER BY tuple()';
  return `(${parts.join(', ')}, ${own}) ENGINE = ${engine} ${deduplication}`;
}

/** One attempt at a load. Its rows get a number that no earlier attempt has used. */
export class Attempt {
  readonly #session: Session;
  readonly #load: Load;
  readonly #reached: number;
  readonly #target: string;
  readonly #beside: string;
  readonly #id = randomUUID();
  /** The highest number that it has given to rows. */
  version: number;

  /** @param reached the number of the last load that was finished */
  constructor(session: Session, load: Load, reached: number) {
    this.#session = session;
    this.#load = load;
    this.#reached = reached;
    this.version = reached;
    const { name } = load.table;
    this.#target = identifier(name);
    this.#beside = `_cdsync_new_${createHash('sha256').update(name).digest('hex').slice(0, 16)}`;
  }

  /** Each attempt has its own tokens: rows of an earlier attempt may have been removed since, and must be inserted again. */
  #token(part: string | number): string {
    return `${this.#load.id}-${this.#id}-${part}`;
  }

  async #withTable(made: string, work: () => Promise<void>): Promise<void> {
    const table = identifier(this.#beside);
    await this.#session.run(`DROP TABLE IF EXISTS ${table} SYNC`);
    try {
      await this.#session.run(`CREATE TABLE ${table} ${made}`);
      await work();
    } finally {
      // Drop it even after a stop, so that no personal data stays behind.
      this.#session.use(never);
      await this.#session.run(`DROP TABLE IF EXISTS ${table} SYNC`).catch(() => undefined);
      this.#session.use(this.#load.signal);
    }
  }

  async #receive(data: Load['data']): Promise<void> {
    const columns = data.columns.map(({ name }) => name);
    let index = 0;
    for await (const { path } of data.files()) {
      await this.#session.insertFile(this.#beside, columns, path, this.#token(index));
      index += 1;
    }
    const arrived = await this.#session.number(`SELECT count() FROM ${identifier(this.#beside)}`);
    if (arrived !== data.handedOver) throw countDiffers('the table', data.handedOver, arrived);
  }

  /** Fills a new table and swaps it with the old one. @param made SQL after `CREATE TABLE <name>` for the new table */
  async exchange(data: Load['data'], made: string): Promise<void> {
    this.version += 1;
    await this.#withTable(made, async () => {
      await this.#receive(data);
      await this.#session.run(`EXCHANGE TABLES ${this.#target} AND ${identifier(this.#beside)}`);
    });
  }

  /** Loads the rows into a staging table first, and from there into the table by one statement. */
  async merge(data: Load['data'], absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const { key } = this.#load.table;
    const staged = data.columns.map(({ name, targetType: type }) =>
      columnDefinition({ name, type }, key.includes(name)),
    );
    await this.#withTable(`(${staged.join(', ')}) ENGINE = MergeTree ORDER BY tuple() ${deduplication}`, async () => {
      await this.#receive(data);
      const highest = await this.#session.number(`SELECT max(${versionColumn}) FROM ${this.#target}`);
      this.version = Math.max(this.#reached, highest) + 1;
      if (key.length > 0) await this.#upsert(absent);
      else await this.#append(highest);
    });
  }

  async #append(highest: number): Promise<void> {
    const { columns } = this.#load.table;
    // Remove the rows of a load that was cut short.
    if (highest > this.#reached)
      await this.#session.run(`DELETE FROM ${this.#target} WHERE ${versionColumn} > {reached:UInt64}`, {
        reached: this.#reached,
      });
    await this.#insert(names(columns), `${names(columns)}, {version:UInt64}, 0`, `FROM ${identifier(this.#beside)}`);
  }

  async #upsert(absent: 'keep' | 'delete' | 'mark'): Promise<void> {
    const { columns, key } = this.#load.table;
    // A deleted row keeps only its key.
    const values = columns.map(({ name }) => {
      const value = identifier(name);
      return key.includes(name) ? value : `if(_op = 'delete', NULL, ${value})`;
    });
    const selected = `${values.join(', ')}, {version:UInt64}, _op = 'delete'`;
    await this.#insert(names(columns), selected, `FROM ${identifier(this.#beside)}`);
    if (absent === 'keep') return;
    await this.#end(absent);
  }

  /** Deletes or marks the rows whose keys are not among the load's. */
  async #end(absent: 'delete' | 'mark'): Promise<void> {
    const older = `FROM ${this.#target} FINAL WHERE ${versionColumn} < {older:UInt64}`;
    const values = { older: this.version };
    this.version += 1;
    if (absent === 'mark') return this.#mark(older, values);
    const keys = this.#load.table.key.map(identifier).join(', ');
    await this.#insert(keys, `${keys}, {version:UInt64}, 1`, older, values);
  }

  async #mark(older: string, values: { readonly older: number }): Promise<void> {
    const moment = "parseDateTime64BestEffort({deliveredAt:String}, 6, 'UTC')";
    await this.#session.run(
      `INSERT INTO ${this.#target} SELECT * REPLACE (${moment} AS _deleted_at, {version:UInt64} AS ${versionColumn})
       FROM (SELECT * ${older} AND _deleted_at IS NULL)`,
      { ...values, version: this.version, deliveredAt: this.#load.deliveredAt },
      { insert_deduplication_token: this.#token('marked') },
    );
  }

  async #insert(into: string, selected: string, from: string, values = {}): Promise<void> {
    await this.#session.run(
      `INSERT INTO ${this.#target} (${into}, ${versionColumn}, ${deletedColumn}) SELECT ${selected} ${from}`,
      { ...values, version: this.version },
      { insert_deduplication_token: this.#token(this.version) },
    );
  }
}

import { randomUUID } from 'node:crypto';
import {
  type ChecksumColumn,
  type ColumnSum,
  columnSums,
  type DestinationContext,
  emptyTrinoMerge,
  type Load,
  loadRefused,
  type OptionValues,
  openTrino,
  type SchemaChange,
  sameWatermark,
  type TableColumn,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  type TrinoSession,
  trinoFailureName,
  trinoIdentifier,
  trinoMerge,
  trinoNames,
  trinoText,
  type Watermark,
  watermarkMoved,
  watermarkTable,
} from '../../src/sdk/former/index.js';
import { type Catalog, cannot, findCatalog } from './catalogs.js';
import { endOthers, sourceOf } from './fence.js';
import { type Mark, Marks } from './marks.js';
import type { trinoOptions } from './options.js';
import { Staging } from './staging.js';
import { definitions, keptProperties, replaceSql, tablePath } from './statements.js';
import { checkedText, mapColumn, momentSql, widens } from './types.js';

/** The load that brought a row, in tables whose rows have no key. */
const loadColumn = '_cdsync_load';
const deletedAt = trinoIdentifier('_deleted_at');

type Options = OptionValues<typeof trinoOptions>;
type Context = DestinationContext<typeof trinoOptions>;

/** Tables of one schema of one catalog. */
class TrinoDestination implements TableDestination {
  readonly types: NonNullable<TableDestination['types']>;
  readonly #session: TrinoSession;
  readonly #context: Context;
  readonly #catalog: Catalog;
  readonly #source: ReturnType<typeof sourceOf>;
  readonly #marks: Marks;

  constructor(session: TrinoSession, context: Context, catalog: Catalog, source: ReturnType<typeof sourceOf>) {
    this.#session = session;
    this.#context = context;
    this.#catalog = catalog;
    this.#source = source;
    this.types = { mapColumn: (type) => mapColumn(type, catalog.traits), widens };
    this.#marks = new Marks(session, this.#table(watermarkTable));
  }

  get #schema(): string {
    return this.#context.options.schema.toLowerCase();
  }

  #table(name: string): string {
    return tablePath({ catalog: this.#catalog.name, schema: this.#schema }, name);
  }

  #information(view: 'schemata' | 'tables' | 'columns'): string {
    return `${trinoIdentifier(this.#catalog.name)}.information_schema.${view}`;
  }

  #named(table: string): string {
    return `table_schema = ${trinoText(this.#schema)} AND table_name = ${trinoText(table.toLowerCase())}`;
  }

  async watermarks(): Promise<Watermark[]> {
    if ((await this.#kindOf(watermarkTable)) === undefined) await this.#createMarks();
    const marks: Mark[] = [];
    for (const mark of await this.#marks.all()) marks.push(await this.#settled(mark));
    return marks.flatMap(({ watermark }) => watermark ?? []);
  }

  async #createMarks(): Promise<void> {
    const [schema] = await this.#session.rows(
      `SELECT 1 AS found FROM ${this.#information('schemata')} WHERE schema_name = ${trinoText(this.#schema)}`,
    );
    if (schema === undefined)
      await this.#session.run(
        `CREATE SCHEMA IF NOT EXISTS ${trinoIdentifier(this.#catalog.name)}.${trinoIdentifier(this.#schema)}`,
      );
    await this.#marks.create();
  }

  /**
   * Completes or forgets the insert that an earlier delivery of this destination has begun: if its rows are there, the watermark
   * follows; if not, it was never committed.
   */
  async #settled(mark: Mark): Promise<Mark> {
    const { pending } = mark;
    if (pending === undefined || mark.destination !== this.#context.destination) return mark;
    await endOthers(this.#session, this.#source, this.#context.signal);
    const isThere = await this.#hasRowsOf(pending.after.table, pending.load);
    const watermark = isThere ? pending.after : mark.watermark;
    return this.#marks.move(mark, { ...mark, watermark, pending: undefined });
  }

  async #hasRowsOf(table: string, load: string): Promise<boolean> {
    const columns = await this.#columns(table);
    if (columns.length === 0) return false;
    // A table with a key was empty before the insert.
    const isMarked = columns.some(({ name }) => name === loadColumn);
    const where = isMarked ? ` WHERE ${trinoIdentifier(loadColumn)} = ${trinoText(load)}` : '';
    return (await this.#session.rows(`SELECT 1 AS found FROM ${this.#table(table)}${where} LIMIT 1`)).length > 0;
  }

  async #kindOf(table: string): Promise<string | undefined> {
    const [found] = await this.#session.rows(
      `SELECT table_type AS type FROM ${this.#information('tables')} WHERE ${this.#named(table)}`,
    );
    return found === undefined ? undefined : String(found.type);
  }

  async #columns(table: string): Promise<TableColumn[]> {
    const rows = await this.#session.rows(
      `SELECT column_name AS name, data_type AS type FROM ${this.#information('columns')}
       WHERE ${this.#named(table)} ORDER BY ordinal_position`,
    );
    return rows.map(({ name, type }) => ({ name: String(name), type: String(type) }));
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const kind = await this.#kindOf(table);
    if (kind === undefined) return undefined;
    if (kind !== 'BASE TABLE')
      throw loadRefused(`"${table}" is a ${kind.toLowerCase()}`, {
        hint: 'give the stream another table with `table:`',
      });
    const columns = (await this.#columns(table)).filter(({ name }) => name !== loadColumn);
    const some = await this.#session.rows(`SELECT 1 AS found FROM ${this.#table(table)} LIMIT 1`);
    return { columns, isEmpty: some.length === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const target = this.#table(table.name);
    if (change.type === 'create') return this.#create(table);
    if (change.type === 'change_type' && !change.isEmpty) {
      const { name, type } = change.column;
      await this.#session.run(`ALTER TABLE ${target} ALTER COLUMN ${trinoIdentifier(name)} SET DATA TYPE ${type}`);
      return;
    }
    // Few catalogs change a column to a type of another kind. The column has no values: drop it and add it again.
    if (change.type === 'change_type')
      await this.#session.run(`ALTER TABLE ${target} DROP COLUMN IF EXISTS ${trinoIdentifier(change.column.name)}`);
    for (const column of change.type === 'change_type' ? [change.column] : change.columns)
      await this.#session.run(`ALTER TABLE ${target} ADD COLUMN IF NOT EXISTS ${definitions([column])}`);
  }

  async #create({ name, columns, key }: TargetTable): Promise<void> {
    const own = key.length === 0 ? [{ name: loadColumn, type: 'varchar' }] : [];
    const all = [...columns, ...own];
    if (this.#catalog.traits.needsPrimaryKey && key.length > 0)
      return this.#createNatively({ name, columns: all, key });
    await this.#session.run(`CREATE TABLE IF NOT EXISTS ${this.#table(name)} (${definitions(all)})`);
  }

  /** By the database's own statement, with a primary key. Names in small letters: Trino finds no others. */
  async #createNatively({ name, columns, key }: TargetTable): Promise<void> {
    const lower = (text: string) => trinoIdentifier(text.toLowerCase());
    const defined = columns.map(
      (column) => `${lower(column.name)} ${column.type === 'double' ? 'double precision' : column.type}`,
    );
    const sql = `CREATE TABLE IF NOT EXISTS ${lower(this.#schema)}.${lower(name)}
      (${defined.join(', ')}, PRIMARY KEY (${key.map(lower).join(', ')}))`;
    await this.#session.run(`CALL ${trinoIdentifier(this.#catalog.name)}.system.execute(query => ${trinoText(sql)})`);
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const some = `SELECT 1 AS found FROM ${this.#table(table)} WHERE ${trinoIdentifier(column)} IS NOT NULL LIMIT 1`;
    return (await this.#session.rows(some)).length === 0;
  }

  async load(load: Load): Promise<void> {
    load.signal.throwIfAborted();
    const stop = () => this.#session.stop();
    load.signal.addEventListener('abort', stop);
    const { stagingCatalog, stagingSchema, statementChars } = this.#context.options;
    const staging = new Staging(this.#session, load, {
      catalog: stagingCatalog ?? this.#catalog.name,
      schema: stagingSchema ?? this.#schema,
      statementChars,
    });
    try {
      await endOthers(this.#session, this.#source, load.signal);
      const mark = await this.#reached(load);
      await this.#checkAble(load);
      const rows = await staging.receive();
      const reached = await this.#change(load, rows, mark);
      const { destination } = load.after;
      await this.#marks.move(reached, { destination, stream: load.stream, watermark: load.after, pending: undefined });
    } finally {
      await staging.remove();
      load.signal.removeEventListener('abort', stop);
    }
  }

  /** The stream's mark. @throws {CdsyncError} `watermark_moved` */
  async #reached({ before, after, stream }: Load): Promise<Mark | undefined> {
    const mark = (await this.#marks.all()).find(
      (each) => each.destination === after.destination && each.stream === stream,
    );
    if (!sameWatermark(mark?.watermark, before)) throw watermarkMoved(stream);
    return mark;
  }

  /** Looks whether the catalog can do what the load, and the ones after it, need: before any row is sent. */
  async #checkAble({ action, table }: Load): Promise<void> {
    const { merges, replaces } = this.#catalog.traits;
    if (action.type === 'replace' && replaces === false) throw this.#noReplace();
    if (action.type === 'replace' || table.key.length === 0 || merges === true) return;
    // Not a plan: for that, PostgreSQL's catalog makes a table and leaves it there.
    await this.#merging(table, `EXPLAIN (TYPE VALIDATE) ${emptyTrinoMerge(table, this.#table(table.name))}`);
  }

  /** Runs a MERGE, or looks at it. @throws {CdsyncError} what the catalog lacks */
  async #merging(table: TargetTable, sql: string): Promise<void> {
    try {
      await this.#session.run(sql);
    } catch (error) {
      if (trinoFailureName(error) !== 'NOT_SUPPORTED') throw error;
      throw cannot(
        this.#catalog,
        `MERGE into "${table.name}"`,
        this.#catalog.traits.needsPrimaryKey === true
          ? 'the table needs a primary key of exactly the key columns; cdsync makes one if it creates the table'
          : 'use mode append, or a catalog that can MERGE, such as iceberg, delta_lake or postgresql',
        error,
      );
    }
  }

  #noReplace(cause?: unknown) {
    return cannot(
      this.#catalog,
      'replace all rows of a table at once',
      'mode mirror leads to the same rows where there is MERGE; CREATE OR REPLACE TABLE is there in iceberg and delta_lake',
      cause,
    );
  }

  /** Changes the table by one statement. @returns the stream's mark as it then is */
  async #change(load: Load, rows: string, mark: Mark | undefined): Promise<Mark | undefined> {
    const { action, table, deliveredAt } = load;
    const target = this.#table(table.name);
    if (action.type === 'append') return this.#append(load, rows, mark);
    if (action.type === 'replace') {
      await this.#replace(load, rows);
      return mark;
    }
    const type = action.absent;
    const absent = type === 'mark' ? { type, moment: momentSql(deliveredAt, this.#catalog.traits.moment) } : { type };
    await this.#merging(table, trinoMerge(table, target, rows, absent));
    return mark;
  }

  /** An INSERT may not be repeated: what it will bring is written down first. */
  async #append({ stream, table, data, before, after }: Load, rows: string, mark: Mark | undefined) {
    if (data.handedOver === 0) return mark;
    const isMarked = table.key.length === 0;
    const target = this.#table(table.name);
    // A table that others have made lacks the column.
    if (isMarked && !(await this.#columns(table.name)).some(({ name }) => name === loadColumn))
      await this.#session.run(`ALTER TABLE ${target} ADD COLUMN IF NOT EXISTS ${trinoIdentifier(loadColumn)} varchar`);
    const pending = { load: randomUUID(), after };
    const { destination } = after;
    const noted = await this.#marks.move(mark, { destination, stream, watermark: before, pending });
    const own = isMarked
      ? { name: `, ${trinoIdentifier(loadColumn)}`, value: `, ${trinoText(pending.load)}` }
      : { name: '', value: '' };
    await this.#session.run(
      `INSERT INTO ${target} (${trinoNames(data.columns)}${own.name})
       SELECT ${trinoNames(data.columns)}${own.value} FROM (${rows})`,
    );
    return noted;
  }

  async #replace({ table, data }: Load, rows: string): Promise<void> {
    const target = this.#table(table.name);
    const [created] = await this.#session.rows(`SHOW CREATE TABLE ${target}`);
    const properties = keptProperties(String(Object.values(created ?? {})[0] ?? ''));
    const there = await this.#columns(table.name);
    try {
      await this.#session.run(replaceSql({ target, rows, there, brought: data.columns, properties }));
    } catch (error) {
      throw trinoFailureName(error) === 'NOT_SUPPORTED' ? this.#noReplace(error) : error;
    }
  }

  count(table: string, live: boolean): Promise<number> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    return this.#session.number(`SELECT count(*) AS found FROM ${this.#table(table)}${where}`);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    const where = live ? ` WHERE ${deletedAt} IS NULL` : '';
    const summed = columns.map(({ name, of }) => {
      const text = checkedText(name, of.kind);
      const number = `from_base(substr(to_hex(md5(to_utf8(${text}))), 1, 8), 16)`;
      return {
        name,
        value: trinoIdentifier(name),
        sum: text === undefined ? undefined : `CAST(sum(${number}) AS varchar)`,
      };
    });
    return columnSums(summed, trinoIdentifier, async (selected) => {
      const [row] = await this.#session.rows(`SELECT ${selected} FROM ${this.#table(table)}${where}`);
      return row;
    });
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

/** A session with what the options say, and the names of its statements. */
export async function trinoSession(
  { options, job, destination }: Context,
  more: Readonly<Record<string, string>> = {},
) {
  const { url, username, password, token, catalog, schema, session: properties, allowHttp } = options;
  const source = sourceOf([catalog, schema, job, destination]);
  const all = new Map([...Object.entries(more), ...Object.entries(properties as Options['session'])]);
  const login = { url, username, password, token, properties: all, source: source.own };
  return { session: await openTrino(login, allowHttp), source };
}

/** Finds out what kind of catalog it is, and opens it. */
export async function openTrinoTables(context: Context): Promise<TrinoDestination> {
  const { session, source } = await trinoSession(context);
  try {
    const catalog = await findCatalog(session, context.options.catalog);
    const needed = Object.entries(catalog.traits.session ?? {});
    if (needed.length === 0) return new TrinoDestination(session, context, catalog, source);
    const properties = Object.fromEntries(needed.map(([name, value]) => [`${catalog.name}.${name}`, value]));
    await session.close();
    const again = await trinoSession(context, properties);
    return new TrinoDestination(again.session, context, catalog, again.source);
  } catch (error) {
    await session.close();
    throw error;
  }
}

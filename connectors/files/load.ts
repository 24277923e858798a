import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import {
  type CdsyncError,
  columnsIn,
  type DestinationContext,
  definitions,
  duckdbDialect,
  type FoundColumns,
  type FoundTable,
  fenced,
  filePattern,
  isNested,
  isSameStream,
  type Load,
  type LoadData,
  largeRowsDialect,
  loadRefused,
  memorySettings,
  parseColumnType,
  removesValues,
  SqlDestination,
  type StateKey,
  type StateRow,
  sqlText,
  stagedColumns,
  stateColumns,
  stateTable,
  type TableColumn,
  type TableState,
  type TableSums,
  type TargetColumn,
  tableState,
} from '../../src/sdk/index.js';
import { unfoldableSql } from './folder-names.js';
import { canonicalIn, compared, readSql } from './formats.js';
import { folderOf, type Layout, type Manifest, setName, TableSets } from './manifest.js';
import type { FilesShape } from './options.js';
import { Workbench } from './session.js';
import { orderSql, SetWriter } from './set-writer.js';
import type { FileStore } from './store.js';
import { TableReader } from './table-reader.js';

/** The schema of the workbench in which the next set is made. */
const schema = 'next';

/** The files of a set, and what else a load determines of its manifest. */
type NextSet = Layout & Pick<Manifest, 'schema' | 'files' | 'rows' | 'live_rows'>;

/**
 * Tables made of files, in a folder or an object store. A load is carried out on a table of a private DuckDB, as at any SQL
 * destination; then the rows are written as a new set of files, and the set's manifest, which has the record too, commits both.
 */
export class FilesDestination extends SqlDestination<Workbench> {
  readonly #store: FileStore;
  readonly #context: DestinationContext<FilesShape>;
  readonly #reader: TableReader;
  /** The columns of `partition_by` that the present load can have. */
  #partitionBy: readonly string[];

  private constructor(store: FileStore, context: DestinationContext<FilesShape>, bench: Workbench) {
    const { rowsTogether, options } = context;
    const dialect = rowsTogether === undefined ? duckdbDialect(schema) : largeRowsDialect(schema, rowsTogether);
    const ofFiles = {
      ...dialect,
      canonical: canonicalIn(options.format, bench),
      // The stamp is in the manifest.
      comment: () => [],
      // A view has no numbers of rows.
      get rowsTogether() {
        return bench.viewed === undefined ? rowsTogether : undefined;
      },
    };
    super(ofFiles, bench);
    this.#store = store;
    this.#context = context;
    this.#partitionBy = context.options.partitionBy;
    this.#reader = new TableReader(store, context.folder);
  }

  static async open(store: FileStore, context: DestinationContext<FilesShape>): Promise<FilesDestination> {
    const { folder, rowsTogether } = context;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const bench = await Workbench.open(folder, memorySettings(context), rowsTogether !== undefined);
    await bench.run(`CREATE SCHEMA ${schema}`);
    return new FilesDestination(store, context, bench);
  }

  override async state(key: StateKey): Promise<TableState> {
    const folder = folderOf(key.table);
    const manifests = await Promise.all(
      (await this.#store.folders()).map((each) =>
        each === folder ? this.#published(each) : new TableSets(this.#store, each).newest().catch(foreign),
      ),
    );
    const rows = manifests.filter((manifest) => manifest !== undefined).map(rowOf);
    return tableState(key, rows, folderOf);
  }

  /** The newest set of a folder, after the step that a load may have been cut short before: `manifest.json`, and the line about it. */
  async #published(folder: string): Promise<Manifest | undefined> {
    const sets = new TableSets(this.#store, folder);
    const manifest = await sets.newest();
    if (manifest === undefined || this.#context.isReadOnly === true) return manifest;
    await sets.publish(manifest);
    await this.#note(sets, [manifest]);
    return manifest;
  }

  #note(sets: TableSets, of: readonly (Manifest | undefined)[]): Promise<void> {
    return this.#besides('the line about the load was not written', () => sets.note(of));
  }

  #newest(table: string): Promise<Manifest | undefined> {
    return new TableSets(this.#store, folderOf(table)).newest();
  }

  override async describe(table: string): Promise<FoundTable | undefined> {
    const manifest = await this.#newest(table);
    if (manifest === undefined) return undefined;
    const { stamp } = manifest;
    const isAsWritten = stamp === null || (await this.#reader.isAsWritten(manifest));
    // A set of the same generation, but not the one that the load has written.
    return {
      columns: manifest.schema,
      rows: manifest.rows,
      stamp: isAsWritten ? stamp : `${Number.parseInt(stamp, 10)}:changed`,
    };
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const { viewed } = this.session;
    if (viewed?.table === table) return { columns: viewed.columns, comment: null };
    const columns = await this.session.columns(`schema_name = '${schema}'`, table);
    return columns.length === 0 ? undefined : { columns, comment: null };
  }

  override async load(load: Load): Promise<void> {
    load.signal.throwIfAborted();
    const { table, state } = load;
    const manifest = await this.#newest(table.name);
    const isOurs = manifest !== undefined && isSameStream(manifest, state);
    if (load.before !== undefined ? manifest?.set !== load.before.version : isOurs) throw fenced(state);
    try {
      await this.#loadAfter(manifest, load);
    } catch (error) {
      // Another delivery that has committed a set removes the files of this one.
      const newest = load.signal.aborted ? manifest : await this.#newest(table.name).catch(() => manifest);
      const isOvertaken = newest?.set !== manifest?.set && newest?.stamp !== load.id;
      throw isOvertaken ? fenced(state) : error;
    }
  }

  async #loadAfter(manifest: Manifest | undefined, load: Load): Promise<void> {
    const { table, write, state } = load;
    const retired = load.change.create ? [] : (manifest?.schema ?? []);
    this.#partitionBy = this.#partitionsOf([...table.columns, ...retired], load);
    this.session.partitionBy = this.#partitionBy.filter((name) => table.columns.some((column) => column.name === name));
    this.session.isMerged = write.type === 'merge';
    const added = manifest !== undefined && this.#addsFiles(load, manifest) ? manifest : undefined;
    const isMerged = write.type === 'append' || (write.type === 'merge' && write.absent !== 'delete');
    const kept = isMerged && added === undefined ? manifest : undefined;
    await this.#begin(load, manifest, kept);
    const writer = this.#writer(load, manifest);
    const isDirect = write.type === 'fill' && this.#layout.partition_by.length === 0 && this.#store.isLocal;
    const fill = (target: string, data: LoadData) => this.#fillFiles(writer, { table: table.name, target }, data);
    this.session.direct = isDirect ? fill : undefined;
    // Older sets still have the values that this one lacks.
    const owes = manifest !== undefined && (removesValues(load) || write.type === 'fill');
    const { record, line } = await this.carryOut({
      ...load,
      rows: kept === undefined ? 0 : load.rows,
      finish: (outcome) => load.finish({ ...outcome, rows: outcome.rows + (added?.rows ?? 0), owes }),
    });
    const next = await this.#write(table.name, writer, added);
    load.signal.throwIfAborted();
    await this.#moveOn(manifest, { ...next, stamp: load.id, line, record: JSON.parse(record) }, state);
    // The load is committed: a failure from here on must not fail it.
    const sets = new TableSets(this.#store, folderOf(table.name));
    await this.#note(sets, [manifest, await sets.newest().catch(() => undefined)]);
    if (!owes) await this.#prune(table.name, this.#context.options.keep);
  }

  override async removeLeft({ table }: StateKey): Promise<void> {
    const newest = await this.#newest(table);
    if (newest !== undefined) await new TableSets(this.#store, folderOf(table)).prune(newest, 0);
  }

  /** Whether rows are appended as new files, beside those that are there. */
  #addsFiles({ write, erase, clear, change, undo }: Load, manifest: Manifest): boolean {
    const same = ({ format, partition_by, csv_formulas = 'keep' }: Layout) =>
      JSON.stringify([format, partition_by, format === 'csv' ? csv_formulas : '']);
    const isTouched = erase.length > 0 || clear.length > 0 || change.widen.length > 0 || undo !== undefined;
    return write.type === 'append' && !isTouched && same(manifest) === same(this.#layout);
  }

  /** Puts record and table into the workbench, as a database would have them. @param kept the set whose rows stay */
  async #begin(
    { before, change, table }: Load,
    manifest: Manifest | undefined,
    kept: Manifest | undefined,
  ): Promise<void> {
    const { session, dialect } = this;
    const state = dialect.table(stateTable);
    const columns = stateColumns.map((name) => ({ name, type: name === 'version' ? 'BIGINT' : 'VARCHAR' }));
    await session.run(`CREATE OR REPLACE TABLE ${state} (${definitions(dialect, columns)})`);
    if (before !== undefined) {
      const { destination, stream, table, version, record } = before;
      const texts = [destination, stream, table, String(version), record].map(sqlText);
      await session.run(`INSERT INTO ${state} VALUES (${texts.join(', ')})`);
    }
    await this.#drop(table.name);
    if (manifest === undefined || change.create || change.drop) return;
    const rows = kept === undefined ? undefined : await this.#reader.query(kept, kept.schema);
    await session.run(`CREATE TABLE ${dialect.table(table.name)} (${definitions(dialect, manifest.schema)})`);
    if (rows !== undefined) await session.run(`INSERT INTO ${dialect.table(table.name)} ${rows}`);
  }

  async #drop(table: string): Promise<void> {
    this.session.viewed = undefined;
    const views = await this.session.rows(
      `SELECT view_name FROM duckdb_views() WHERE schema_name = '${schema}' AND lower(view_name) = lower(${sqlText(table)})`,
    );
    await this.session.run(`DROP ${views.length > 0 ? 'VIEW' : 'TABLE'} IF EXISTS ${this.dialect.table(table)}`);
  }

  /** Turns each file that is handed over into a file of the set. A view over these takes the place of the new table. */
  async #fillFiles(
    writer: SetWriter,
    { table, target }: { table: string; target: string },
    data: LoadData,
  ): Promise<number> {
    const { session } = this;
    const columns = stagedColumns(data.columns);
    for await (const { path } of data.files()) {
      const pattern = sqlText(filePattern(path));
      if (this.#layout.format === 'parquet')
        await writer.take(path, await session.run(`SELECT num_rows FROM parquet_file_metadata(${pattern})`));
      else await writer.write(`read_parquet(${pattern})`, columns);
    }
    const storedColumns = columnsIn(
      await session.rows(`SELECT column_name AS name, column_type AS type FROM (DESCRIBE ${target})`),
    );
    // A table without rows gets a file too, so that readers find its columns.
    if (writer.files.length === 0) await writer.write(`(SELECT * FROM ${target})`, storedColumns);
    const files = await Promise.all(
      writer.files.map(async ({ path }) => ({ path: await this.#store.fetch(`${writer.table}/${path}`, '') })),
    );
    await session.run(`DROP TABLE ${target}`);
    const read = readSql({ files, layout: this.#layout, columns: compared(storedColumns, this.#layout) });
    await session.run(`CREATE VIEW ${target} AS ${read}`);
    session.viewed = { table, columns: storedColumns, format: this.#layout.format };
    return writer.rows;
  }

  /** Writes the table of the workbench as files. @param added the set whose files stay beside these */
  async #write(table: string, writer: SetWriter, added: Manifest | undefined): Promise<NextSet> {
    const { session, dialect } = this;
    const { columns = [] } = (await this.find(table)) ?? {};
    const target = dialect.table(table);
    const rows = await session.run(`SELECT count(*) FROM ${target}`);
    const hasMark = columns.some(({ name }) => name === '_deleted_at');
    const live = hasMark ? await session.run(`SELECT count(*) FROM ${target} WHERE _deleted_at IS NULL`) : rows;
    if (writer.files.length === 0 && (rows > 0 || added === undefined)) {
      await this.#checkFolders(table, target);
      const order = orderSql(this.#layout.partition_by);
      if (order !== '') await session.run(`CREATE OR REPLACE TABLE _sorted AS SELECT * FROM ${target} ${order}`);
      await writer.writeTable(order === '' ? target : '_sorted', columns);
      if (order !== '') await session.run('DROP TABLE _sorted');
    }
    return {
      ...this.#layout,
      schema: columns.map(({ name, type }) => ({ name, type })),
      files: [...(added?.files ?? []), ...writer.files],
      rows: rows + (added?.rows ?? 0),
      live_rows: live + (added?.live_rows ?? 0),
    };
  }

  /** Rows of the set before have other folders if `partition_by` is new. */
  async #checkFolders(table: string, target: string): Promise<void> {
    const unfoldable = unfoldableSql(this.#layout.partition_by);
    const count = unfoldable && (await this.session.run(`SELECT count(*) FROM ${target} WHERE ${unfoldable}`));
    if (!count) return;
    throw loadRefused(`table "${table}" has rows whose values cannot be names of folders`, {
      hint: 'give `partition_by` other columns; or cdsync push --recreate makes the table again from the snapshot, without these values: rows and changes that only the files have are lost',
    });
  }

  override async sums(table: string, columns: readonly TargetColumn[], live: boolean): Promise<TableSums> {
    const manifest = await this.#newest(table);
    if (manifest === undefined) throw loadRefused(`table "${table}" is gone from ${this.#store.place}`);
    const rows = await this.#reader.query(manifest, compared(manifest.schema, manifest));
    await this.#drop(table);
    await this.session.run(`CREATE VIEW ${this.dialect.table(table)} AS ${rows}`);
    this.session.viewed = { table, columns: manifest.schema, format: manifest.format };
    return super.sums(table, columns, live);
  }

  override async replaceRecord(before: StateRow, record: string): Promise<void> {
    const manifest = await this.#newest(before.table);
    if (manifest?.set !== before.version) throw fenced(before);
    await this.#moveOn(manifest, { ...manifest, record: JSON.parse(record) }, before);
    await this.#prune(before.table, this.#context.options.keep);
  }

  override async close(): Promise<void> {
    await super.close();
    this.#store.close();
  }

  /** How this destination writes files. */
  get #layout(): Layout {
    const { format, csvFormulas } = this.#context.options;
    const formulas = format === 'csv' && csvFormulas === 'escape' ? { csv_formulas: csvFormulas } : {};
    return { format, partition_by: [...this.#partitionBy], csv_formulas: undefined, ...formulas };
  }

  /**
   * The columns whose values become folders. One that the stream no longer has, by a rule, is NULL in every row; a stream that never had
   * rows may lack all of them.
   * @throws {CdsyncError} if a column is missing, or has values with parts
   */
  #partitionsOf(columns: readonly TableColumn[], { table: { name: table }, data, rows }: Load): readonly string[] {
    const isEmpty = data.rows === 0 && rows === 0;
    const partitionBy = this.#context.options.partitionBy.filter(
      (name) => !isEmpty || columns.some((column) => column.name === name),
    );
    const all = columns.map(({ name }) => name);
    const hint = `its columns are ${all.join(', ')}`;
    for (const name of partitionBy) {
      const existingColumn = columns.find((column) => column.name === name);
      const type = existingColumn && parseColumnType(existingColumn.type);
      if (type !== undefined && !isNested(type) && type.kind !== 'json') continue;
      const what = type === undefined ? 'is not a column' : 'has nested values';
      throw loadRefused(`\`partition_by\`: "${name}" ${what} of table "${table}"`, { hint });
    }
    if (all.every((name) => partitionBy.includes(name)))
      throw loadRefused('`partition_by` leaves no column for the files', { hint });
    return partitionBy;
  }

  /** Commits and publishes the next set. @throws {CdsyncError} `fenced` */
  async #moveOn(
    found: Manifest | undefined,
    next: NextSet & Pick<Manifest, 'stamp' | 'record' | 'line'>,
    { destination, stream, table }: StateKey,
  ): Promise<void> {
    const sets = new TableSets(this.#store, folderOf(table));
    const { format, partition_by, csv_formulas, schema: columns, rows, live_rows, files, stamp, line, record } = next;
    const set = (found?.set ?? 0) + 1;
    const formulas = csv_formulas === undefined ? {} : { csv_formulas };
    const how = { format, partition_by, ...formulas, schema: columns, rows, live_rows, files };
    const about = { destination, stream, stamp, ...(line === undefined ? {} : { line }), record };
    const manifest = { version: 2, table, set, ...how, ...about } as const;
    if (!(await sets.commit(manifest))) throw fenced({ destination, stream, table });
    await sets.publish(manifest);
  }

  async #prune(table: string, keep: number): Promise<void> {
    const newest = await this.#newest(table);
    if (newest === undefined) return;
    const sets = new TableSets(this.#store, folderOf(table));
    await this.#besides(`old files of table "${table}" were not removed`, () => sets.prune(newest, keep));
  }

  async #besides(failed: string, work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#context.notice(`${failed}: ${(error as Error).message}`));
  }

  #writer({ id, table }: Load, manifest: Manifest | undefined): SetWriter {
    const suffix = createHash('sha256').update(id).digest('hex').slice(0, 8);
    return new SetWriter({
      store: this.#store,
      bench: this.session,
      folder: this.#context.folder,
      table: folderOf(table.name),
      data: `data/${setName((manifest?.set ?? 0) + 1)}-${suffix}`,
      layout: this.#layout,
    });
  }
}

/** A folder beside the tables that is not of cdsync may have a `manifest.json` too, or may not be read. */
function foreign(error: unknown): undefined {
  const { kind } = error as Partial<CdsyncError>;
  if (kind !== 'fatal' && kind !== 'auth') throw error;
}

function rowOf({ destination, stream, table, set, record }: Manifest): StateRow {
  return { destination, stream, table, version: set, record: JSON.stringify(record) };
}

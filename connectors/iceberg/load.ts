import { mkdir } from 'node:fs/promises';
import {
  canonicalText,
  type DestinationContext,
  deleteUpdateInsert,
  duckdbDialect,
  type FoundColumns,
  type FoundTable,
  fenced,
  isNested,
  isSameStream,
  type Load,
  loadsTable,
  type MergeTask,
  orClose,
  quoteIdentifier,
  removesValues,
  SqlDestination,
  type SqlDialect,
  type StateKey,
  type StateRow,
  sameKey,
  stateTable,
  type TableDestination,
  type TableState,
  type TableTypes,
  tableState,
  unavailable,
} from '../../src/sdk/index.js';
import { CommitConflict, namespaceMissing, RestCatalog } from './catalog.js';
import type { IcebergShape } from './options.js';
import { parsePartition } from './partition.js';
import { recordProperties, recordsOf, recordUpdates, stampOf, summaryOf } from './record-property.js';
import { createRequest } from './schema-update.js';
import { IcebergSession, next, stage, tableOf, vendsCredentials } from './session.js';
import { TableDraft } from './table-draft.js';
import { currentSchema, currentSnapshotId, type LoadedTable, type TableMetadata } from './table-metadata.js';
import { holdsJson, inDuckdb, mapColumn, mapPartitioned, typeText, widens } from './types.js';

type Context = DestinationContext<IcebergShape>;

/** The catalog of a destination, connected. */
export function openCatalog({ options, signal }: Context): Promise<RestCatalog> {
  return RestCatalog.open({ ...options, vendsCredentials: vendsCredentials(options), signal });
}

/** DuckDB's SQL for tables of an Iceberg catalog. cdsync's own tables are local, and die with the delivery. */
const dialect: SqlDialect = {
  ...duckdbDialect('main'),
  foldsTables: false,
  table: (name) => (name === stateTable || name === loadsTable ? `main.${quoteIdentifier(name)}` : tableOf(name)),
  // JSON in lists and structs is text there.
  canonical: (column, kind) => (isNested(kind) && holdsJson(kind) ? undefined : canonicalText(column, kind)),
  stage: (_, columns) => ({
    name: stage,
    create: [
      `CREATE VIEW ${stage} AS SELECT ${columns.map(({ name, handedOverAs }) => `NULL::${inDuckdb(handedOverAs)} AS ${quoteIdentifier(name)}`).join(', ')} WHERE false`,
    ],
    drop: [`DROP VIEW IF EXISTS ${stage}`],
  }),
  // The stamp is in the summary of the load's snapshot.
  comment: () => [],
};

/**
 * Tables of one namespace of an Iceberg catalog. DuckDB carries out a load on a draft of the table, as at any SQL destination; then
 * one commit to the catalog takes schema, rows and record over from the draft.
 */
class IcebergDestination extends SqlDestination<IcebergSession> {
  override readonly types: TableTypes;
  readonly #context: Context;
  readonly #catalog: RestCatalog;
  /** The table as {@link state} has found it; then as a load makes it. */
  #draft: TableDraft | undefined;

  constructor(context: Context, catalog: RestCatalog, session: IcebergSession) {
    super(dialect, session);
    this.#context = context;
    this.#catalog = catalog;
    const parts = context.options.partitionBy.map(parsePartition);
    const named = parts.flatMap((part) => (part?.transform === 'identity' ? [part.column] : []));
    this.types = { mapColumn: named.length === 0 ? mapColumn : mapPartitioned(named), widens };
  }

  override async state(key: StateKey): Promise<TableState> {
    const draft = await this.#open(key.table);
    const { namespace, createNamespace } = this.#context.options;
    if (draft === undefined && !createNamespace && !(await this.#catalog.hasNamespace()))
      throw namespaceMissing(namespace);
    const rows = draft === undefined ? [] : recordsOf(draft.metadata, key.table);
    // A namespace may have thousands of tables: all of them are read only before a table begins.
    const former = rows.some((row) => isSameStream(row, key)) ? [] : await this.#former(key);
    return tableState(key, [...rows, ...former], (name) => name);
  }

  /** Reads a table. Until it is read again, DuckDB sees it so. */
  async #open(table: string): Promise<TableDraft | undefined> {
    const loaded = await this.#catalog.load(table);
    this.#draft = loaded && new TableDraft(loaded);
    await this.session.show(table, this.#draft);
    return this.#draft;
  }

  async #former(key: StateKey): Promise<StateRow[]> {
    const names = (await this.#catalog.tables()).filter((name) => name !== key.table);
    const tables = await this.#catalog.loadAll(names);
    return tables.flatMap(({ name, loaded }) =>
      recordsOf(loaded.metadata, name).filter((row) => isSameStream(row, key)),
    );
  }

  override async describe(table: string): Promise<FoundTable | undefined> {
    const draft = this.#draft;
    if (draft === undefined) return undefined;
    const { metadata } = draft;
    const hasRows = currentSnapshotId(metadata) !== null;
    const rows = hasRows ? await this.number(`SELECT count(*) FROM ${tableOf(table)}`) : 0;
    return { columns: columnsOf(metadata), rows, stamp: stampOf(metadata) };
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    if (table === loadsTable || this.#draft === undefined) return undefined;
    return { columns: columnsOf(this.#draft.metadata), comment: null };
  }

  override async load(load: Load): Promise<void> {
    load.signal.throwIfAborted();
    const draft = await this.#begin(load);
    const change = { drop: false, create: false, add: [], widen: [] };
    await this.session.run(`DROP TABLE IF EXISTS ${this.dialect.table(stateTable)}`);
    const { record, line } = await this.carryOut({
      ...load,
      before: undefined,
      change,
      finish: (outcome) => {
        const stamp = draft.hasSnapshot ? load.id : (stampOf(draft.base.metadata) ?? null);
        return load.finish({ ...outcome, stamp });
      },
    });
    load.signal.throwIfAborted();
    await this.#commit(load.state, record, summaryOf(line), load.supersedes);
    if (removesValues(load))
      this.#context.notice(
        `older snapshots and files of the Iceberg table "${load.table.name}" still have the values that are gone from it; compaction, expire_snapshots and remove_orphan_files remove them`,
      );
  }

  /** The draft on which a load is carried out: of a new table, or of the present one with its next schema. */
  async #begin({ change, table, state, before, intent, write }: Load): Promise<TableDraft> {
    const { formatVersion, partitionBy, sort, createNamespace } = this.#context.options;
    const present = this.#draft;
    if (versionIn(present, state) !== before?.version) throw fenced(state);
    const order = sort ?? (table.isKeyed ? table.key : []);
    this.session.order = order.length === 0 ? '' : ` ORDER BY ${order.map(quoteIdentifier).join(', ')}`;
    this.session.stageOrder = write.type === 'append' ? this.session.order : '';
    if (!change.create) {
      if (present === undefined) throw fenced(state);
      present.changeSchema(change.add, change.widen);
      return present;
    }
    const layout = { formatVersion, partitionBy, sort: order };
    const request = createRequest(table, layout, recordProperties(state, (before?.version ?? 0) + 1, intent));
    if (change.drop && !(await this.#catalog.drop(table.name)))
      this.#context.notice(`the catalog keeps the files of the Iceberg table "${table.name}", which was dropped`);
    if (createNamespace && !(await this.#catalog.hasNamespace())) await this.#catalog.createNamespace();
    if (!(await this.#catalog.createTable(request))) throw fenced(state);
    const made = await this.#open(table.name);
    if (made === undefined) throw unavailable(`table "${table.name}" was created, and the catalog does not show it`);
    return made;
  }

  /** The commit of the draft, with a record. @throws {CdsyncError} `fenced`, `destination_unavailable` */
  async #commit(
    key: StateKey,
    record: string,
    about: Readonly<Record<string, string>> = {},
    supersedes: readonly StateKey[] = [],
  ): Promise<void> {
    const draft = this.#draft as TableDraft;
    const version = versionIn(draft, key);
    const moved = async () => versionIn(await this.#catalog.load(key.table), key) !== version;
    // No requirement of a commit is about properties, and a load that changes no row makes no snapshot.
    if (await moved()) throw fenced(key);
    const updates = recordUpdates(draft.metadata, { ...key, version: (version ?? 0) + 1, record }, supersedes);
    try {
      await this.#catalog.commit(key.table, draft.commit(about, updates));
    } catch (error) {
      if (!(error instanceof CommitConflict)) throw error;
      if (await moved()) throw fenced(key);
      throw unavailable(`another writer has changed table "${key.table}" during the load`, {
        hint: 'does maintenance of the table run at the same time, or another writer? Nothing of this load was kept',
        cause: error,
      });
    }
  }

  /**
   * One delete and one insert write the changed rows to the table; a reload writes all rows as new files. If rows of the table are needed
   * for that, the new ones are made in a local table, by the statements of every SQL destination.
   */
  protected override async merge(task: MergeTask, rows: number): Promise<number> {
    const { table, target, stage: staged, t, s, write } = task;
    const { session } = this;
    const isStaged = `EXISTS (SELECT 1 FROM ${staged} AS ${s} WHERE ${sameKey(dialect, task)})`;
    const needsAbsent = write.isReload && write.absent !== 'delete';
    let made = { columns: table.columns.map(({ name }) => name), rows: `(FROM ${staged} WHERE "_op" = 'upsert')` };
    if (needsAbsent || this.#hasOthers(task)) {
      const needed = needsAbsent ? '' : ` WHERE ${isStaged}`;
      await session.run(`CREATE OR REPLACE TABLE ${next} AS SELECT ${t}.* FROM ${target} AS ${t}${needed}`);
      for (const { sql } of deleteUpdateInsert(dialect, { ...task, target: next })) await session.run(sql);
      made = { columns: this.#columns, rows: next };
    }
    const after = await this.number(`SELECT count(*) FROM ${made.rows}`);
    if (write.isReload) {
      await this.#replaceAll(target, rows, { ...made, count: after });
      return after;
    }
    const removed = await session.run(`DELETE FROM ${target} AS ${t} WHERE ${isStaged}`);
    if (after > 0) await session.write(target, made.columns, made.rows);
    return rows - removed + after;
  }

  protected override async clear(target: string, columns: readonly string[]): Promise<void> {
    const count = await this.session.run(`CREATE OR REPLACE TABLE ${next} AS FROM ${target}`);
    await super.clear(next, columns);
    await this.#replaceAll(target, count, { columns: this.#columns, rows: next, count });
  }

  /** Makes these rows all rows of the table. @param before how many it has */
  async #replaceAll(
    target: string,
    before: number,
    { columns, rows, count }: { readonly columns: readonly string[]; readonly rows: string; readonly count: number },
  ): Promise<void> {
    if (count > 0) {
      this.#draft?.truncate();
      await this.session.write(target, columns, rows);
    } else if (before > 0) {
      // DuckDB writes no file for no row.
      await this.session.run(`DELETE FROM ${target}`);
    }
  }

  /** Names of all columns of the table. */
  get #columns(): string[] {
    return columnsOf((this.#draft as TableDraft).metadata).map(({ name }) => name);
  }

  /** Whether the table has columns of others. */
  #hasOthers({ table, empty }: MergeTask): boolean {
    const ours = new Set([...table.columns.map(({ name }) => name), ...empty]);
    return this.#columns.some((name) => !ours.has(name));
  }

  override async replaceRecord(before: StateRow, record: string): Promise<void> {
    if (versionIn(this.#draft, before) !== before.version) throw fenced(before);
    await this.#commit(before, record);
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#catalog.close();
  }
}

/** How often a table's record of a stream has been written; undefined if it has none. */
function versionIn(table: Pick<LoadedTable, 'metadata'> | undefined, key: StateKey): number | undefined {
  return table && recordsOf(table.metadata, key.table).find((row) => isSameStream(row, key))?.version;
}

function columnsOf(metadata: TableMetadata): FoundTable['columns'] {
  return currentSchema(metadata).fields.map(({ name, type }) => ({ name, type: typeText(type) }));
}

/** Connects to the catalog, and starts DuckDB. */
export async function openIceberg(context: Context): Promise<TableDestination> {
  const catalog = await openCatalog(context);
  return orClose(catalog, async () => {
    await mkdir(context.folder, { recursive: true, mode: 0o700 });
    const session = await IcebergSession.open(context, catalog);
    return new IcebergDestination(context, catalog, session);
  });
}

import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type CdsyncError,
  type ChecksumColumn,
  type ColumnSum,
  type DestinationContext,
  type Load,
  loadRefused,
  type SchemaChange,
  sameWatermark,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  unavailable,
  type Watermark,
  watermarkMoved,
} from '../../src/sdk/index.js';
import { namespaceMissing, RestCatalog } from './catalog.js';
import { CommitConflict, type LoadEngine, type StagedLoad } from './load-engine.js';
import { type Marker, markersOf } from './marker.js';
import type { IcebergShape } from './options.js';
import { parsePartition } from './partition.js';
import { addColumns, changeType, createRequest, sortColumns, type TableCommit } from './schema-update.js';
import { currentSchema, currentSnapshotId, type LoadedTable, type TableMetadata } from './table-metadata.js';
import { fieldNamed, mapPartitioned, typeText, widens } from './types.js';
import { isWorkTable } from './work-tables.js';

type Context = DestinationContext<IcebergShape>;

/** How often a change is tried again upon what somebody else has committed meanwhile. */
const tries = 5;

/** The catalog of a destination, connected. */
export function openCatalog({ options, signal }: Context): Promise<RestCatalog> {
  const vendsCredentials = options.accessKeyId === undefined && options.credentials === 'catalog';
  return RestCatalog.open({ ...options, vendsCredentials, signal });
}

/** The engine that the options name. */
export async function openEngine(context: Context, catalog: RestCatalog): Promise<LoadEngine> {
  if (context.options.engine !== 'duckdb') {
    const { TrinoEngine } = await import('./trino-engine.js');
    return TrinoEngine.open(context, catalog);
  }
  const { DuckdbEngine } = await import('./duckdb-engine.js');
  return DuckdbEngine.open(context, catalog);
}

/** Whether the summary of the present snapshot says for certain that there are rows, or that there are none. */
export function knownEmpty(metadata: TableMetadata): boolean | undefined {
  const id = currentSnapshotId(metadata);
  if (id === null) return true;
  const summary = metadata.snapshots?.find((each) => each['snapshot-id'] === id)?.summary ?? {};
  const number = (name: string) => Number(summary[name] ?? Number.NaN);
  if (number('total-records') === 0) return true;
  const deleted = number('total-position-deletes') + Number(summary['total-equality-deletes'] ?? 0);
  return number('total-records') > deleted ? false : undefined;
}

/**
 * Whether a column must stay the field that it is, because partitions come from it. Iceberg refuses another field under the name of
 * an identity partition, and DuckDB cannot delete from a table whose old and new partitions have one name.
 */
function isPartitioned(metadata: TableMetadata, column: string): boolean {
  const id = fieldNamed(currentSchema(metadata).fields, column)?.id;
  const all = (metadata['partition-specs'] ?? []).flatMap(({ fields }) => fields);
  const parts = all.filter((field) => field['source-id'] === id);
  const hadRows = (metadata.snapshots ?? []).length > 0;
  return parts.some(({ transform }) => hadRows || transform === 'identity');
}

function conflict(table: string, cause: unknown): CdsyncError {
  return unavailable(`others keep changing table "${table}", so that the catalog refuses the commit`, {
    hint: 'does maintenance of the table run at the same time, or another writer?',
    cause,
  });
}

/** Tables of one namespace of an Iceberg catalog. */
class IcebergDestination implements TableDestination {
  readonly types: NonNullable<TableDestination['types']>;
  readonly #context: Context;
  readonly #catalog: RestCatalog;
  #engine: LoadEngine | undefined;

  constructor(context: Context, catalog: RestCatalog) {
    this.#context = context;
    this.#catalog = catalog;
    const parts = context.options.partitionBy.map(parsePartition);
    const named = parts.flatMap((part) => (part?.transform === 'identity' ? [part.column] : []));
    this.types = { mapColumn: mapPartitioned(named), widens };
  }

  /** They stand in the tables: of a namespace with thousands, only the one to be loaded is read. */
  async watermarks(table?: string): Promise<Watermark[]> {
    const { createNamespace, namespace } = this.#context.options;
    if (!(await this.#catalog.hasNamespace())) {
      if (!createNamespace) throw namespaceMissing(namespace);
      await this.#catalog.createNamespace();
    }
    const names = table === undefined ? (await this.#catalog.tables()).filter((name) => !isWorkTable(name)) : [table];
    const tables = await this.#catalog.loadAll(names);
    return newest(tables.flatMap(({ name, loaded }) => markersOf(loaded.metadata, name)));
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const loaded = await this.#catalog.load(table);
    if (loaded === undefined) return undefined;
    const columns = currentSchema(loaded.metadata).fields.map(({ name, type }) => ({ name, type: typeText(type) }));
    return { columns, isEmpty: knownEmpty(loaded.metadata) ?? (await (await this.#opened()).isEmpty(table)) };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const { formatVersion, partitionBy, sort } = this.#context.options;
    if (change.type === 'create') {
      const request = createRequest(table, { formatVersion, partitionBy, sort });
      // No table is made that the engine could not fill.
      await this.#opened();
      return this.#catalog.createTable(request);
    }
    const commitOf = (metadata: TableMetadata): TableCommit | undefined =>
      change.type === 'add_columns' ? addColumns(metadata, change.columns) : changeType(metadata, change.column);
    await this.#again(table.name, async ({ metadata }) => {
      const commit = commitOf(metadata);
      if (commit !== undefined) await this.#catalog.commit(table.name, commit);
    });
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const loaded = await this.#catalog.load(table);
    // As if it had values: another type goes into a column beside it.
    if (loaded !== undefined && isPartitioned(loaded.metadata, column)) return false;
    if (loaded !== undefined && knownEmpty(loaded.metadata) === true) return true;
    return (await this.#opened()).isColumnEmpty(table, column);
  }

  async load(load: Load): Promise<void> {
    const staged = await this.#stage(load);
    const marker: Marker = { watermark: load.after, load: load.id };
    await this.#again(load.table.name, async (base) => {
      if (isDone(base.metadata, load)) return;
      try {
        await (await this.#opened()).load({ ...staged, base, marker });
      } catch (error) {
        if (error instanceof CommitConflict) throw error;
        // The answer to the commit may have been lost.
        if ((error as CdsyncError).kind !== 'retryable' || !(await this.#isThere(load))) throw error;
      }
    });
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#opened().then((engine) => engine.count(table, live));
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    return this.#opened().then((engine) => engine.checksum(table, columns, live));
  }

  async close(): Promise<void> {
    await this.#engine?.close();
    await this.#catalog.close();
  }

  async #opened(): Promise<LoadEngine> {
    this.#engine ??= await openEngine(this.#context, this.#catalog);
    return this.#engine;
  }

  /** Takes the load's files over: a commit that is refused begins again from them. */
  async #stage({
    data,
    table,
    action,
    stream,
    deliveredAt,
    signal,
  }: Load): Promise<Omit<StagedLoad, 'base' | 'marker'>> {
    const folder = join(this.#context.folder, 'stage');
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const files: string[] = [];
    for await (const { path } of data.files()) {
      signal.throwIfAborted();
      const file = join(folder, `${files.length}.parquet`);
      await rename(path, file);
      files.push(file);
    }
    return {
      load: { stream, table, action, deliveredAt, signal },
      files,
      rows: data.handedOver,
      columns: data.columns.map(({ name }) => name),
      sort: sortColumns(table, this.#context.options),
    };
  }

  /** Does something upon the table as it is; once more if somebody else changes it meanwhile. */
  async #again(table: string, work: (base: LoadedTable) => Promise<void>): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const base = await this.#catalog.load(table);
      if (base === undefined) throw loadRefused(`table "${table}" has gone from the catalog`);
      try {
        return await work(base);
      } catch (error) {
        if (!(error instanceof CommitConflict)) throw error;
        if (attempt === tries) throw conflict(table, error);
      }
    }
  }

  async #isThere({ table, after }: Load): Promise<boolean> {
    const loaded = await this.#catalog.load(table.name).catch(() => undefined);
    const markers = loaded === undefined ? [] : markersOf(loaded.metadata, table.name);
    return markers.some(({ watermark }) => sameWatermark(watermark, after));
  }
}

/** One watermark for each stream of a destination: a stream that has got another table has left one in the old table. */
function newest(markers: readonly Marker[]): Watermark[] {
  const found = new Map<string, Watermark>();
  for (const { watermark } of markers) {
    const name = `${watermark.destination}.${watermark.stream}`;
    const other = found.get(name);
    if (other === undefined || other.deliveredAt < watermark.deliveredAt) found.set(name, watermark);
  }
  return [...found.values()];
}

/**
 * Whether an earlier attempt at the same rows has been committed after all.
 * @throws {CdsyncError} `watermark_moved` if another delivery has moved the watermark
 */
export function isDone(metadata: TableMetadata, { id, before, after, table, stream }: Load): boolean {
  const marker = markersOf(metadata, table.name).find(
    ({ watermark }) => watermark.destination === after.destination && watermark.stream === after.stream,
  );
  if (sameWatermark(marker?.watermark, before)) return false;
  if (marker?.load === id) return true;
  // The watermark may stand in another table, which the stream had before.
  if (marker === undefined && before?.table !== table.name) return false;
  throw watermarkMoved(stream);
}

/** Connects to the catalog. The engine starts with the first call that needs it. */
export async function openIceberg(context: Context): Promise<TableDestination> {
  return new IcebergDestination(context, await openCatalog(context));
}

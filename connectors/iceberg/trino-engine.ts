import { randomBytes } from 'node:crypto';
import {
  type ChecksumColumn,
  type ColumnSum,
  type DestinationContext,
  loadRefused,
  openTrino,
  type TargetTable,
  type TrinoAbsent,
  type TrinoSession,
  trinoFailureName,
  trinoIdentifier,
  trinoMerge,
  trinoNames,
  trinoText,
} from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';
import { DuckdbEngine } from './duckdb-engine.js';
import { loadCommit } from './load-commit.js';
import type { LoadEngine, StagedLoad } from './load-engine.js';
import type { IcebergShape } from './options.js';
import { createRequest } from './schema-update.js';
import { type LoadedTable, newSnapshots } from './table-metadata.js';
import { hasOwnFiles, workTables } from './work-tables.js';

type Context = DestinationContext<IcebergShape>;

/** The tables that one merge works with. */
interface Work {
  /** Has the changes. */
  readonly rows: string;
  /** A second name of the table as the load found it: Trino merges into this one. */
  readonly merged: string;
}

/**
 * Merges by a Trino server that has the same catalog. DuckDB stages the changes as an Iceberg table. The catalog registers the
 * table's present metadata under a second name, Trino merges into that by one MERGE, and the load commits Trino's snapshot to the
 * table itself, together with the marker. So readers see rows and watermark at once, and a statement of Trino that outlives its
 * delivery changes nothing. Loads without a merge, and reads, are DuckDB's.
 */
export class TrinoEngine implements LoadEngine {
  readonly #files: DuckdbEngine;
  readonly #catalog: RestCatalog;
  readonly #session: TrinoSession;
  readonly #schema: string;

  private constructor(files: DuckdbEngine, catalog: RestCatalog, session: TrinoSession) {
    this.#files = files;
    this.#catalog = catalog;
    this.#session = session;
    this.#schema = catalog.namespace.join('.');
  }

  /** @throws {CdsyncError} `destination_plaintext`, `duckdb_extension_missing` */
  static async open(context: Context, catalog: RestCatalog): Promise<TrinoEngine> {
    const { engine, allowHttp } = context.options;
    if (engine === 'duckdb') throw new Error('the options name no Trino');
    const { trino: url, username = 'cdsync', password, token } = engine;
    const session = await openTrino({ url, username, password, token, source: `cdsync-${context.job}` }, allowHttp);
    try {
      return new TrinoEngine(await DuckdbEngine.open(context, catalog), catalog, session);
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  async load(task: StagedLoad): Promise<void> {
    const { load, marker } = task;
    const own = workTables([marker.watermark.destination, load.table.name]);
    await this.#remove((name) => name.startsWith(own.rows) || name.startsWith(own.merged));
    if (load.action.type !== 'merge') return this.#files.load(task);
    const stop = () => this.#session.stop();
    load.signal.addEventListener('abort', stop);
    try {
      load.signal.throwIfAborted();
      const random = randomBytes(4).toString('hex');
      await this.#merge(task, { rows: own.rows + random, merged: own.merged + random });
    } finally {
      load.signal.removeEventListener('abort', stop);
      await this.#remove((name) => name.startsWith(own.rows) || name.startsWith(own.merged)).catch(() => undefined);
    }
  }

  async #merge(task: StagedLoad, { rows, merged }: Work): Promise<void> {
    const { load, base, marker } = task;
    await this.#stage(task, rows);
    await this.#catalog.register(merged, String(base['metadata-location']));
    const at = await this.#trinoCatalog(merged);
    const path = (table: string) => [at, this.#schema, table].map(trinoIdentifier).join('.');
    const selected = `SELECT ${trinoNames(task.columns.map((name) => ({ name })))} FROM ${path(rows)}`;
    await this.#session.run(trinoMerge(load.table, path(merged), selected, absentOf(load)));
    const after = await this.#loaded(merged);
    const updates = newSnapshots(base.metadata, after.metadata).map((snapshot) => ({
      action: 'add-snapshot',
      snapshot,
    }));
    const { metadata } = base;
    await this.#catalog.commit(load.table.name, loadCommit({ metadata, updates, replaces: false }, marker));
  }

  /** Makes a table of the load's rows. */
  async #stage(task: StagedLoad, name: string): Promise<void> {
    const { load, columns } = task;
    const types = new Map(load.table.columns.map((column) => [column.name, column.type]));
    const table: TargetTable = {
      name,
      columns: columns.map((column) => ({ name: column, type: types.get(column) ?? 'string' })),
      key: [],
    };
    await this.#catalog.createTable(createRequest(table, { formatVersion: 2, partitionBy: [], sort: [] }));
    const base = await this.#loaded(name);
    if (task.rows > 0)
      await this.#files.load({ ...task, load: { ...load, table, action: { type: 'append' } }, sort: [], base });
  }

  async #loaded(name: string): Promise<LoadedTable> {
    const loaded = await this.#catalog.load(name);
    if (loaded === undefined) throw loadRefused(`table "${name}", which the load has made, has gone from the catalog`);
    return loaded;
  }

  /** The name that Trino has for the catalog: the one that shows the table. */
  async #trinoCatalog(table: string): Promise<string> {
    const named = await this.#session.rows(
      `SELECT catalog_name AS name FROM system.metadata.catalogs WHERE connector_name = 'iceberg' ORDER BY 1`,
    );
    for (const { name } of named) {
      const tables = `${trinoIdentifier(String(name))}.information_schema.tables`;
      const query = `SELECT 1 AS found FROM ${tables} WHERE table_schema = ${trinoText(this.#schema)} AND table_name = ${trinoText(table)}`;
      if (await this.#finds(query)) return String(name);
    }
    throw loadRefused(`no catalog of Trino shows the tables of namespace ${this.#schema}`, {
      hint: 'Trino needs a catalog with connector.name=iceberg, iceberg.catalog.type=rest and the same URL and warehouse; names of namespaces must be in small letters',
    });
  }

  /** A catalog that fails is another one. */
  async #finds(query: string): Promise<boolean> {
    try {
      return (await this.#session.rows(query)).length > 0;
    } catch (error) {
      if (trinoFailureName(error) === undefined) throw error;
      return false;
    }
  }

  /** Drops tables of this load, and of earlier ones that were killed. Files of the merged one belong to the table itself. */
  async #remove(isOurs: (name: string) => boolean): Promise<void> {
    for (const name of (await this.#catalog.tables()).filter(isOurs))
      await this.#catalog.drop(name, { withFiles: hasOwnFiles(name) });
  }

  isEmpty(table: string): Promise<boolean> {
    return this.#files.isEmpty(table);
  }

  isColumnEmpty(table: string, column: string): Promise<boolean> {
    return this.#files.isColumnEmpty(table, column);
  }

  count(table: string, live: boolean): Promise<number> {
    return this.#files.count(table, live);
  }

  checksum(table: string, columns: readonly ChecksumColumn[], live: boolean): Promise<ReadonlyMap<string, ColumnSum>> {
    return this.#files.checksum(table, columns, live);
  }

  async close(): Promise<void> {
    await this.#session.close();
    await this.#files.close();
  }
}

function absentOf({ action, deliveredAt }: StagedLoad['load']): TrinoAbsent {
  const type = action.type === 'merge' ? action.absent : 'keep';
  const moment = `TIMESTAMP ${trinoText(`${deliveredAt.slice(0, 23).replace('T', ' ')} UTC`)}`;
  return type === 'mark' ? { type, moment } : { type };
}

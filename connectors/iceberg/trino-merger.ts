import { randomBytes } from 'node:crypto';
import {
  type DestinationContext,
  duckdbDialect,
  freeAlias,
  type Load,
  loadRefused,
  mergeSql,
  openTrino,
  quoteIdentifier,
  sqlText,
  type TrinoSession,
  trinoFailureName,
} from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';
import type { IcebergShape } from './options.js';
import { createRequest } from './schema-update.js';
import { type IcebergSession, tableOf } from './session.js';
import { TableDraft } from './table-draft.js';
import { newSnapshots } from './table-metadata.js';
import { dropWorkTables, workTables } from './work-tables.js';

type Context = DestinationContext<IcebergShape>;
type TrinoOptions = Exclude<Context['options']['engine'], 'duckdb'>;

interface MergeByTrino {
  readonly load: Load;
  readonly draft: TableDraft;
  readonly session: IcebergSession;
  /** SQL of the local table of the changes. */
  readonly staged: string;
}

/**
 * Merges changes by a Trino server that has the same catalog. DuckDB stages them as an Iceberg table. The catalog registers the
 * table's present metadata under a second name, Trino merges into that by one MERGE, and Trino's snapshot goes into the draft. So
 * readers see rows and record at once, and a statement of Trino that outlives its delivery changes nothing.
 */
export class TrinoMerger {
  /** Whether work tables of a merge could not be dropped. */
  owes = false;
  readonly #catalog: RestCatalog;
  readonly #session: TrinoSession;
  readonly #schema: string;

  private constructor(catalog: RestCatalog, session: TrinoSession) {
    this.#catalog = catalog;
    this.#session = session;
    this.#schema = catalog.namespace.join('.');
  }

  /** @throws {CdsyncError} `destination_plaintext` */
  static async open(
    { options, job }: Context,
    { trino: url, username = 'cdsync', password, token }: TrinoOptions,
    catalog: RestCatalog,
  ): Promise<TrinoMerger> {
    const login = { url, username, password, token, source: `cdsync-${job}` };
    return new TrinoMerger(catalog, await openTrino(login, options.allowHttp));
  }

  async merge(task: MergeByTrino): Promise<void> {
    const { load } = task;
    const stop = () => this.#session.stop();
    load.signal.addEventListener('abort', stop);
    try {
      load.signal.throwIfAborted();
      const own = workTables([load.state.destination, load.table.name]);
      const random = randomBytes(4).toString('hex');
      await this.#merge(task, own.rows + random, own.merged + random);
    } finally {
      load.signal.removeEventListener('abort', stop);
      await dropWorkTables(this.#catalog, load.state).catch(() => {
        this.owes = true;
      });
    }
  }

  /** @param rows the name of the table of the changes @param merged of the table that Trino merges into */
  async #merge({ load, draft, session, staged }: MergeByTrino, rows: string, merged: string): Promise<void> {
    await this.#stage(load, { session, staged }, rows);
    await this.#catalog.register(merged, String(draft.base['metadata-location']));
    const at = await this.#trinoCatalog(merged);
    const path = (table: string) => [at, this.#schema, table].map(quoteIdentifier).join('.');
    await this.#session.run(changesSql(load, path(merged), path(rows)));
    const { metadata } = await this.#loaded(merged);
    draft.apply(newSnapshots(draft.metadata, metadata).map((snapshot) => ({ action: 'add-snapshot', snapshot })));
  }

  /** Makes a table of the changes. */
  async #stage(
    { data, table }: Load,
    { session, staged }: Pick<MergeByTrino, 'session' | 'staged'>,
    name: string,
  ): Promise<void> {
    const types = new Map(table.columns.map((column) => [column.name, column.type]));
    const columns = data.columns.map((column) => ({ name: column.name, type: types.get(column.name) ?? 'string' }));
    const layout = { formatVersion: 2, partitionBy: [], sort: [] };
    await this.#catalog.createTable(createRequest({ name, columns, key: [] }, layout));
    const draft = new TableDraft(await this.#loaded(name));
    session.show(name, draft);
    try {
      await session.run(`INSERT INTO ${tableOf(name)} BY NAME SELECT * FROM ${staged}`);
    } finally {
      session.show(name, undefined);
    }
    if (draft.hasSnapshot) await this.#catalog.commit(name, draft.commit({}, []));
  }

  async #loaded(name: string) {
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
      const tables = `${quoteIdentifier(String(name))}.information_schema.tables`;
      const query = `SELECT 1 AS found FROM ${tables} WHERE table_schema = ${sqlText(this.#schema)} AND table_name = ${sqlText(table)}`;
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

  async close(): Promise<void> {
    await this.#session.close();
  }
}

/** One MERGE of changes. @param target SQL of the table's name @param rows SQL of the name of the table of the changes */
export function changesSql({ table }: Pick<Load, 'table'>, target: string, rows: string): string {
  const taken = new Set(table.columns.map(({ name }) => name.toLowerCase()));
  const [t, s] = [freeAlias('t', taken), freeAlias('s', taken)];
  const write = { type: 'merge', absent: 'keep', isReload: false } as const;
  // Both quote names in the same way.
  return mergeSql(duckdbDialect(''), { table, target, stage: rows, t, s, write, empty: [] });
}

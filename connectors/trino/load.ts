import { randomBytes } from 'node:crypto';
import {
  columnsIn,
  type DestinationContext,
  type FoundColumns,
  holdsAsJson,
  type Load,
  loadRefused,
  loadsTable,
  notATable,
  orClose,
  quoteIdentifier,
  SqlDestination,
  sqlText,
  stateTable,
  type TableDestination,
  type TableTypes,
  widensDecimal,
} from '../../src/sdk/index.js';
import { type Catalog, findCatalog } from './catalogs.js';
import { stageName, trinoDialect } from './dialect.js';
import { endOthers, type sourceOf } from './fence.js';
import type { trinoOptions } from './options.js';
import { Session, trinoSession } from './session.js';
import { type SchemaPlace, tablePath } from './statements.js';
import { mapColumn } from './types.js';

type Context = DestinationContext<typeof trinoOptions>;

const ownTables = [stateTable, loadsTable];

/** The tables, or columns, that a catalog has of a schema. */
export function information(catalog: string, view: 'schemata' | 'tables' | 'columns'): string {
  return `${quoteIdentifier(catalog)}.information_schema.${view}`;
}

/** Tables of one schema of one catalog. */
class TrinoDestination extends SqlDestination<Session> {
  override readonly types: TableTypes;
  readonly #catalog: Catalog;
  readonly #source: ReturnType<typeof sourceOf>;
  readonly #place: SchemaPlace;
  readonly #staging: SchemaPlace;

  constructor(session: Session, { options }: Context, catalog: Catalog, source: ReturnType<typeof sourceOf>) {
    const place = { catalog: catalog.name, schema: options.schema.toLowerCase() };
    const staging = {
      catalog: options.stagingCatalog?.toLowerCase() ?? place.catalog,
      schema: options.stagingSchema?.toLowerCase() ?? place.schema,
    };
    super(trinoDialect(place, catalog.traits, { staging, attempt: randomBytes(4).toString('hex') }), session);
    this.#catalog = catalog;
    this.#source = source;
    this.#place = place;
    this.#staging = staging;
    const { traits } = catalog;
    this.types = {
      mapColumn: (type) => mapColumn(type, traits),
      holds: holdsAsJson,
      widens: (declared, current) => traits.widensDecimals === true && widensDecimal(declared, current),
    };
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const { catalog, schema } = this.#place;
    const name = table.toLowerCase();
    const named = `table_schema = ${sqlText(schema)} AND table_name = ${sqlText(name)}`;
    const [row] = await this.session.rows(
      `SELECT table_type AS kind FROM ${information(catalog, 'tables')} WHERE ${named}`,
    );
    if (row === undefined) return undefined;
    if (row.kind !== 'BASE TABLE') throw notATable(table, `a ${String(row.kind).toLowerCase()}`);
    // Every statement takes its time, and of cdsync's own tables only whether they are there is asked.
    if (ownTables.includes(table)) return { columns: [], comment: undefined };
    const rows = await this.session.rows(
      `SELECT column_name AS name, data_type AS type FROM ${information(catalog, 'columns')} WHERE ${named} ORDER BY ordinal_position`,
    );
    return {
      columns: columnsIn(rows),
      comment: this.#catalog.traits.comments === true ? await this.#comment(name) : undefined,
    };
  }

  async #comment(table: string): Promise<string | null> {
    const { catalog, schema } = this.#place;
    const [row] = await this.session.rows(
      `SELECT comment FROM system.metadata.table_comments WHERE catalog_name = ${sqlText(catalog)}
       AND schema_name = ${sqlText(schema)} AND table_name = ${sqlText(table)}`,
    );
    return (row?.comment ?? null) as string | null;
  }

  protected override async createPlace(): Promise<void> {
    const { catalog, schema } = this.#place;
    const rows = await this.session.rows(
      `SELECT 1 AS found FROM ${information(catalog, 'schemata')} WHERE schema_name = ${sqlText(schema)}`,
    );
    if (rows.length === 0)
      await this.session.run(`CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(catalog)}.${quoteIdentifier(schema)}`);
  }

  override async load(load: Load): Promise<void> {
    const { name, kind, traits } = this.#catalog;
    if (load.table.isKeyed && traits.merges === false)
      throw loadRefused(`catalog ${name} (${kind}) has no MERGE`, {
        hint: 'use mode append, or a catalog that can MERGE, such as iceberg, delta_lake or postgresql',
      });
    await endOthers(this.session.trino, this.#source, load.signal);
    await super.load(load);
  }

  protected override async leftovers(table: string): Promise<string[]> {
    const { catalog, schema } = this.#staging;
    const left = await this.session.rows(
      `SELECT table_name AS name FROM ${information(catalog, 'tables')} WHERE table_schema = ${sqlText(schema)}
       AND starts_with(table_name, ${sqlText(stageName(this.#place, table))})`,
    );
    return left.map(({ name }) => `DROP TABLE IF EXISTS ${tablePath(this.#staging, String(name))}`);
  }
}

/** Finds out what kind of catalog it is, and opens it. */
export async function openTrinoTables(context: Context): Promise<TableDestination> {
  const { trino, source } = await trinoSession(context);
  const opened = (by: typeof trino, catalog: Catalog, sourceOptions: typeof source) =>
    new TrinoDestination(new Session(by, catalog, context.options.statementChars), context, catalog, sourceOptions);
  const catalog = await orClose(trino, () => findCatalog(trino, context.options.catalog));
  const needed = Object.entries(catalog.traits.session ?? {});
  if (needed.length === 0) return opened(trino, catalog, source);
  const properties = Object.fromEntries(needed.map(([name, value]) => [`${catalog.name}.${name}`, value]));
  await trino.close();
  const again = await trinoSession(context, properties);
  return opened(again.trino, catalog, again.source);
}

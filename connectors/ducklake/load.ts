import {
  alteredFile,
  assignments,
  type Change,
  type DestinationContext,
  deleteUpdateInsert,
  duckdbDialect,
  type FoundColumns,
  type Load,
  loadsTable,
  type MergeTask,
  nameList,
  quoteIdentifier,
  removesValues,
  SqlDestination,
  type SqlDialect,
  sameKey,
  sqlText,
  stateTable,
  type TableDestination,
} from '../../src/sdk/index.js';
import { catalogPlace, lake, metadataTable } from './catalog.js';
import { isNoLake } from './errors.js';
import type { DucklakeShape } from './options.js';
import { type LakeSession, openBare, openLake } from './session.js';

/** This many outdated records are kept before they are removed. */
const outdatedMax = 500;

/**
 * The SQL that a lake writes differently from a file of DuckDB. By the stamp, two loads of one table exclude each other: DuckLake
 * lets two transactions add rows to one table, but not if one of them has altered it.
 */
function lakeDialect(schema: string): SqlDialect {
  const dialect: SqlDialect = {
    ...duckdbDialect(schema, lake),
    addsState: true,
    own: { text: 'VARCHAR', integer: 'BIGINT' },
    merge: (task) => lakeMerge(dialect, task),
  };
  return dialect;
}

/** One MERGE in place of UPDATE and INSERT: each statement leaves a file. */
function lakeMerge(dialect: SqlDialect, task: MergeTask): Change[] {
  const { table, target, stage, t, s, write } = task;
  const columns = table.columns.map(({ name }) => name);
  const { set, differs } = assignments(dialect, task);
  const assigned = set.map(([name, value]) => `${name} = ${value}`).join(', ');
  const matched =
    set.length === 0 ? '' : `WHEN MATCHED${write.isReload ? ` AND ${differs}` : ''} THEN UPDATE SET ${assigned}`;
  const [deletes, ...others] = deleteUpdateInsert(dialect, task);
  const after = others.slice(set.length === 0 ? 1 : 2);
  return [
    deletes as Change,
    {
      sql: `MERGE INTO ${target} AS ${t} USING (FROM ${stage} WHERE _op = 'upsert') AS ${s} ON ${sameKey(dialect, task)} ${matched}
        WHEN NOT MATCHED THEN INSERT (${nameList(dialect, columns)}) VALUES (${nameList(dialect, columns, `${s}.`)})`,
    },
    ...after,
  ];
}

/** Tables of one schema of a lake, over one connection. */
export class DucklakeDestination extends SqlDestination<LakeSession> {
  readonly #context: DestinationContext<DucklakeShape>;

  constructor(session: LakeSession, context: DestinationContext<DucklakeShape>) {
    super(lakeDialect(context.options.schema), session);
    this.#context = context;
  }

  get #schema(): string {
    return this.#context.options.schema;
  }

  get #ofSchema(): string {
    return `database_name = '${lake}' AND schema_name = ${sqlText(this.#schema)}`;
  }

  protected override async createPlace(): Promise<void> {
    if ((await this.number(`SELECT count(*) FROM duckdb_schemas() WHERE ${this.#ofSchema}`)) > 0) return;
    await this.session.run(`CREATE SCHEMA IF NOT EXISTS ${lake}.${quoteIdentifier(this.#schema)}`);
  }

  protected override async createOwn(sql: string): Promise<void> {
    await super.createOwn(sql);
    // Their few rows stay in the catalog, so that not every load leaves tiny files.
    for (const table of [stateTable, loadsTable])
      if (sql.includes(this.dialect.table(table)))
        await this.session.run(
          `CALL ${lake}.set_option('data_inlining_row_limit', 10, schema => ${sqlText(this.#schema)}, table_name => ${sqlText(table)})`,
        );
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    await this.#assertWithin(table);
    return this.session.table(this.#ofSchema, table);
  }

  /** DuckLake reads and writes wherever the catalog says: a file of this machine, and an address. */
  async #assertWithin(table: string): Promise<void> {
    const { options } = this.#context;
    const of = (name: string) => metadataTable(options, name);
    const schemas = `FROM ${of('schema')} WHERE schema_name = ${sqlText(this.#schema)}`;
    const tables = `FROM ${of('table')} WHERE lower(table_name) = lower(${sqlText(table)}) AND end_snapshot IS NULL
      AND schema_id IN (SELECT schema_id ${schemas})`;
    // With their numbers, a server sends no other rows.
    const ids = await this.session.rows(`SELECT table_id ${tables}`);
    const files = ids.flatMap(({ table_id: id }) =>
      ['data_file', 'delete_file'].map((kind) => `FROM ${of(kind)} WHERE table_id = ${id}`),
    );
    const all = [schemas, tables, ...files];
    const current = all.map((from) => `SELECT path, path_is_relative ${from} AND end_snapshot IS NULL`);
    const [row] = await this.session.rows(
      `SELECT 1 FROM (${current.join(' UNION ALL ')}) WHERE regexp_matches(path, '(^|[/\\\\])[.][.]([/\\\\]|$)')
       OR NOT path_is_relative AND NOT starts_with(path, (SELECT data_path FROM ducklake_settings('${lake}'))) LIMIT 1`,
    );
    if (row !== undefined)
      throw alteredFile(catalogPlace(options), `a path of table "${table}" that leads out of the folder of the data`);
  }

  override async load(load: Load): Promise<void> {
    await super.load({
      ...load,
      finish: (outcome) => {
        const finished = load.finish(outcome);
        const { destination, stream } = load.state;
        const { run_id, sequence } = finished.line;
        const about = { run_id, destination, stream, table: load.table.name, sequence };
        this.session.message = { text: `run ${run_id}: ${stream}`, extra: JSON.stringify(about) };
        return finished;
      },
    });
    if (removesValues(load))
      this.#context.notice(
        `older snapshots of ${catalogPlace(this.#context.options)} still have the values that were removed from table "${load.table.name}"; ducklake_expire_snapshots and ducklake_cleanup_old_files remove them`,
      );
    await this.#removeOutdated();
  }

  /** Loads that removed rows of records would exclude others, so it is done seldom, and alone. */
  async #removeOutdated(): Promise<void> {
    const state = this.dialect.table(stateTable);
    const newest = `SELECT max(rowid) FROM ${state} GROUP BY destination, stream, table_name`;
    try {
      const outdated = await this.number(`SELECT count(*) FROM ${state} WHERE rowid NOT IN (${newest})`);
      if (outdated > outdatedMax) await this.session.run(`DELETE FROM ${state} WHERE rowid NOT IN (${newest})`);
    } catch {
      // The load is committed; a later one removes them.
    }
  }
}

/** Opens the lake, and makes it if it is missing. */
export async function openDucklake(context: DestinationContext<DucklakeShape>): Promise<TableDestination> {
  return new DucklakeDestination(await opened(context), context);
}

async function opened(context: DestinationContext<DucklakeShape>): Promise<LakeSession> {
  if (context.isReadOnly !== true) return openLake(context, 'create');
  try {
    return await openLake(context, 'look');
  } catch (error) {
    // A lake that is not there has no tables.
    if (isNoLake(error) || isNoLake((error as Error).cause)) return openBare(context);
    throw error;
  }
}

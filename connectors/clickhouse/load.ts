import { randomBytes } from 'node:crypto';
import {
  assertHttps,
  type DestinationContext,
  type FoundColumns,
  type Load,
  loadRefused,
  notATable,
  orClose,
  SqlDestination,
  type TableDestination,
} from '../../src/sdk/index.js';
import { besideName, clickhouseDialect } from './dialect.js';
import type { clickhouseOptions } from './options.js';
import { Session } from './session.js';
import { deletedColumn, described, identifier, literal, versionColumn } from './types.js';

/** Tables of one database. */
class ClickhouseDestination extends SqlDestination<Session> {
  /** Tables that keep the last row of each key. */
  readonly #keepLast: Set<string>;

  constructor(session: Session) {
    const keepLast = new Set<string>();
    super(
      clickhouseDialect((table) => keepLast.has(table), randomBytes(4).toString('hex')),
      session,
    );
    this.#keepLast = keepLast;
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const isInDatabase = `database = currentDatabase() AND`;
    const [tableRow] = await this.session.rows(
      `SELECT engine, engine_full, comment FROM system.tables WHERE ${isInDatabase} name = ${literal(table)}`,
    );
    if (tableRow === undefined) return undefined;
    if (!/MergeTree$/.test(String(tableRow.engine)))
      throw notATable(table, `a table with the engine ${tableRow.engine}, which cdsync does not load`);
    const keepsLast = new RegExp(`Replacing.*\\(.*${versionColumn}, ${deletedColumn}\\)`);
    if (keepsLast.test(String(tableRow.engine_full))) this.#keepLast.add(table);
    else this.#keepLast.delete(table);
    const rows = await this.session.rows(
      `SELECT name, type, default_kind, is_in_sorting_key FROM system.columns WHERE ${isInDatabase} table = ${literal(table)} ORDER BY position`,
    );
    const columns = rows
      .filter(({ name }) => name !== versionColumn && name !== deletedColumn)
      .map((row) => ({ name: String(row.name), type: described(row) }));
    return { columns, comment: String(tableRow.comment) };
  }

  override async load(load: Load): Promise<void> {
    this.#assertEngine(load);
    await this.session.stopOthers();
    await super.load(load);
  }

  protected override async leftovers(table: string): Promise<string[]> {
    const left = await this.session.rows(
      `SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, ${literal(besideName(table))})`,
    );
    return left.map(({ name }) => `DROP TABLE IF EXISTS ${identifier(String(name))} SYNC`);
  }

  /** A log in a table that keeps one row of each key would lose rows. Any other table is replaced by a reload. */
  #assertEngine({ table: { name, isKeyed }, change }: Load): void {
    if (isKeyed || change.create || !this.#keepLast.has(name)) return;
    throw loadRefused(`table "${name}" keeps one row of each key; mode append needs a table that keeps all rows`, {
      hint: 'give the stream another table with `table:`',
    });
  }
}

/** @throws {CdsyncError} `destination_plaintext` */
export function clickhouseSession({
  options,
  destination,
  job,
  signal,
}: DestinationContext<typeof clickhouseOptions>): Session {
  assertHttps(new URL(options.url), options.password !== undefined && 'the password and all rows', options.allowHttp);
  return new Session(options, `cdsync-${job}-${destination}`, signal);
}

/** Opens the destination, once the server responds. */
export async function openClickhouse(context: DestinationContext<typeof clickhouseOptions>): Promise<TableDestination> {
  const session = clickhouseSession(context);
  await orClose(session, () => session.greet());
  return new ClickhouseDestination(session);
}

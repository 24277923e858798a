import {
  type DestinationContext,
  type FoundColumns,
  holdsAsJson,
  loadRefused,
  notATable,
  SqlDestination,
  type TableDestination,
} from '../../src/sdk/index.js';
import { mysqlDialect } from './dialect.js';
import type { mysqlOptions } from './options.js';
import { Session } from './session.js';
import { holdsTexts, identifier, isTypeOf, mapColumnWithin, widens } from './types.js';

/** Tables of one database, over one connection. */
class MysqlDestination extends SqlDestination<Session> {
  readonly #altered: Set<string>;
  override readonly types = {
    mapColumn: mapColumnWithin(this.session.packetBytes, this.session.isMysql),
    holds: holdsAsJson,
    isTypeOf,
    widens,
  };

  constructor(session: Session, foldsTables: boolean) {
    const altered = new Set<string>();
    super(mysqlDialect({ collation: session.collation, foldsTables, altered }), session);
    this.#altered = altered;
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const rows = await this.session.rows(
      `SELECT t.TABLE_NAME AS name, t.TABLE_TYPE AS type, t.ENGINE AS engine, t.TABLE_COMMENT AS comment, e.TRANSACTIONS AS transactions
       FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
       WHERE t.TABLE_SCHEMA = database() AND lower(t.TABLE_NAME) = lower(?)`,
      [table],
    );
    const row = rows.find(({ name }) => name === table || this.dialect.foldsTables);
    if (row === undefined) return undefined;
    if (row.type !== 'BASE TABLE') throw notATable(table, 'not a table');
    if (row.transactions !== 'YES') {
      throw loadRefused(`table "${table}" has the engine ${row.engine}, which has no transactions`, {
        hint: `ALTER TABLE ${identifier(table)} ENGINE=InnoDB; or give the stream another table with \`table:\``,
      });
    }
    const columns = await this.session.rows(`SHOW FULL COLUMNS FROM ${identifier(table)}`);
    for (const { Field, Type, Collation } of columns)
      if (Collation !== this.session.collation && holdsTexts(String(Type)))
        this.#altered.add(identifier(String(Field)));
    return {
      // Two columns of one type differ if they compare texts in another way.
      columns: columns.map(({ Field, Type, Collation }) => ({
        name: String(Field),
        type: Collation === null ? String(Type) : `${Type} collate ${Collation}`,
      })),
      comment: String(row.comment),
    };
  }
}

/** Connects, with the session settings that loads rely on. */
export async function openMysql({ options }: DestinationContext<typeof mysqlOptions>): Promise<TableDestination> {
  const session = await Session.open(options);
  const [server] = await session.rows('SELECT @@lower_case_table_names AS folds');
  return new MysqlDestination(session, Number(server?.folds) > 0);
}

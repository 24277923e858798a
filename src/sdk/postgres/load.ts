import { quoteIdentifier, sqlText } from '../../core/sql.js';
import type { TableDestination } from '../destination.js';
import { notATable } from '../errors.js';
import { columnsIn, type FoundColumns } from '../sql/dialect.js';
import { SqlDestination } from '../sql/sql-destination.js';
import { postgresDialect } from './dialect.js';
import type { PostgresContext, PostgresFamily } from './family.js';
import { PostgresSession } from './session.js';

/**
 * Despite IF NOT EXISTS, PostgreSQL fails if two sessions create the same thing at once, so they take this lock. It lasts until
 * the end of the statements that are sent with it.
 */
const oneAtATime = "SELECT pg_advisory_xact_lock(hashtext('cdsync'))";

/** Tables of one schema, over one connection. */
class PostgresDestination extends SqlDestination<PostgresSession> {
  constructor(session: PostgresSession, { dialect }: PostgresFamily) {
    super(postgresDialect(session.rights.schema, dialect), session);
  }

  protected override async createPlace(): Promise<void> {
    const { schema } = this.session.rights;
    const count = await this.number(`SELECT count(*) FROM pg_namespace WHERE nspname = ${sqlText(schema)}`);
    if (count === 0) await this.session.run(`${oneAtATime}; CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)}`);
  }

  protected override async createOwn(sql: string): Promise<void> {
    await this.session.run(`${oneAtATime}; ${sql}`);
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const { schema } = this.session.rights;
    const rows = await this.session.rows(
      `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, c.relkind AS kind,
         obj_description(c.oid, 'pg_class') AS comment, pg_has_role(c.relowner, 'USAGE') AS owned
       FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       WHERE c.oid = to_regclass(${sqlText(this.dialect.table(table))}) ORDER BY a.attnum`,
    );
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.kind !== 'r' && first.kind !== 'p') throw notATable(`${schema}.${table}`, 'not a table');
    const columns = columnsIn(rows.filter(({ name }) => name !== null));
    const comment = first.comment === null ? null : String(first.comment);
    return { columns, comment: first.owned === true ? comment : undefined };
  }
}

export async function openPostgres(context: PostgresContext, family: PostgresFamily): Promise<TableDestination> {
  return new PostgresDestination(await PostgresSession.open(context, family), family);
}

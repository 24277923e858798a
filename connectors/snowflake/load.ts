import {
  columnsIn,
  type DestinationContext,
  type FoundColumns,
  notATable,
  quoteIdentifier,
  SqlDestination,
  type TableDestination,
} from '../../src/sdk/index.js';
import { literal, snowflakeDialect } from './dialect.js';
import type { snowflakeOptions } from './options.js';
import type { SnowflakeSdk } from './sdk.js';
import { Session } from './session.js';

/** Tables of one schema, in one session. */
class SnowflakeDestination extends SqlDestination<Session> {
  constructor(session: Session) {
    super(snowflakeDialect(session.id), session);
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    // A table can only be altered, and so commented on, by a role that owns it.
    const [row] = await this.session.rows(
      `SELECT TABLE_TYPE AS "type", COMMENT AS "comment", IS_ROLE_IN_SESSION(TABLE_OWNER) AS "owned"
       FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = CURRENT_SCHEMA() AND TABLE_NAME = ${literal(table)}`,
    );
    if (row === undefined) return undefined;
    if (row.type !== 'BASE TABLE') throw notATable(table, `a ${String(row.type).toLowerCase()}`);
    const columns = await this.session.rows(`DESCRIBE TABLE ${quoteIdentifier(table)}`);
    const comment = row.comment === null ? null : String(row.comment);
    return { columns: columnsIn(columns), comment: row.owned === true ? comment : undefined };
  }
}

/** Connects, with the session settings that loads rely on. */
export async function openSnowflake(
  sdk: SnowflakeSdk,
  { options }: DestinationContext<typeof snowflakeOptions>,
): Promise<TableDestination> {
  return new SnowflakeDestination(await Session.open(sdk, options));
}

import {
  type DestinationCheck,
  type DestinationContext,
  describeTables,
  type MissingRight,
} from '../../src/sdk/index.js';
import { grantHint, neededRights } from './errors.js';
import { clickhouseSession, openClickhouse } from './load.js';
import type { clickhouseOptions } from './options.js';
import type { Session } from './session.js';
import { identifier, mapColumn } from './types.js';

/** Servers before 24.9 have no CHECK GRANT; no right can be asked for there. */
async function lacksRight(session: Session, right: string, database: string): Promise<boolean> {
  const [row] = await session.rows(`CHECK GRANT ${right} ON ${identifier(database)}.*`).catch(() => []);
  return row !== undefined && Number(Object.values(row)[0]) === 0;
}

/** Logs in, asks which permissions there are, and describes the tables that are there. */
export async function checkClickhouse(
  context: DestinationContext<typeof clickhouseOptions>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const { database, username: user } = context.options;
  const session = clickhouseSession(context);
  const lacks: MissingRight[] = [];
  try {
    const [about] = await session.rows('SELECT version() AS version');
    const missing: string[] = [];
    for (const right of neededRights) if (await lacksRight(session, right, database)) missing.push(right);
    if (missing.length > 0)
      lacks.push({
        message: `${user} lacks ${missing.join(', ')} on ${database}.*`,
        hint: grantHint({ user, database }),
      });
    await describeTables(openClickhouse(context), tables, { mapColumn });
    return { reached: `ClickHouse ${about?.version}, database ${database}`, lacks };
  } finally {
    await session.close();
  }
}

import {
  type DestinationCheck,
  type DestinationContext,
  describeTables,
  type MissingRight,
} from '../../src/sdk/index.js';
import { localInfile, needed, permissionLack } from './errors.js';
import { openMysql } from './load.js';
import type { mysqlOptions } from './options.js';
import { Session } from './session.js';
import { mapColumn } from './types.js';

/** Whether a grant's database pattern, with `%` and `_` as in LIKE, is that of this database. */
function matches(pattern: string, database: string): boolean {
  if (pattern === '*') return true;
  const parts = pattern.split(/(\\.|%|_)/).map((part) => {
    if (part === '%') return '.*';
    if (part === '_') return '.';
    return part.replace(/^\\(?=.)/, '').replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's').test(database);
}

/** The privileges of these GRANT statements on a database; undefined if roles, which they only name, may give more. */
export function grantedOn(database: string, grants: readonly string[]): ReadonlySet<string> | undefined {
  const granted = new Set<string>();
  for (const grant of grants) {
    const [, privileges = '', on = ''] =
      /^GRANT (.*) ON (?:(?:TABLE )?)((?:`(?:[^`]|``)+`|\*)\.\*) TO /s.exec(grant) ?? [];
    // The words of a role have no ON.
    if (privileges === '' && !/ ON /.test(grant)) return undefined;
    const pattern = on
      .slice(0, -2)
      .replace(/^`(.*)`$/s, '$1')
      .replaceAll('``', '`');
    if (on === '' || !matches(pattern, database)) continue;
    for (const privilege of privileges.split(',')) granted.add(privilege.trim().toUpperCase());
  }
  return granted;
}

/** Logs in, reads the user's grants, and describes the tables that are there. */
export async function checkMysql(
  context: DestinationContext<typeof mysqlOptions>,
  tables: readonly string[],
): Promise<DestinationCheck> {
  const session = await Session.open(context.options);
  try {
    const [about] = await session.rows(
      'SELECT version() AS version, current_user() AS user, @@local_infile AS takes_files',
    );
    const grants = (await session.rows('SHOW GRANTS')).map((row) => String(Object.values(row)[0]));
    const granted = grantedOn(session.database, grants);
    const lacks: MissingRight[] = [];
    const missing = granted?.has('ALL PRIVILEGES')
      ? []
      : needed.split(', ').filter((name) => granted?.has(name) === false);
    if (missing.length > 0)
      lacks.push(permissionLack(missing.join(', '), { user: String(about?.user), database: session.database }));
    if (!['1', 'ON'].includes(String(about?.takes_files)))
      lacks.push({
        message: 'the server does not allow LOAD DATA LOCAL',
        hint: localInfile,
      });
    await describeTables(openMysql(context), tables, { mapColumn });
    return {
      reached: `${/mariadb/i.test(String(about?.version)) ? 'MariaDB' : 'MySQL'} ${about?.version}, database ${session.database}`,
      lacks,
    };
  } finally {
    await session.close();
  }
}

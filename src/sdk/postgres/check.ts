import { quoteIdentifier } from '../../core/sql.js';
import type { DestinationCheck, MissingRight, TableConnector } from '../destination.js';
import { describeTables } from '../opened-destination.js';
import { loadsTable, stateTable } from '../sql/state-rows.js';
import { postgresError, type Rights } from './errors.js';
import type { PostgresContext, PostgresFamily } from './family.js';
import { openPostgres } from './load.js';
import { PostgresSession } from './session.js';

type Row = Record<string, unknown>;

const about = `SELECT split_part(current_setting('server_version'), ' ', 1) AS version,
  has_database_privilege(current_database(), 'TEMPORARY') AS temporary,
  has_database_privilege(current_database(), 'CREATE') AS creates,
  pg_is_in_recovery() AS replica,
  (SELECT count(*)::int FROM pg_namespace WHERE nspname = $1) AS schemas,
  (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1) AS uses,
  (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1) AS fills`;

const needed = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

const tables = `SELECT c.relname AS name, c.relkind IN ('r', 'p') AS is_table,
  array_to_string(array(SELECT p FROM unnest($2::text[]) AS p WHERE NOT has_table_privilege(c.oid, p)), ', ') AS lacks
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = ANY($3::text[])`;

function lacking(what: string, statement: string): MissingRight {
  return { message: what, hint: `an owner can grant it: ${statement};` };
}

function lacksOf(row: Row, rows: readonly Row[], wanted: readonly string[], rights: Rights): MissingRight[] {
  const { user, database, schema } = rights;
  const to = `TO ${quoteIdentifier(user)}`;
  const lacks: MissingRight[] = [];
  const onDatabase = `ON DATABASE ${quoteIdentifier(database)} ${to}`;
  if (row.replica === true)
    lacks.push({ message: 'the server is a replica, and takes no loads', hint: 'name its primary in the URL' });
  if (row.temporary !== true)
    lacks.push(lacking(`${user} may create no temporary tables`, `GRANT TEMPORARY ${onDatabase}`));
  const isThere = Number(row.schemas) > 0;
  if (!isThere && row.creates !== true)
    lacks.push(
      lacking(
        `there is no schema ${schema}, and ${user} may not create it`,
        `CREATE SCHEMA ${quoteIdentifier(schema)} AUTHORIZATION ${quoteIdentifier(user)}`,
      ),
    );
  const onSchema = `ON SCHEMA ${quoteIdentifier(schema)} ${to}`;
  if (isThere && row.uses !== true)
    return [...lacks, lacking(`${user} may not use schema ${schema}`, `GRANT USAGE, CREATE ${onSchema}`)];
  const missing = wanted.filter((name) => !rows.some((right) => right.name === name));
  if (isThere && row.fills !== true && missing.length > 0)
    lacks.push(lacking(`${user} may create no tables in schema ${schema}`, `GRANT CREATE ${onSchema}`));
  for (const { name, is_table, lacks: rightsOf } of rows) {
    const table = `${quoteIdentifier(schema)}.${quoteIdentifier(String(name))}`;
    if (is_table !== true)
      lacks.push({ message: `${table} is not a table`, hint: 'give the stream another one with `table:`' });
    else if (rightsOf !== '')
      lacks.push(lacking(`${user} lacks ${rightsOf} on ${table}`, `GRANT ${rightsOf} ON ${table} ${to}`));
  }
  return lacks;
}

/** Logs in and asks the catalog which permissions there are. */
export async function checkPostgres(
  context: PostgresContext,
  wanted: readonly string[],
  family: PostgresFamily,
  mapColumn: TableConnector['mapColumn'],
): Promise<DestinationCheck> {
  const { client, rights } = await PostgresSession.open(context, family);
  const { product, schema, database } = rights;
  const all = [...wanted, stateTable, loadsTable];
  try {
    const [row = {}] = (await client.query<Row>(about, [schema])).rows;
    const { rows } = await client.query<Row>(tables, [schema, needed, all]);
    await describeTables(openPostgres(context, family), [], { mapColumn });
    const reached = `${product} ${row.version}, database ${database}, schema ${schema}${Number(row.schemas) > 0 ? '' : ', which the first load creates'}`;
    return { reached, lacks: lacksOf(row, rows, all, rights) };
  } catch (error) {
    throw postgresError(error, rights);
  } finally {
    await client.end().catch(() => undefined);
  }
}

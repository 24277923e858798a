import { dirname } from 'node:path';
import {
  type DestinationCheck,
  type DestinationContext,
  describeTables,
  isThere,
  type MissingRight,
  orClose,
  quoteIdentifier,
  sqlText,
  unwritable,
} from '../../src/sdk/index.js';
import { catalogOf, catalogPlace, dataPlace, lake } from './catalog.js';
import { DucklakeDestination } from './load.js';
import type { DucklakeShape } from './options.js';
import { catalogConnection, type LakeSession, openBare, openLake } from './session.js';

type Context = DestinationContext<DucklakeShape>;

const needed = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

interface PostgresFindings {
  readonly hasLake: boolean;
  readonly lacks: readonly MissingRight[];
}

/** Asks PostgreSQL itself: DuckLake reports missing rights only when it writes. */
async function lookAtPostgres(session: LakeSession, context: Context): Promise<PostgresFindings> {
  const schema = context.options.catalogSchema ?? 'public';
  const to = (await catalogConnection(context)) ?? '';
  await session.run(`ATTACH ${sqlText(to)} AS asked (TYPE postgres, SECRET cdsync_catalog, READ_ONLY)`);
  const rights = needed.map((right) => `has_table_privilege(c.oid, ${sqlText(right)})`).join(' AND ');
  const query = `SELECT current_user AS who, current_database() AS db,
    has_database_privilege(current_database(), 'CREATE') AS creates,
    (SELECT count(*) FROM pg_namespace WHERE nspname = ${sqlText(schema)}) AS schemas,
    coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = ${sqlText(schema)}), false) AS fills,
    (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ${sqlText(schema)} AND c.relname = 'ducklake_metadata') AS lakes,
    (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ${sqlText(schema)}
     AND c.relkind = 'r' AND c.relname LIKE 'ducklake%' AND NOT (${rights})) AS closed`;
  const [row = {}] = await session.rows(`SELECT * FROM postgres_query('asked', ${sqlText(query)})`);
  await session.run('DETACH asked');
  const grantee = `TO ${quoteIdentifier(String(row.who))}`;
  const grant = (message: string, statement: string): MissingRight => ({
    message,
    hint: `an owner can grant it: ${statement};`,
  });
  const lacks: MissingRight[] = [];
  const on = quoteIdentifier(schema);
  if (Number(row.schemas) === 0 && row.creates !== true)
    lacks.push(
      grant(
        `there is no schema ${schema}, and ${row.who} may not create it`,
        `CREATE SCHEMA ${on} AUTHORIZATION ${quoteIdentifier(String(row.who))}`,
      ),
    );
  if (Number(row.schemas) > 0 && row.fills !== true)
    lacks.push(
      grant(`${row.who} may create no tables in schema ${schema}`, `GRANT USAGE, CREATE ON SCHEMA ${on} ${grantee}`),
    );
  if (Number(row.closed) > 0)
    lacks.push(
      grant(
        `${row.who} may not write all tables of the catalog`,
        `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${on} ${grantee}`,
      ),
    );
  return { hasLake: Number(row.lakes) > 0, lacks };
}

/** Describes the tables, and looks whether the folder of the lake's files may be written. */
async function lookAtLake(context: Context, tables: readonly string[]): Promise<MissingRight[]> {
  const session = await openLake(context, 'look');
  const [row] = await orClose(session, () => session.rows(`SELECT data_path FROM ducklake_settings('${lake}')`));
  await describeTables(Promise.resolve(new DucklakeDestination(session, context)), tables);
  const data = String(row?.data_path);
  return data.includes('://') ? [] : unwritable([data]);
}

/** Connects to the catalog and the data as a load does, and reads each table. */
export async function checkLake(context: Context, tables: readonly string[]): Promise<DestinationCheck> {
  const { options } = context;
  const catalog = catalogOf(options);
  const data = dataPlace(options);
  const place = `${catalogPlace(options)}, schema ${options.schema}`;
  const session = await openBare(context);
  const lacks: MissingRight[] = [];
  let hasLake: boolean;
  try {
    if (catalog.type === 'postgres') {
      const findings = await lookAtPostgres(session, context);
      lacks.push(...findings.lacks);
      hasLake = findings.hasLake;
    } else {
      hasLake = await isThere(catalog.file);
      lacks.push(...(await unwritable([dirname(catalog.file), ...(hasLake ? [catalog.file] : [])])));
    }
    if (options.dataUrl !== undefined)
      await session.run(`SELECT count(*) FROM (FROM glob(${sqlText(`${data}*`)}) LIMIT 1)`);
  } finally {
    await session.close();
  }
  const untried = options.dataUrl === undefined ? undefined : 'writing to the bucket is tested by the first load';
  if (hasLake) lacks.push(...(await lookAtLake(context, tables)));
  else if (data === undefined)
    lacks.push({ message: 'there is no lake yet', hint: 'say where its Parquet files go: `data_path` or `data_url`' });
  else if (options.dataPath !== undefined) lacks.push(...(await unwritable([options.dataPath])));
  return { reached: hasLake ? place : `${place}, which the first load creates`, lacks, untried };
}

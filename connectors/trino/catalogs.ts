import { loadRefused, permissionMissing, sqlText } from '../../src/sdk/index.js';
import type { TrinoSession } from './client.js';
import { trinoFailureName } from './client-error.js';
import { type ColumnTraits, momentType, usualTraits } from './types.js';

/** The abilities of a kind of catalog by which loads differ. */
export interface CatalogTraits extends ColumnTraits {
  /** Whether it can MERGE. Undefined: Trino is asked for each new table. */
  readonly merges?: boolean;
  /** Whether tables have comments, which say which load they are of. */
  readonly comments?: boolean;
  /** Session properties of the catalog that loads need. */
  readonly session?: Readonly<Record<string, string>>;
  /** MERGE finds rows by the primary key, which only the database's own CREATE TABLE can declare. */
  readonly needsPrimaryKey?: boolean;
}

/** Kinds by `connector.name`. Others are taken as they come. */
const kinds: Readonly<Record<string, CatalogTraits>> = {
  iceberg: { ...usualTraits, merges: true, comments: true, widensDecimals: true },
  // Its timestamps with a zone have milliseconds, those without have microseconds.
  delta_lake: { moment: 'timestamp(6)', merges: true, comments: true },
  postgresql: {
    moment: momentType,
    text: { nul: 'refused' },
    merges: true,
    comments: true,
    // Of several statements in the database: a MERGE that is cut short is repeated.
    session: { non_transactional_merge: 'true' },
    needsPrimaryKey: true,
  },
  memory: { ...usualTraits, merges: false, comments: true },
};

export interface Catalog {
  readonly name: string;
  /** `connector.name` of the catalog; undefined if the user may not ask for it. */
  readonly kind: string | undefined;
  readonly traits: CatalogTraits;
}

export function catalogOf(name: string, kind: string | undefined): Catalog {
  return { name, kind, traits: kinds[kind ?? ''] ?? usualTraits };
}

/** The catalog, as Trino describes it. @throws {CdsyncError} `destination_permission` if there is none of this name */
export async function findCatalog(session: TrinoSession, name: string): Promise<Catalog> {
  const folded = name.toLowerCase();
  try {
    const [row] = await session.rows(
      `SELECT connector_name FROM system.metadata.catalogs WHERE catalog_name = ${sqlText(folded)}`,
    );
    if (row !== undefined) return catalogOf(folded, String(row.connector_name));
  } catch (error) {
    if (trinoFailureName(error) !== 'PERMISSION_DENIED') throw error;
    return catalogOf(folded, undefined);
  }
  throw permissionMissing(`Trino has no catalog "${name}", or the user may not see it`, {
    hint: 'SHOW CATALOGS lists what there is; an administrator adds one with a file in etc/catalog, or CREATE CATALOG',
  });
}

const hints: Readonly<Record<string, string>> = {
  MERGE:
    'use mode append, or a catalog that can MERGE, such as iceberg, delta_lake or postgresql; in PostgreSQL the table needs a primary key of exactly the key columns, which it has if cdsync creates it',
  DELETE:
    'rows that are erased, or of a load that was cut short, must go: delete them in the database itself, then cdsync push --adopt; or drop the table: --recreate',
};

/** The error for a statement that a catalog does not know. */
export function cannot({ name, kind = 'of a kind that the user may not see' }: Catalog, sql: string, error: unknown) {
  const [, verb = ''] = /^(?:EXPLAIN \([^)]*\) )?(\w+)/.exec(sql) ?? [];
  const { message, cause } = error as Error;
  const hint = hints[verb];
  return loadRefused(`catalog ${name} (${kind}) cannot ${verb}: ${message}`, { ...(hint && { hint }), cause });
}

import {
  loadRefused,
  permissionMissing,
  type TrinoSession,
  trinoFailureName,
  trinoText,
} from '../../src/sdk/former/index.js';
import { type ColumnTraits, momentType, usualTraits } from './types.js';

/** What a kind of catalog can do, as far as loads differ by it. */
interface CatalogTraits extends ColumnTraits {
  /** Whether it can MERGE. Undefined: each table is asked. */
  readonly merges?: boolean;
  /** Whether CREATE OR REPLACE TABLE puts new rows in the place of the old ones at once. */
  readonly replaces?: boolean;
  /** Session properties of the catalog that loads need. */
  readonly session?: Readonly<Record<string, string>>;
  /** MERGE finds rows by the primary key, which only the database's own CREATE TABLE can declare. */
  readonly needsPrimaryKey?: boolean;
}

/** Kinds by `connector.name`. Others are taken as they come. */
const kinds: Readonly<Record<string, CatalogTraits>> = {
  iceberg: { ...usualTraits, merges: true, replaces: true },
  // Its timestamps with a zone have milliseconds, those without have microseconds.
  delta_lake: { moment: 'timestamp(6)', merges: true, replaces: true },
  postgresql: {
    moment: momentType,
    text: { nul: 'refused' },
    // Of several statements in the database: a MERGE that is cut short is repeated.
    session: { non_transactional_merge: 'true' },
    needsPrimaryKey: true,
  },
  memory: { ...usualTraits, merges: false, replaces: false },
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

/** The catalog, by what Trino says of it. @throws {CdsyncError} `destination_permission` if there is none of this name */
export async function findCatalog(session: TrinoSession, name: string): Promise<Catalog> {
  const folded = name.toLowerCase();
  try {
    const [found] = await session.rows(
      `SELECT connector_name FROM system.metadata.catalogs WHERE catalog_name = ${trinoText(folded)}`,
    );
    if (found !== undefined) return catalogOf(folded, String(found.connector_name));
  } catch (error) {
    if (trinoFailureName(error) !== 'PERMISSION_DENIED') throw error;
    return catalogOf(folded, undefined);
  }
  throw permissionMissing(`Trino has no catalog "${name}", or the user may not see it`, {
    hint: 'SHOW CATALOGS lists what there is; an administrator adds one with a file in etc/catalog, or CREATE CATALOG',
  });
}

/** The error for what a catalog cannot do. */
export function cannot(
  { name, kind = 'of a kind that the user may not see' }: Catalog,
  what: string,
  hint: string,
  cause?: unknown,
) {
  return loadRefused(`catalog ${name} (${kind}) cannot ${what}`, { hint, cause });
}
